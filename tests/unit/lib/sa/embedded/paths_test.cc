// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/paths.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {
namespace {

class PathsTest : public AdministratorFixture {
 protected:
  using R = wire::PathRecord;

  void both_join(std::uint16_t pkey = 0xffff) {
    EXPECT_EQ(status(join_group(ipoib_mgid(0xffff'ffff, pkey), kB, pkey, 1), kLidB), kOk);
    EXPECT_EQ(status(join_group(ipoib_mgid(0xffff'ffff, pkey), kC, pkey, 1), kLidC), kOk);
  }
  static Request query(wire::Method method, std::uint64_t mask, void (*fill)(R&)) {
    R r{};
    fill(r);
    return Request::of(method, wire::Attr::kPathRecord, mask, r);
  }
};

TEST_F(PathsTest, U20_PathBetweenTwoPortsOfThePartition) {
  AdministratorConfig config = recorded_config();
  config.sl = 5;
  config.rate = 7;
  restart(config);
  both_join();
  const R path = record<R>(find_path(kB, kC, 0xffff, 9), kLidB);
  EXPECT_EQ(path.sgid, kB);
  EXPECT_EQ(path.dgid, kC);
  EXPECT_EQ(path.slid.host(), kLidB);
  EXPECT_EQ(path.dlid.host(), kLidC);
  EXPECT_EQ(path.sl(), 5);
  EXPECT_EQ(path.rate, 0x87);
  EXPECT_EQ(path.mtu, 0x84);
  EXPECT_EQ(path.tclass, 0) << "as a real SM leaves it";
  EXPECT_EQ(path.hop_limit(), 0);
  EXPECT_EQ(path.pkey.host(), 0xffff);
  EXPECT_EQ(path.reversible_numb, 0x80);
}

TEST_F(PathsTest, PartitionMustBeShared) {
  both_join(0x8002);
  EXPECT_EQ(status(find_path(kB, kC, 0xffff), kLidB), kNoRecords);
  EXPECT_EQ(status(find_path(kB, kC, 0x8003), kLidB), kNoRecords) << "no such partition";
  EXPECT_EQ(record<R>(find_path(kB, kC, 0x8002), kLidB).pkey.host(), 0x8002);
  const Request any = query(wire::Method::kGet, R::kSgid | R::kDgid, [](R& r) {
    r.sgid = kB;
    r.dgid = kC;
  });
  EXPECT_EQ(record<R>(any, kLidB).pkey.host(), 0x8002);
}

TEST_F(PathsTest, EndsUnknownForeignOrLeftOut) {
  both_join();
  EXPECT_EQ(status(find_path(kB, port_gid(0x1234), 0xffff), kLidB), kNoRecords);
  EXPECT_EQ(status(find_path(kB, wire::Gid::of(0xfec0ULL << 48, 1), 0xffff), kLidB), kNoRecords);
  EXPECT_EQ(status(find_path(wire::Gid::of(0xfec0ULL << 48, 1), kB, 0xffff), kLidB), kNoRecords);
  EXPECT_EQ(status(find_path(kB, ipoib_mgid(5), 0xffff), kLidB), kNoRecords);
  const Request to_c = query(wire::Method::kGetTable, R::kDgid, [](R& r) { r.dgid = kC; });
  EXPECT_EQ(table(to_c, kLidB).count(), 3U) << "from all, the administrator's among them";
  const Request any = query(wire::Method::kGetTable, 0, [](R&) {});
  const Reply own = table(any, kLidB);
  ASSERT_EQ(own.count(), 3U);
  EXPECT_EQ(own.record<R>()->sgid, kB) << "of all paths the asker's";
}

TEST_F(PathsTest, AskingTeachesTheAskingPort) {
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
  EXPECT_EQ(record<R>(find_path(kB, kC, 0xffff), kLidB).slid.host(), kLidB);
  EXPECT_EQ(sa->ports().at(kB).lid, kLidB);
  EXPECT_EQ(record<R>(find_path(kC, kB, 0xffff), kLidC).dlid.host(), kLidB);
}

/// Hosts that do not know that the administrator started again do not register.
TEST_F(PathsTest, U20_PortsThatAreHeardHavePaths) {
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
  EXPECT_EQ(status(find_path(kC, kB, 0xffff), kLidC), kNoRecords);
  sa->overhear(kB, kLidB, 0xffff, now);
  EXPECT_EQ(record<R>(find_path(kC, kB, 0xffff), kLidC).dlid.host(), kLidB);
  // A forged message moves no port, and makes none that cannot be on this subnet.
  sa->overhear(kB, 0x77, 0xffff, now);
  EXPECT_EQ(sa->ports().at(kB).lid, kLidB);
  sa->overhear(wire::Gid::of(0xfec0ULL << 48, 1), 0x78, 0xffff, now);
  sa->overhear(kBroadcast, 0x79, 0xffff, now);
  sa->overhear(port_gid(0x99), 0xc001, 0xffff, now);
  EXPECT_EQ(sa->ports().size(), 3U);
}

TEST_F(PathsTest, AskingForOthersMovesNobody) {
  both_join();
  EXPECT_EQ(record<R>(find_path(kB, kC, 0xffff), 9).slid.host(), kLidB) << "asked by a third";
  EXPECT_EQ(sa->ports().at(kB).lid, kLidB);
  EXPECT_EQ(status(find_path(kB, kC, 0x8002), 9), kNoRecords);
  EXPECT_EQ(sa->ports().at(kB).partitions, std::set<std::uint16_t>{0x7fff});
}

/// With an LMC of 1, ports have two LIDs each, and ask from any of them.
TEST_F(PathsTest, U41_PathsBetweenAllLidsOfTwoPorts) {
  AdministratorConfig config = recorded_config();
  config.lid = 2;
  config.lmc = 1;
  restart(config);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), 5), kOk);
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), 6), kOk);
  EXPECT_EQ(sa->ports().at(kB).lid, 4);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), 4), kOk) << "the port has not moved";
  const R one = record<R>(find_path(kB, kC, 0xffff), 4);
  EXPECT_EQ(one.slid.host(), 4);
  EXPECT_EQ(one.dlid.host(), 6);

  using Pairs = std::vector<std::pair<int, int>>;
  const auto pairs = [&](std::uint64_t mask, const std::function<void(R&)>& change) {
    Request request = find_path(kB, kC, 0xffff);
    request.method = wire::Method::kGetTable;
    request.comp_mask |= mask;
    R r = *wire::read<R>(request.data);
    r.reversible_numb = 127;
    change(r);
    static_cast<void>(wire::write(std::span{request.data}, 0, r));
    const Reply reply = table(request, 5);
    Pairs found;
    for (std::size_t i = 0; i < reply.count(); ++i)
      found.emplace_back(reply.record<R>(i)->slid.host(), reply.record<R>(i)->dlid.host());
    return found;
  };
  EXPECT_EQ(pairs(0, [](R&) {}), (Pairs{{4, 6}, {5, 7}, {4, 7}, {5, 6}}));
  EXPECT_EQ(pairs(0, [](R& r) { r.reversible_numb = 2; }), (Pairs{{4, 6}, {5, 7}}));
  EXPECT_EQ(pairs(R::kSlid, [](R& r) { r.slid.set(5); }), (Pairs{{5, 7}, {5, 6}}));
  EXPECT_EQ(pairs(R::kSlid | R::kDlid,
                  [](R& r) {
                    r.slid.set(4);
                    r.dlid.set(7);
                  }),
            (Pairs{{4, 7}}));
}

TEST_F(PathsTest, MovedPortIsReachedAtItsNewLid) {
  both_join();
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), 40), kOk);
  EXPECT_EQ(record<R>(find_path(kB, kC, 0xffff), kLidB).dlid.host(), 40);
}

TEST_F(PathsTest, LimitsAreKeptOrThereIsNoPath) {
  both_join();
  struct Row {
    const char* what;
    std::uint64_t mask;
    void (*change)(R&);
    std::uint16_t status;
  };
  const auto mtu = R::kMtuSel | R::kMtu, rate = R::kRateSel | R::kRate;
  const auto life = R::kLifeSel | R::kLife;
  const Row rows[] = {
      {"MTU > 1024", mtu, [](R& r) { r.mtu = 3; }, kOk},
      {"MTU > 2048", mtu, [](R& r) { r.mtu = 4; }, kNoRecords},
      {"MTU exactly 4096", mtu, [](R& r) { r.mtu = 0x85; }, kNoRecords},
      {"rate < 2.5", rate, [](R& r) { r.rate = 0x42; }, kNoRecords},
      {"no such rate", rate, [](R& r) { r.rate = 0x41; }, kInvalid},
      {"rate exactly 5", rate, [](R& r) { r.rate = 0x85; }, kNoRecords},
      {"lifetime < 18", life, [](R& r) { r.lifetime = 0x40 | 18; }, kOk},
      {"lifetime > 18", life, [](R& r) { r.lifetime = 18; }, kNoRecords},
      {"lifetime best", life, [](R& r) { r.lifetime = 0xc0; }, kOk},
      {"SL, any", R::kSl, [](R& r) { r.qos_sl.set(3); }, kOk},
      {"raw", R::kRaw, [](R& r) { r.raw_flow_hop.set(1U << 31); }, kNoRecords},
      {"over a router", R::kHop, [](R& r) { r.raw_flow_hop.set(64); }, kNoRecords},
      {"DLID of nobody", R::kDlid, [](R& r) { r.dlid.set(9); }, kNoRecords},
      {"SLID of nobody", R::kSlid, [](R& r) { r.slid.set(9); }, kNoRecords},
      {"DLID of another", R::kDlid, [](R& r) { r.dlid.set(kLidB); }, kInvalid},
      {"SLID of another", R::kSlid, [](R& r) { r.slid.set(kLidC); }, kInvalid},
      {"reversible", R::kReversible, [](R& r) { r.reversible_numb = 0x81; }, kOk},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Request request = find_path(kB, kC, 0xffff);
    R r = *wire::read<R>(request.data);
    row.change(r);
    EXPECT_TRUE(wire::write(std::span{request.data}, 0, r));
    request.comp_mask |= row.mask;
    EXPECT_EQ(status(request, kLidB), row.status);
  }
}

TEST_F(PathsTest, PathToAGroupHasItsAttributes) {
  both_join();
  wire::McMemberRecord like = like_broadcast();
  like.sl_flow_hop = wire::McMemberRecord::pack(2, 0x12345, 7);
  like.tclass = 3;
  like.mtu = 3;
  // The MGID is not IPoIB's, so the group may have any attributes.
  const auto mgid = wire::Gid::of(0xff12'0000'0000'0000, 5);
  const auto group = member(create_group(mgid, kC, 1, like), kLidC);
  const R path = record<R>(find_path(kC, mgid, 0xffff, 3), kLidC);
  EXPECT_EQ(path.dlid, group.mlid);
  EXPECT_EQ(path.slid.host(), 0);
  EXPECT_EQ(path.sl(), 2);
  EXPECT_EQ(path.flow_label(), 0x12345U);
  EXPECT_EQ(path.hop_limit(), 7);
  EXPECT_EQ(path.tclass, 3);
  EXPECT_EQ(path.mtu, 0x83);
  EXPECT_EQ(status(find_path(kC, mgid, 0x8002, 3), kLidC), kNoRecords);
  EXPECT_EQ(status(find_path(kC, mgid, 0xffff, 4), kLidC), kNoRecords) << "other traffic class";
  EXPECT_EQ(status(find_path(kB, mgid, 0xffff, 3), kLidB), kNoRecords) << "no member";
}

TEST_F(PathsTest, TablesOfAllPathsFromAPort) {
  both_join();
  EXPECT_EQ(status(join_group(kBroadcast, kSmGid, 0xffff, 1), kSmLid), kOk);
  const auto all = [](wire::Method method) {
    return query(method, R::kSgid, [](R& r) { r.sgid = kB; });
  };
  EXPECT_EQ(table(all(wire::Method::kGetTable), kLidB).count(), 3U);
  EXPECT_EQ(record<R>(all(wire::Method::kGet), kLidB).sgid, kB) << "the first of them";
  EXPECT_EQ(status(join_group(kBroadcast, port_gid(9), 0xffff, 1), 9), kOk);
  EXPECT_EQ(table(all(wire::Method::kGetTable), kLidB).count(), 4U) << "in two segments";
  const Request none = query(wire::Method::kGetTable, R::kSgid | R::kDgid, [](R& r) {
    r.sgid = kB;
    r.dgid = port_gid(0x1234);
  });
  EXPECT_EQ(table(none, kLidB).count(), 0U);
}

/// Ports are distinguished by GID alone, so a port with an unknown GID may be anywhere.
/// A subnet of 4096 octets whose administrator is at a port of 2048.
TEST_F(PathsTest, M07_PathsOfTheAdministratorsPortCarryItsMtu) {
  for (AdministratorConfig config : {recorded_config(), by_gid_config()}) {
    SCOPED_TRACE(config.elsewhere_lid);
    config.mtu = 5;
    restart(config);
    sa->set_port_mtu(4);
    EXPECT_EQ(status(join_group(kBroadcast, kSmGid, 0xffff, 1), kSmLid), kOk)
        << "its node says why it does not use the group";
    const auto mtu_to_c = [&] {
      return record<wire::PathRecord>(find_path(kSmGid, kC, 0xffff), kSmLid).mtu;
    };
    if (config.elsewhere_lid == 0) {
      EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
      EXPECT_EQ(record<wire::PathRecord>(find_path(kC, kSmGid, 0xffff), kLidC).mtu, 0x84);
      EXPECT_EQ(record<wire::PathRecord>(find_path(kC, kC, 0xffff), kLidC).mtu, 0x85);
    }
    EXPECT_EQ(mtu_to_c(), 0x84);
    sa->set_port_mtu(5);
    EXPECT_EQ(mtu_to_c(), 0x85);
  }
}

TEST_F(PathsTest, AnyGidIsElsewhereWherePortsAreAddressedByGid) {
  restart(by_gid_config());
  const wire::Gid global = wire::Gid::of(0x2001'0db8ULL << 32, 9);
  for (const wire::Gid& gid : {kB, kC, global}) {
    for (const std::uint16_t pkey : {std::uint16_t{0xffff}, std::uint16_t{0x8002}}) {
      const R path = record<R>(find_path(kSmGid, gid, pkey), kSmLid);
      EXPECT_EQ(path.sgid, kSmGid);
      EXPECT_EQ(path.dgid, gid);
      EXPECT_EQ(path.slid.host(), kSmLid);
      EXPECT_EQ(path.dlid.host(), kElsewhere);
      EXPECT_EQ(path.hop_limit(), 64) << "so that packets have a GRH";
      EXPECT_EQ(path.flow_label(), 0U);
      EXPECT_EQ(path.pkey.host(), pkey);
      EXPECT_EQ(path.mtu, 0x84);
    }
  }
  EXPECT_EQ(sa->ports().size(), 1U) << "nothing is kept of them";
  // The administrator's port has its own LID.
  const R own = record<R>(find_path(kSmGid, kSmGid, 0xffff), kSmLid);
  EXPECT_EQ(own.dlid.host(), kSmLid);
  EXPECT_EQ(own.hop_limit(), 64);
  EXPECT_EQ(own.lifetime, 0x80);

  EXPECT_EQ(status(find_path(kSmGid, kB, 0x8003), kSmLid), kNoRecords) << "no such partition";
  EXPECT_EQ(status(find_path(kSmGid, wire::Gid{}, 0xffff), kSmLid), kNoRecords);
  EXPECT_EQ(status(find_path(kSmGid, kGroup, 0xffff), kSmLid), kNoRecords);
  const auto by_lid = [](std::uint16_t lid) {
    R r{};
    r.sgid = kSmGid;
    r.dgid = kB;
    r.dlid.set(lid);
    return Request::of(wire::Method::kGet, wire::Attr::kPathRecord, R::kSgid | R::kDgid | R::kDlid,
                       r);
  };
  EXPECT_EQ(status(by_lid(kElsewhere), kSmLid), kOk);
  EXPECT_EQ(status(by_lid(7), kSmLid), kNoRecords);
  const auto within = [](std::uint8_t hops) {
    R r{};
    r.sgid = kSmGid;
    r.dgid = kB;
    r.raw_flow_hop.set(hops);
    return Request::of(wire::Method::kGet, wire::Attr::kPathRecord, R::kSgid | R::kDgid | R::kHop,
                       r);
  };
  EXPECT_EQ(status(within(64), kSmLid), kOk);
  EXPECT_EQ(status(within(65), kSmLid), kNoRecords);
}

}  // namespace
}  // namespace ipoib::sa::test
