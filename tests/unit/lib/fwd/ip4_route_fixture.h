// SPDX-License-Identifier: BSD-3-Clause
// A worker that gets IPv4 packets, most of them by eth0.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {

class Ip4Route : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    start();
  }
  /// Expects one message to management: an ICMP error about `packet`.
  void expect_error(const Ip4& packet, int type, int code, bool ttl_taken_down = false) {
    const Punted p = only_punted();
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kIcmpError);
    EXPECT_EQ(p.message.iface, kEth0);
    EXPECT_EQ(p.message.icmp_type, type);
    EXPECT_EQ(p.message.icmp_code, code);
    EXPECT_EQ(p.bytes, ttl_taken_down ? forwarded(packet) : packet.bytes());
  }
  /// Expects one message to management: `packet`, with its TTL decremented, waits for `wanted` on
  /// ib0.
  void expect_wanted(const Ip4& packet, std::string_view wanted) {
    const Punted p = only_punted();
    EXPECT_EQ(p.message.kind, msg::Up::Kind::kNeighbourWanted);
    EXPECT_EQ(p.message.iface, kIb0);
    EXPECT_EQ(p.message.addr, *wire::parse_ip(wanted));
    EXPECT_EQ(p.bytes, forwarded(packet));
    EXPECT_EQ(all_drops(), 0U);
  }
  using WorkerFixture::feed;
  void feed(const Ip4& packet) { feed(kEth0, to_eth0(packet.bytes())); }
};

}  // namespace ipoib::fwd::test
