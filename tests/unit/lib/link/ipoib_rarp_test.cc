// SPDX-License-Identifier: BSD-3-Clause
// RARP on an IPoIB link: frames as the fabric carries them, with link-layer addresses of 20 octets.
#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <vector>

#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kEncapsulation = 0x8035'0000;  ///< EtherType, then 16 reserved bits.
constexpr std::uint32_t kHostQpn = 0x50;
constexpr std::uint16_t kHostLid = 3;

class IpoibRarp : public ::testing::Test {
 protected:
  /// The address of a host as its requests name it; `flags` offer connected modes.
  static wire::LinkAddr host(std::uint64_t guid, std::uint8_t flags = 0) {
    return {flags, wire::Be24{kHostQpn}, wire::Gid::of(wire::kDefaultGidPrefix, guid)};
  }
  /// Starts a link that serves host 0xb, and waits until it has announced its addresses.
  void start(const std::function<void(LinkConfig&)>& change = {}) {
    sim.emplace(SimIpoibLink::config_with([&](LinkConfig& c) {
      c.rarp.served = {{host(0xb), ip("10.0.0.7")}};
      if (change) change(c);
    }));
    sim->bring_up();
    sim->add_host(0xb, kHostQpn, kHostLid);
  }
  void start_without_address() {
    start([](LinkConfig& c) {
      c.addresses.clear();
      c.rarp.ask = true;
      c.rarp.prefix_len = 20;
    });
  }
  std::vector<SentFrame> take() { return std::exchange(sim->actions.frames, {}); }
  [[nodiscard]] wire::LinkAddr own() const {
    return {0, wire::Be24{sim->actions.own_qpn}, sim->actions.attr.gid()};
  }
  /// Expects a RARP frame with these octets of record: 8 of header, 20 and 4 of the sender, 20 and 4
  /// of the target. Source: RFC 903; RFC 4391 §6, §9.1.1.
  static void expect_record(const SentFrame& frame, std::uint16_t op, const wire::LinkAddr& sender,
                            std::uint32_t sender_ip, const wire::LinkAddr& target,
                            std::uint32_t target_ip) {
    ASSERT_EQ(frame.bytes.size(), 4U + 56U);
    const auto word = [&](std::size_t at) {
      return wire::read<wire::Be32>(frame.bytes, at)->host();
    };
    EXPECT_EQ(word(0), kEncapsulation);
    EXPECT_EQ(word(4), 0x0020'0800U);  // Hardware type 32, protocol IPv4.
    EXPECT_EQ(word(8), 0x1404'0000U | op);
    EXPECT_EQ(wire::read<wire::LinkAddr>(frame.bytes, 12), sender);
    EXPECT_EQ(word(32), sender_ip);
    EXPECT_EQ(wire::read<wire::LinkAddr>(frame.bytes, 36), target);
    EXPECT_EQ(word(56), target_ip);
  }

  std::optional<SimIpoibLink> sim;
};

TEST_F(IpoibRarp, U24_HostIsGivenItsAddress) {
  start();
  sim->run_for(3s);
  static_cast<void>(take());
  const wire::LinkAddr asker = host(0xb, 0x80);
  sim->receive_arp(wire::ArpOp::kRarpRequest, asker, "0.0.0.0", asker, "0.0.0.0");
  sim->run_for(10ms);
  const auto frames = take();
  ASSERT_EQ(frames.size(), 1U);
  expect_record(frames[0], 4, own(), 0x0a00'0001, asker, 0x0a00'0007);
  // It goes to the host alone, on the path that the SA names.
  EXPECT_EQ(frames[0].qpn, kHostQpn);
  EXPECT_EQ(frames[0].to.dlid, kHostLid);
  ASSERT_EQ(sim->sa.path_queries.size(), 1U);
  EXPECT_EQ(wire::read<wire::PathRecord>(sim->sa.path_queries[0].data)->dgid, asker.gid);
  EXPECT_TRUE(sim->link.neighbours(sim->now).empty())
      << "a host without an address is no neighbour";
  EXPECT_EQ(sim->link.counters().rarp.answered, 1U);
  EXPECT_EQ(sim->link.counters().arp_received, 0U) << "RARP is not ARP";
}

/// One host asks for another, which is elsewhere on the link: the answer goes to the one that asked.
TEST_F(IpoibRarp, U24_HostMayAskForAnother) {
  start();
  sim->run_for(3s);
  static_cast<void>(take());
  const wire::LinkAddr asker = sim->add_host(0xc, 0x60, 4);
  sim->receive_arp(wire::ArpOp::kRarpRequest, asker, "10.0.0.9", host(0xb), "0.0.0.0");
  sim->run_for(10ms);
  const auto frames = take();
  ASSERT_EQ(frames.size(), 1U);
  expect_record(frames[0], 4, own(), 0x0a00'0001, host(0xb), 0x0a00'0007);
  EXPECT_EQ(frames[0].qpn, 0x60U);
  EXPECT_EQ(frames[0].to.dlid, 4);
}

/// A host of the same port with another QPN is another interface, and so is a QPN at another port.
TEST_F(IpoibRarp, U24_UnknownHostsGetNoAnswer) {
  start();
  sim->run_for(3s);
  static_cast<void>(take());
  wire::LinkAddr other_qpn = host(0xb);
  other_qpn.qpn = wire::Be24{kHostQpn + 1};
  for (const wire::LinkAddr& asker : {other_qpn, host(0xc)})
    sim->receive_arp(wire::ArpOp::kRarpRequest, asker, "0.0.0.0", asker, "0.0.0.0");
  sim->receive_arp(wire::ArpOp::kRarpRequest, own(), "0.0.0.0", own(), "0.0.0.0");
  sim->run_for(10s);
  EXPECT_TRUE(take().empty());
  EXPECT_TRUE(sim->sa.path_queries.empty());
  EXPECT_EQ(sim->link.counters().rarp.requests, 2U) << "its own one came back from the fabric";
  EXPECT_EQ(sim->link.counters().rarp.answered, 0U);
}

TEST_F(IpoibRarp, U24_OwnAddressIsAskedForAndUsed) {
  start_without_address();
  auto frames = take();
  ASSERT_EQ(frames.size(), 1U);
  expect_record(frames[0], 3, own(), 0, own(), 0);
  EXPECT_TRUE(frames[0].broadcast());
  EXPECT_EQ(frames[0].to.dgid, sim->sa.group.mgid);
  EXPECT_TRUE(sim->link.addresses().empty());

  const wire::LinkAddr server = host(0xb);
  sim->receive_arp(wire::ArpOp::kRarpReply, server, "10.0.0.2", host(0xc), "10.0.0.43");
  EXPECT_TRUE(sim->link.addresses().empty()) << "the answer is another host's";
  sim->receive_arp(wire::ArpOp::kRarpReply, server, "10.0.0.2", own(), "10.0.0.44");
  EXPECT_EQ(sim->link.addresses(), std::vector{prefix("10.0.0.44/20")});
  sim->run_for(5min);
  EXPECT_EQ(sim->link.counters().rarp.asked, 1U) << "it asks no more";

  // The node announces the address, and answers for it.
  frames = take();
  ASSERT_FALSE(frames.empty());
  const auto announcement = frames[0].arp();
  ASSERT_TRUE(announcement);
  EXPECT_EQ(wire::read<wire::Be32>(frames[0].bytes)->host(), 0x0806'0000U);
  EXPECT_EQ(announcement->sender_ip, 0x0a00'002cU);
  EXPECT_EQ(announcement->target_ip, 0x0a00'002cU);
  sim->receive_arp_request(server, "10.0.0.2", "10.0.0.44");
  sim->run_for(10ms);
  frames = take();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].arp()->op, wire::ArpOp::kReply);
  EXPECT_EQ(frames[0].arp()->sender_ip, 0x0a00'002cU);

  sim->link.stop(sim->now);
  sim->run_for(3s);
  EXPECT_TRUE(sim->link.addresses().empty()) << "the next start asks again";
}

/// Two nodes: one serves the other, over the octets that they send.
TEST_F(IpoibRarp, U24_OneNodeServesAnother) {
  start_without_address();
  SimIpoibLink server{SimIpoibLink::config_with([&](LinkConfig& c) {
    c.rarp.served = {{own(), ip("10.0.0.77")}};
  })};
  server.actions.attr.guid = 0x0002'c903'0000'00ff;
  server.actions.own_qpn = 0x99;
  server.bring_up();
  server.add_host(sim->actions.attr.guid, sim->actions.own_qpn, sim->actions.attr.lid);
  server.run_for(3s);
  server.actions.frames.clear();
  server.link.on_arp(std::span{take().at(0).bytes}.subspan(4), sim->actions.attr.lid,
                     sim->actions.own_qpn, server.now);
  server.run_for(10ms);
  ASSERT_EQ(server.actions.frames.size(), 1U);
  const SentFrame& answer = server.actions.frames[0];
  EXPECT_EQ(answer.qpn, sim->actions.own_qpn);
  EXPECT_EQ(answer.to.dlid, sim->actions.attr.lid);
  sim->link.on_arp(std::span{answer.bytes}.subspan(4), 9, 0x99, sim->now);
  EXPECT_EQ(sim->link.addresses(), std::vector{prefix("10.0.0.77/20")});
}

}  // namespace
}  // namespace ipoib::link
