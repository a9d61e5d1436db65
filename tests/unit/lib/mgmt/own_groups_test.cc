// SPDX-License-Identifier: BSD-3-Clause
// A host that is no multicast router reports its own groups on an IPoIB link: packets as the fabric
// carries them, in the InfiniBand groups to which IGMP and MLD go. A router at the far end of the
// cable has joined these, or the fabric would carry nothing to it.
#include <rte_cycles.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "lib/mgmt/stepped_node.h"
#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/unit/lib/mgmt/far_port.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

using wire::IpAddr;
using wire::MembershipQuery;
using wire::MembershipVersion;
using wire::RecordType;

const IpAddr kGroup4 = *wire::parse_ip("239.1.1.1"), kGroup6 = *wire::parse_ip("ff15::7");
const IpAddr kRouter4 = *wire::parse_ip("10.0.0.9");

/// A report about a group: the type of the record, and the address of the packet.
struct Seen {
  MembershipVersion version;
  RecordType type;
  IpAddr dst;
  auto operator<=>(const Seen&) const = default;
};
using AllSeen = std::set<Seen>;

class OwnGroupsTest : public NodeFixture {
 protected:
  void SetUp() override {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    c.ports.clear();
    c.links[0].addresses.push_back(*wire::parse_prefix("fd00:a::1/64"));
    auto made = SteppedNode::create(c, make_timed_soft, &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(made) << made.error().what;
    node_ = std::move(*made);
    for (const IpAddr& group : {wire::kIgmpV3Routers, wire::kMldV2Routers, wire::kIgmpAllRouters,
                                wire::all_routers(), kGroup4, kGroup6})
      router_joins(group);
    node_->start();
    pass(*node_, 5s);
    ASSERT_EQ(link().state, "up");
  }
  void TearDown() override {
    leave(*node_);
    static_cast<void>(router_.take());
  }
  [[nodiscard]] LinkInfo link() const { return node_->faces().view.links()[0]; }
  [[nodiscard]] static wire::Gid mgid_of(const IpAddr& group) {
    return wire::mgid_of(group, wire::kDefaultPkey, 2);
  }
  [[nodiscard]] std::uint16_t mlid_of(const IpAddr& group) const {
    const auto groups = node_->faces().view.subnet_administration()[0].groups;
    const auto row = std::ranges::find_if(
        groups, [&](const SaInfo::Group& g) { return g.mgid == mgid_of(group); });
    EXPECT_NE(row, groups.end()) << wire::to_string(group);
    return row == groups.end() ? std::uint16_t{0} : row->mlid;
  }
  void router_joins(const IpAddr& group) {
    wire::McMemberRecord like{};
    like.pkey.set(wire::kDefaultPkey);
    like.qkey.set(SubnetConfig{}.qkey);
    like.mtu = wire::mtu_code(SubnetConfig{}.mtu);
    like.rate = wire::rate_code(SubnetConfig{}.rate);
    router_.request(
        sa::create_group(mgid_of(group), FarPort::gid(), wire::join_state::kFullMember, like));
  }
  /// The router asks for all groups, or for one.
  void query(MembershipVersion version, const IpAddr& group) {
    const MembershipQuery q{.version = version, .group = group, .max_response = 1s};
    const bool is_v4 = group.is_v4();
    const auto packet = is_v4 ? wire::make_igmp(kRouter4, q) : wire::make_mld(FarPort::ip6(), q);
    const IpAddr general = is_v4 ? wire::kIgmpAllSystems : wire::all_nodes();
    const IpAddr to = wire::is_any_address(group) ? general : group;
    router_.send_to_group(mgid_of(to), mlid_of(to), link().parameters.qkey, is_v4 ? 0x0800 : 0x86dd,
                          packet);
  }
  /// Checks each packet of IGMP and MLD that the node has sent, and returns the reports by group.
  std::map<IpAddr, AllSeen> reports() {
    std::map<IpAddr, AllSeen> seen;
    for (const FarPort::Packet& p : router_.take()) {
      const auto parsed = p.type == 0x0800 ? wire::parse_igmp(p.payload)
                          : p.type == 0x86dd
                              ? wire::parse_mld(p.payload)
                              : tl::make_unexpected(wire::MembershipFault::kIpHeader);
      if (!parsed) continue;
      const auto* report = std::get_if<wire::MembershipReport>(&parsed->message);
      if (report == nullptr) continue;
      expect_on_link(p, *parsed);
      for (const wire::MembershipRecord& r : report->records)
        seen[r.group].insert({report->version, r.type, parsed->dst});
    }
    return seen;
  }
  /// The parsers have checked TTL or hop limit 1, and MLD's router alert.
  void expect_on_link(const FarPort::Packet& p, const wire::MembershipPacket& parsed) const {
    EXPECT_EQ(p.frame.iba.lrh.dlid.host(), mlid_of(parsed.dst));
    EXPECT_EQ(p.frame.iba.bth.dest_qp.host(), wire::kMulticastQpn);
    EXPECT_EQ(p.frame.deth.qkey.host(), link().parameters.qkey);
    EXPECT_EQ(p.frame.deth.src_qp.host(), link().qpn);
    ASSERT_TRUE(p.grh) << "multicast has a GRH";
    EXPECT_EQ(p.grh->dgid, mgid_of(parsed.dst));
    if (parsed.dst.is_v4()) {
      const auto ip = *wire::read<wire::Ipv4Hdr>(p.payload);
      EXPECT_EQ(ip.ttl, 1);
      ASSERT_EQ(ip.version_ihl, 0x46);
      EXPECT_TRUE(std::ranges::equal(wire::kRouterAlertOption,
                                     std::span{p.payload}.subspan(sizeof(ip), 4)));
      EXPECT_EQ(parsed.src, *wire::parse_ip("10.0.0.1"));
    } else {
      const auto ip = *wire::read<wire::Ipv6Hdr>(p.payload);
      EXPECT_EQ(ip.hop_limit, 1);
      EXPECT_EQ(ip.next_header, 0) << "hop-by-hop options";
      EXPECT_EQ(parsed.src.bytes[0], std::byte{0xfe}) << "link-local";
    }
  }
  void join(const IpAddr& group) {
    ASSERT_TRUE(node_->faces().control.join_group("ib0", group));
    pass(*node_, 3s);
  }
  void leave_group(const IpAddr& group) {
    ASSERT_TRUE(node_->faces().control.leave_group("ib0", group));
    pass(*node_, 3s);
  }

  std::unique_ptr<SteppedNode> node_;
  FarPort router_{cable, outside_pool};
};

TEST_F(OwnGroupsTest, P06_GroupsAreReportedWhenTheyAreJoinedAndLeft) {
  // The groups of the addresses, when the link came up.
  auto seen = reports();
  const IpAddr solicited = *wire::parse_ip("ff02::1:ff00:1");
  const Seen joined4{MembershipVersion::kV3, RecordType::kToExclude, wire::kIgmpV3Routers};
  const Seen joined6{MembershipVersion::kV3, RecordType::kToExclude, wire::kMldV2Routers};
  EXPECT_EQ(seen[solicited], AllSeen{joined6});
  EXPECT_FALSE(seen.contains(wire::kIgmpAllSystems));
  EXPECT_FALSE(seen.contains(wire::all_nodes()));

  join(kGroup4), join(kGroup6);
  seen = reports();
  EXPECT_EQ(seen[kGroup4], AllSeen{joined4});
  EXPECT_EQ(seen[kGroup6], AllSeen{joined6});
  leave_group(kGroup4), leave_group(kGroup6);
  seen = reports();
  EXPECT_EQ(seen[kGroup4],
            (AllSeen{{MembershipVersion::kV3, RecordType::kToInclude, wire::kIgmpV3Routers}}));
  EXPECT_EQ(seen[kGroup6],
            (AllSeen{{MembershipVersion::kV3, RecordType::kToInclude, wire::kMldV2Routers}}));
}

TEST_F(OwnGroupsTest, P06_QueriesAreAnsweredInTheirVersion) {
  join(kGroup4), join(kGroup6);
  static_cast<void>(reports());
  const auto answers = [&](MembershipVersion version, const IpAddr& group4, const IpAddr& group6) {
    query(version, group4), query(version, group6);
    pass(*node_, 2s);
    return reports();
  };
  const IpAddr all4 = IpAddr::v4(0), all6{};
  auto seen = answers(MembershipVersion::kV3, all4, all6);
  const AllSeen is4{{MembershipVersion::kV3, RecordType::kIsExclude, wire::kIgmpV3Routers}};
  const AllSeen is6{{MembershipVersion::kV3, RecordType::kIsExclude, wire::kMldV2Routers}};
  EXPECT_EQ(seen[kGroup4], is4);
  EXPECT_EQ(seen[kGroup6], is6);
  seen = answers(MembershipVersion::kV3, kGroup4, kGroup6);
  EXPECT_EQ(seen, (std::map<IpAddr, AllSeen>{{kGroup4, is4}, {kGroup6, is6}}));
  seen = answers(MembershipVersion::kV3, *wire::parse_ip("224.0.0.1"), wire::all_nodes());
  EXPECT_TRUE(seen.empty()) << "groups of which no host reports its membership";

  // Reports of older versions go to their group, and leaves to all routers.
  seen = answers(MembershipVersion::kV2, all4, all6);
  const auto old = [](RecordType type, const IpAddr& dst) {
    return AllSeen{{MembershipVersion::kV2, type, dst}};
  };
  EXPECT_EQ(seen[kGroup4], old(RecordType::kIsExclude, kGroup4));
  EXPECT_EQ(seen[kGroup6], old(RecordType::kIsExclude, kGroup6));
  leave_group(kGroup4), leave_group(kGroup6);
  seen = reports();
  EXPECT_EQ(seen[kGroup4], old(RecordType::kToInclude, wire::kIgmpAllRouters));
  EXPECT_EQ(seen[kGroup6], old(RecordType::kToInclude, wire::all_routers()));
}

}  // namespace
}  // namespace ipoib::mgmt
