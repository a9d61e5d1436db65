// SPDX-License-Identifier: BSD-3-Clause
// RARP on both media, with a transport that records frames.
#include "lib/link/rarp_agent.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/lib/link/fakes.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

template <class Hw>
Hw host(unsigned n);
template <>
wire::MacAddr host<wire::MacAddr>(unsigned n) {
  return {std::byte{2}, {}, {}, {}, {}, static_cast<std::byte>(n)};
}
template <>
wire::LinkAddr host<wire::LinkAddr>(unsigned n) {
  return {0, wire::Be24{0x40 + n}, wire::Gid::of(wire::kDefaultGidPrefix, n)};
}

template <class Hw>
class Rarp : public ::testing::Test, public ArpTransport<Hw> {
 protected:
  [[nodiscard]] Hw own_hw() const override { return host<Hw>(1); }
  void broadcast_arp(std::span<const std::byte> arp) override {
    broadcasts.push_back(*wire::parse_arp<Hw>(arp));
  }
  void unicast_arp(const Hw& to, std::span<const std::byte> arp, TimePoint) override {
    last_to = to;
    unicasts.push_back(*wire::parse_arp<Hw>(arp));
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
  RarpConfig<Hw> config{{{host<Hw>(7), ip("10.0.0.7")}}, true, 24};
  std::vector<wire::IpPrefix> addresses{prefix("10.0.0.1/24")};
  std::vector<wire::Arp<Hw>> broadcasts, unicasts;
  Hw last_to{};
  std::vector<wire::IpPrefix> told;
  RarpAgent<Hw> agent{config, addresses, *this,
                      [this](const wire::IpPrefix& own, TimePoint) { told.push_back(own); }};
};
using Media = ::testing::Types<wire::LinkAddr, wire::MacAddr>;
TYPED_TEST_SUITE(Rarp, Media);

TYPED_TEST(Rarp, U24_ServedHostsLearnTheirAddressOthersNothing) {
  const auto asker = host<TypeParam>(9);
  for (const unsigned n : {7U, 8U})
    this->agent.on_rarp(
        wire::make_arp<TypeParam>(wire::ArpOp::kRarpRequest, asker, 0, host<TypeParam>(n), 0),
        this->now);
  ASSERT_EQ(this->unicasts.size(), 1U);
  const auto& reply = this->unicasts[0];
  EXPECT_EQ(this->last_to, asker);
  EXPECT_EQ(reply.op.host(), 4);
  EXPECT_EQ(reply.target_hw, host<TypeParam>(7));
  EXPECT_EQ(reply.target_ip.host(), ip("10.0.0.7").v4_host());
  EXPECT_EQ(reply.sender_ip.host(), ip("10.0.0.1").v4_host());
  EXPECT_EQ(this->agent.counters().requests, 2U);
  EXPECT_EQ(this->agent.counters().answered, 1U);
}

TYPED_TEST(Rarp, U24_OwnAddressIsAskedForABoundedNumberOfTimes) {
  this->agent.start(this->now);
  this->run_for(10min);
  EXPECT_EQ(this->broadcasts.size(), 6U);
  EXPECT_FALSE(this->agent.next_deadline());
  EXPECT_EQ(this->broadcasts[0].op.host(), 3);
  EXPECT_EQ(this->broadcasts[0].target_hw, host<TypeParam>(1));
}

TYPED_TEST(Rarp, U24_OnlyAGoodReplyIsTaken) {
  this->agent.start(this->now);
  this->run_for(1ms);
  const auto hear = [&](unsigned from, unsigned to, std::string_view addr) {
    this->agent.on_rarp(wire::make_arp<TypeParam>(wire::ArpOp::kRarpReply, host<TypeParam>(from), 0,
                                                  host<TypeParam>(to), ip(addr).v4_host()),
                        this->now);
  };
  hear(9, 2, "10.0.0.5");  // a reply for another host
  hear(9, 1, "224.0.0.1");
  hear(9, 1, "0.0.0.0");
  EXPECT_TRUE(this->told.empty());
  hear(9, 1, "10.0.0.5");
  hear(9, 1, "10.0.0.6");  // the host has its address already
  ASSERT_EQ(this->told.size(), 1U);
  EXPECT_EQ(this->told[0], prefix("10.0.0.5/24"));
  EXPECT_EQ(this->agent.counters().invalid, 4U);
}

}  // namespace
}  // namespace ipoib::link
