// SPDX-License-Identifier: BSD-3-Clause
// RARP on both kinds of link, with a medium that records frames.
#include "lib/link/ip/rarp_agent.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/link_fakes.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

wire::HwAddr host(wire::LinkKind kind, unsigned n) {
  if (kind == wire::LinkKind::kInfiniband)
    return wire::LinkAddr{0, wire::Be24{0x40 + n}, wire::Gid::of(wire::kDefaultGidPrefix, n)};
  if (kind == wire::LinkKind::kIbarp)
    return wire::IbarpAddr{wire::Be64{n}, 0, wire::Be24{0x40 + n}, wire::Be32{0x1000 + n},
                           wire::Gid::of(wire::kDefaultGidPrefix, n)};
  return wire::MacAddr{std::byte{2}, {}, {}, {}, {}, static_cast<std::byte>(n)};
}

class Rarp : public ::testing::TestWithParam<wire::LinkKind>, private Medium {
 protected:
  [[nodiscard]] static wire::HwAddr hw(unsigned n) { return host(GetParam(), n); }
  void receive_arp(wire::ArpOp op, const wire::HwAddr& sender, const wire::HwAddr& target,
                   std::uint32_t target_ip = 0) {
    agent.on_rarp({op, sender, 0, target, target_ip}, now);
  }
  void run_for(Duration d) {
    const auto end = now + d;
    for (auto due = agent.next_deadline(); due && *due <= end; due = agent.next_deadline()) {
      now = std::max(now, *due);
      agent.tick(now);
    }
    now = end;
  }

  TimePoint now{100s};
  RarpConfig config{{{hw(7), ip("10.0.0.7")}}, true, 24};
  std::vector<wire::IpPrefix> addresses{prefix("10.0.0.1/24")};
  std::vector<wire::Arp> broadcasts, unicasts;
  std::vector<wire::HwAddr> receivers;  ///< The receivers of `unicasts`.
  std::vector<wire::IpPrefix> told;
  RarpAgent agent{config, addresses, *this,
                  [this](const wire::IpPrefix& own, TimePoint) { told.push_back(own); }};

 private:
  static wire::Arp parsed(wire::EtherType type, std::span<const std::byte> octets) {
    EXPECT_EQ(type, wire::EtherType::kRarp);
    return wire::parse_arp(GetParam(), octets).value();
  }
  [[nodiscard]] wire::HwAddr own_hw() const override { return hw(1); }
  [[nodiscard]] wire::HwAddr broadcast_hw() const override { return hw(255); }
  void broadcast(wire::EtherType type, std::span<const std::byte> arp) override {
    broadcasts.push_back(parsed(type, arp));
  }
  void send(const wire::HwAddr& to, wire::EtherType type, std::span<const std::byte> arp,
            TimePoint) override {
    receivers.push_back(to);
    unicasts.push_back(parsed(type, arp));
  }
  bool send_to_group(const wire::IpAddr&, std::span<const std::byte>, TimePoint) override {
    ADD_FAILURE() << "RARP sends to no group";
    return false;
  }
  Status join_group(const wire::IpAddr&, TimePoint) override { return {}; }
  Status leave_group(const wire::IpAddr&, TimePoint) override { return {}; }
};
INSTANTIATE_TEST_SUITE_P(Media, Rarp,
                         ::testing::Values(wire::LinkKind::kInfiniband, wire::LinkKind::kEthernet,
                                           wire::LinkKind::kIbarp));

TEST_P(Rarp, U24_ServedHostsLearnTheirAddressOthersNothing) {
  const auto asker = hw(9);
  for (const unsigned n : {7U, 8U}) receive_arp(wire::ArpOp::kRarpRequest, asker, hw(n));
  ASSERT_EQ(unicasts.size(), 1U);
  const auto& reply = unicasts[0];
  EXPECT_EQ(receivers[0], asker);
  EXPECT_EQ(reply.op, wire::ArpOp::kRarpReply);
  EXPECT_EQ(reply.target_hw, hw(7));
  EXPECT_EQ(reply.target_ip, ip("10.0.0.7").v4_host());
  EXPECT_EQ(reply.sender_ip, ip("10.0.0.1").v4_host());
  EXPECT_EQ(agent.counters().requests, 2U);
  EXPECT_EQ(agent.counters().answered, 1U);
}

TEST_P(Rarp, U24_OwnAddressIsAskedForABoundedNumberOfTimes) {
  agent.start(now);
  run_for(10min);
  EXPECT_EQ(broadcasts.size(), 6U);
  EXPECT_FALSE(agent.next_deadline());
  EXPECT_EQ(broadcasts[0].op, wire::ArpOp::kRarpRequest);
  EXPECT_EQ(broadcasts[0].target_hw, hw(1));
}

TEST_P(Rarp, U24_OnlyAGoodReplyIsTaken) {
  agent.start(now);
  run_for(1ms);
  const auto reply = [&](unsigned from, unsigned to, std::string_view addr) {
    receive_arp(wire::ArpOp::kRarpReply, hw(from), hw(to), ip(addr).v4_host());
  };
  reply(9, 2, "10.0.0.5");  // a reply for another host
  reply(9, 1, "224.0.0.1");
  reply(9, 1, "0.0.0.0");
  EXPECT_TRUE(told.empty());
  reply(9, 1, "10.0.0.5");
  reply(9, 1, "10.0.0.6");  // the host has its address already
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0], prefix("10.0.0.5/24"));
  EXPECT_EQ(agent.counters().invalid, 4U);
}

}  // namespace
}  // namespace ipoib::link
