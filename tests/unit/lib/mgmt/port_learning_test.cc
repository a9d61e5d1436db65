// SPDX-License-Identifier: BSD-3-Clause
// The embedded subnet administrator learns a port from each kind of message that a host sends before
// it knows of the administrator's start. A host without IPv4 sends neighbour discovery only.
#include <rte_cycles.h>

#include <algorithm>
#include <memory>

#include "lib/mgmt/stepped_node.h"
#include "lib/wire/arp.h"
#include "lib/wire/nd.h"
#include "tests/unit/lib/mgmt/far_port.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

using wire::Icmp6Type;
using wire::NdMessage;

class PortLearningTest : public NodeFixture {
 protected:
  void SetUp() override {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.ports.clear();
    auto made = SteppedNode::create(c, make_timed_soft, &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(made) << made.error().what;
    node_ = std::move(*made);
    node_->start();
    pass(*node_, 5s);
    ASSERT_EQ(link().state, "up");
    ASSERT_FALSE(knows_port());
    static_cast<void>(port_.take());
  }
  void TearDown() override {
    leave(*node_);
    static_cast<void>(port_.take());
  }
  [[nodiscard]] LinkInfo link() const { return node_->faces().view.links()[0]; }
  [[nodiscard]] SaInfo sa() const { return node_->faces().view.subnet_administration()[0]; }
  [[nodiscard]] bool knows_port() const {
    return std::ranges::any_of(sa().ports, [](const SaInfo::Port& p) {
      return p.gid == FarPort::gid() && p.lid == FarPort::kLid;
    });
  }
  [[nodiscard]] wire::IpAddr node_ip6() const {
    return wire::IpAddr{
        wire::Gid::of(wire::kDefaultGidPrefix, wire::interface_id(config_guid)).bytes};
  }
  /// Sends a packet to the group, as a member that sends only.
  void send_to(const wire::IpAddr& group, std::uint16_t type, std::span<const std::byte> packet) {
    const wire::Gid mgid = wire::mgid_of(group, wire::kDefaultPkey, 2);
    const auto groups = sa().groups;
    const auto row =
        std::ranges::find_if(groups, [&](const SaInfo::Group& g) { return g.mgid == mgid; });
    ASSERT_NE(row, groups.end()) << wire::to_string(group);
    port_.send_to_group(mgid, row->mlid, link().parameters.qkey, type, packet);
  }
  void send_to_node(std::uint16_t type, std::span<const std::byte> packet) {
    port_.send({.dlid = FarPort::kNodeLid, .dest_qp = link().qpn, .qkey = link().parameters.qkey},
               type, packet);
  }
  NdMessage nd(Icmp6Type type, const wire::IpAddr& dst) const {
    NdMessage m;
    m.type = type;
    m.src = FarPort::ip6();
    m.dst = dst;
    m.target = node_ip6();
    m.source_hw = wire::HwAddr{FarPort::address()};
    return m;
  }
  /// The administrator knows the port from now on, so that the node's path query for an answer to it
  /// finds one.
  void expect_learned() {
    pass(*node_, 100ms);
    EXPECT_TRUE(knows_port());
  }
  [[nodiscard]] std::size_t sent_to_port(std::uint16_t type) const {
    const auto packets = port_.take();
    return static_cast<std::size_t>(std::ranges::count_if(packets, [&](const FarPort::Packet& p) {
      return p.type == type && p.frame.iba.lrh.dlid.host() == FarPort::kLid;
    }));
  }

  static constexpr std::uint64_t config_guid = 0x0002'c903'000a'0b01;
  std::unique_ptr<SteppedNode> node_;
  FarPort port_{cable, outside_pool};
};

TEST_F(PortLearningTest, P03_FromAnArpRequest) {
  send_to(wire::IpAddr::v4(0xffff'ffff), 0x0806,
          wire::build_arp({wire::ArpOp::kRequest, FarPort::address(), 0x0a00'0009,
                           wire::HwAddr{wire::LinkAddr{}}, 0x0a00'0001}));
  expect_learned();
  EXPECT_EQ(sent_to_port(0x0806), 1U) << "the answer needs its path";
}

TEST_F(PortLearningTest, P03_FromASolicitationToAGroup) {
  NdMessage m = nd(Icmp6Type::kNeighbourSolicitation, wire::solicited_node(node_ip6()));
  send_to(m.dst, 0x86dd, wire::build_nd(m));
  expect_learned();
  EXPECT_EQ(sent_to_port(0x86dd), 1U) << "the answer needs its path";
}

TEST_F(PortLearningTest, P03_FromASolicitationToTheNode) {
  send_to_node(0x86dd, wire::build_nd(nd(Icmp6Type::kNeighbourSolicitation, node_ip6())));
  expect_learned();
  EXPECT_EQ(sent_to_port(0x86dd), 1U);
}

TEST_F(PortLearningTest, P03_FromAnAdvertisement) {
  NdMessage m = nd(Icmp6Type::kNeighbourAdvertisement, wire::all_nodes());
  m.target = FarPort::ip6();
  m.source_hw.reset();
  m.target_hw = wire::HwAddr{FarPort::address()};
  send_to(m.dst, 0x86dd, wire::build_nd(m));
  expect_learned();
}

TEST_F(PortLearningTest, P03_FromARouterSolicitation) {
  NdMessage m = nd(Icmp6Type::kRouterSolicitation, wire::all_routers());
  m.target = {};
  send_to(m.dst, 0x86dd, wire::build_nd(m));
  expect_learned();
}

TEST_F(PortLearningTest, P03_FromAJoin) {
  port_.request(sa::join_group(wire::broadcast_mgid(wire::kDefaultPkey, 2), FarPort::gid(),
                               wire::kDefaultPkey, wire::join_state::kFullMember));
  expect_learned();
}

TEST_F(PortLearningTest, P03_FromAQueryForAPath) {
  port_.request(sa::find_path(FarPort::gid(), wire::Gid::of(wire::kDefaultGidPrefix, config_guid),
                              wire::kDefaultPkey));
  expect_learned();
}

TEST_F(PortLearningTest, P03_FromAQueryForAMembership) {
  port_.request(sa::find_member(wire::broadcast_mgid(wire::kDefaultPkey, 2), FarPort::gid()));
  expect_learned();
}

/// Messages that do not say which port sent them.
TEST_F(PortLearningTest, NotFromMessagesWithoutItsGid) {
  NdMessage probe = nd(Icmp6Type::kNeighbourSolicitation, wire::solicited_node(node_ip6()));
  probe.src = {};
  probe.source_hw.reset();
  send_to(probe.dst, 0x86dd, wire::build_nd(probe));
  send_to_node(0x0800, fwd::test::echo_packet(wire::IpAddr::v4(0x0a00'0009),
                                              wire::IpAddr::v4(0x0a00'0001), 32));
  port_.request(sa::subscribe(wire::Trap::kGroupCreated));
  port_.request(sa::class_port_info());
  pass(*node_, 100ms);
  EXPECT_FALSE(knows_port());
  EXPECT_EQ(sa().ports.size(), 1U);
}

/// A host can name neither another port's GID, nor a GID of another subnet.
TEST_F(PortLearningTest, P15_NotFromGidsThatCannotBeThePorts) {
  const auto from = [&](const wire::Gid& gid) {
    NdMessage m = nd(Icmp6Type::kNeighbourSolicitation, node_ip6());
    m.source_hw = wire::HwAddr{wire::LinkAddr{0, wire::Be24{FarPort::kQpn}, gid}};
    send_to_node(0x86dd, wire::build_nd(m));
    pass(*node_, 100ms);
  };
  from(wire::Gid::of(wire::kDefaultGidPrefix, config_guid));
  from(wire::Gid::of(0xfec0'0000'0000'0001, FarPort::kGuid));
  from(wire::Gid::of(wire::kDefaultGidPrefix, 0));
  EXPECT_EQ(sa().ports.size(), 1U) << "the administrator's own port";
}

}  // namespace
}  // namespace ipoib::mgmt
