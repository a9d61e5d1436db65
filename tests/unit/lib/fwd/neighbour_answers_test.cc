// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/answers/neighbour_answers.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <vector>

#include "lib/wire/arp.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/nd.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

constexpr std::string_view kRouter = "192.168.1.1", kRouter6 = "fd00:1::1",
                           kRouterLocal = "fe80::a0";
const wire::MacAddr kToAll = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                              std::byte{0xff}, std::byte{0xff}, std::byte{0xff}};

/// Management takes one request of strangers an interval. The others find no room.
class NeighbourAnswersTest : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    own_addresses.add(wire::IpAddr::v4(addr(kRouter)));
    own_addresses.add(*wire::parse_ip(kRouter6));
    configs[0].punt.interval_us = 100'000'000;
    configs[0].punt.arp = configs[0].punt.nd = 2;
    configs[0].punt.answers = 2 * kAnswers;
    start();
    for (const std::string_view own : {kRouter6, kRouterLocal})
      set_delivery(kEth0, wire::to_string(wire::solicited_node(*wire::parse_ip(own))), true, 0);
    set_delivery(kEth0, kRouterLocal, true, 0);
    set_neighbour(0, eth_neighbour(kEth0, "192.168.1.9", mac(0x99)));
    loop();
    feed(kEth0, request("192.168.1.200"));
    feed(kEth0, solicitation("fd00:1::200"));
    EXPECT_EQ(punted().size(), 2U);
    EXPECT_TRUE(sent_by_port(kEth0).empty()) << "management answers while it can";
  }
  /// A broadcast frame from MAC address 02::30 with a request of that sender.
  static Bytes request(std::string_view sender, std::string_view target = kRouter,
                       const wire::Arp& other = {wire::ArpOp::kRequest, mac(0x30), 0, mac(0), 0}) {
    wire::Arp arp = other;
    arp.sender_ip = addr(sender);
    arp.target_ip = addr(target);
    return ethernet(kToAll, mac(0x30), 0x0806, wire::build_arp(arp));
  }
  static wire::NdMessage question(std::string_view source, std::string_view target) {
    wire::NdMessage ns;
    ns.src = *wire::parse_ip(source);
    ns.target = *wire::parse_ip(target);
    ns.dst = wire::solicited_node(ns.target);
    ns.source_hw = mac(0x30);
    return ns;
  }
  static Bytes frame_of(const wire::NdMessage& ns) {
    return ethernet(wire::group_mac(ns.dst), mac(0x30), 0x86dd, wire::build_nd(ns));
  }
  static Bytes solicitation(std::string_view source, std::string_view target = kRouter6) {
    return frame_of(question(source, target));
  }
  /// The frame that answers this one; empty if none does, and the frame is dropped then.
  Bytes answer_to(const Bytes& frame) {
    const auto dropped = all_drops();
    feed(kEth0, frame);
    const auto sent = sent_by_port(kEth0);
    EXPECT_LE(sent.size(), 1U);
    EXPECT_EQ(all_drops() - dropped, sent.empty() ? 1U : 0U);
    EXPECT_TRUE(punted().empty());
    return sent.empty() ? Bytes{} : sent.front();
  }
  std::uint64_t answers() { return worker().stats().answers.get(); }

  static constexpr std::uint32_t kAnswers = 8;
};

TEST_F(NeighbourAnswersTest, P16_ARequestThatManagementHasNoRoomForIsAnswered) {
  Bytes padded = request("192.168.1.201");
  padded.resize(60);
  EXPECT_EQ(answer_to(padded),
            ethernet(mac(0x30), mac(0xa0), 0x0806,
                     wire::build_arp({wire::ArpOp::kReply, mac(0xa0), addr(kRouter), mac(0x30),
                                      addr("192.168.1.201")})));
  EXPECT_EQ(answers(), 1U);
  EXPECT_EQ(drops(kEth0, Drop::kPuntRateLimited), 0U);
}

TEST_F(NeighbourAnswersTest, P16_AProbeIsAnswered) {
  EXPECT_EQ(
      answer_to(request("0.0.0.0")),
      ethernet(mac(0x30), mac(0xa0), 0x0806,
               wire::build_arp({wire::ArpOp::kReply, mac(0xa0), addr(kRouter), mac(0x30), 0})));
}

TEST_F(NeighbourAnswersTest, P16_OtherRecordsAreLeftToManagement) {
  using enum wire::ArpOp;
  EXPECT_TRUE(
      answer_to(request("192.168.1.201", kRouter, {kReply, mac(0x30), 0, mac(0xa0), 0})).empty())
      << "no request";
  for (const auto& sender_hw : {mac(0x31), mac(0), mac(0xa0), kToAll})
    EXPECT_TRUE(
        answer_to(request("192.168.1.201", kRouter, {kRequest, sender_hw, 0, mac(0), 0})).empty())
        << wire::to_string(sender_hw);
  for (const char* sender : {"192.168.1.1", "192.168.2.9", "10.0.0.9", "8.8.8.8", "10.0.255.255"})
    EXPECT_TRUE(answer_to(request(sender)).empty()) << sender;
  for (const char* target : {"10.0.0.1", "192.168.1.9"})
    EXPECT_TRUE(answer_to(request("192.168.1.9", target)).empty()) << target;
  Bytes wrong = request("192.168.1.201");
  wrong[14 + 1] = std::byte{6};  // Hardware type.
  EXPECT_TRUE(answer_to(wrong).empty());
  entries[kEth0].up = false;
  EXPECT_TRUE(answer_to(request("192.168.1.201")).empty());
  EXPECT_EQ(answers(), 0U);
}

TEST_F(NeighbourAnswersTest, P16_ASolicitationThatManagementHasNoRoomForIsAnswered) {
  for (const auto& [source, target] :
       {std::pair{"fd00:1::201", kRouter6}, {"fe80::30", kRouter6}, {"fe80::30", kRouterLocal}}) {
    wire::NdMessage na;
    na.type = wire::Icmp6Type::kNeighbourAdvertisement;
    na.src = na.target = *wire::parse_ip(target);
    na.dst = *wire::parse_ip(source);
    na.router = na.solicited = true;
    na.target_hw = mac(0xa0);
    EXPECT_EQ(answer_to(solicitation(source, target)),
              ethernet(mac(0x30), mac(0xa0), 0x86dd, wire::build_nd(na)))
        << source << ' ' << target;
  }
  EXPECT_EQ(answers(), 3U);
}

TEST_F(NeighbourAnswersTest, P16_OtherSolicitationsAreLeftToManagement) {
  EXPECT_TRUE(answer_to(solicitation("fd00:a::9")).empty()) << "of another network";
  EXPECT_TRUE(answer_to(solicitation("fd00:1::1")).empty()) << "in this node's name";
  EXPECT_TRUE(answer_to(solicitation("fe80::a0")).empty()) << "in this node's name";
  wire::NdMessage ns = question("fd00:1::201", kRouter6);
  ns.source_hw = mac(0x31);
  EXPECT_TRUE(answer_to(frame_of(ns)).empty()) << "another sender";
  ns.source_hw.reset();
  EXPECT_TRUE(answer_to(frame_of(ns)).empty()) << "no link-layer address";
  ns.src = {};
  EXPECT_TRUE(answer_to(frame_of(ns)).empty()) << "duplicate address detection";
  Bytes wrong = solicitation("fd00:1::201");
  wrong[14 + 40 + 2] ^= std::byte{1};  // Checksum.
  EXPECT_TRUE(answer_to(wrong).empty());
  // The address is not in use while duplicate address detection runs.
  add_route("fd00:1::1/128", {table::NextHopKind::kLocalDown, 0, kEth0, table::kNoNeighbour});
  loop();
  EXPECT_TRUE(answer_to(solicitation("fd00:1::201")).empty());
  EXPECT_EQ(answers(), 0U);
}

/// Packets that leave by the port that they came by are in its queue, and so is the answer.
TEST_F(NeighbourAnswersTest, P16_AnswersBetweenForwardedPacketsDisplaceNone) {
  set_neighbour(1, eth_neighbour(kEth0, "fd00:1::9", mac(0x99)));
  loop();
  wire::NdMessage ns = question("fd00:1::201", kRouter6);
  ns.dst = ns.target;
  const Bytes packet =
      ethernet(mac(0xa0), mac(0x30), 0x86dd, Ip6{.src = "fd00:1::30", .dst = "fd00:1::9"}.bytes());
  for (unsigned i = 0; i < 3; ++i) {
    receive(kEth0, packet);
    receive(kEth0, ethernet(mac(0xa0), mac(0x30), 0x86dd, wire::build_nd(ns)));
  }
  loop();
  EXPECT_EQ(answers(), 3U);
  unsigned forwarded = 0;
  const auto sent = sent_by_port(kEth0);
  for (const Bytes& frame : sent) forwarded += frame.size() == packet.size();
  EXPECT_EQ(forwarded, 3U);
  EXPECT_EQ(sent.size(), 6U);
  EXPECT_EQ(all_drops(), 0U);
}

TEST_F(NeighbourAnswersTest, P16_AnswersHaveALimit) {
  for (std::uint32_t i = 0; i < kAnswers; ++i)
    EXPECT_FALSE(answer_to(request("192.168.1.201")).empty());
  EXPECT_TRUE(answer_to(request("192.168.1.201")).empty());
  EXPECT_EQ(drops(kEth0, Drop::kPuntRateLimited), 1U);
  EXPECT_EQ(answers(), kAnswers);
}

}  // namespace
}  // namespace ipoib::fwd::test
