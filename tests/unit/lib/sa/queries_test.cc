// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/queries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "lib/sa/sa_mad.h"
#include "tests/support/vectors.h"

namespace ipoib::sa {
namespace {

using wire::McMemberRecord;

/// Expects that method, attribute, mask and record of a request are equal to those that a real SM
/// accepted.
void expect_recorded(const char* name, const Request& request) {
  SCOPED_TRACE(name);
  const auto file = ipoib::test::load_vectors("opensm-sa.json");
  for (const auto& exchange : file.at("exchanges")) {
    if (exchange.at("name") != name) continue;
    const auto mad = wire::read<wire::SaMad>(ipoib::test::octets(exchange.at("request")));
    ASSERT_TRUE(mad);
    EXPECT_EQ(static_cast<std::uint8_t>(request.method), mad->hdr.mad.method);
    EXPECT_EQ(static_cast<std::uint16_t>(request.attr), mad->hdr.mad.attr_id.host());
    EXPECT_EQ(request.comp_mask, mad->hdr.comp_mask.host());
    EXPECT_EQ(ipoib::test::to_hex(request.data), ipoib::test::to_hex(mad->data));
    return;
  }
  FAIL() << "no such exchange";
}

const wire::Gid kBroadcast = wire::Gid::of(0xff12'401b'ffff'0000, 0xffff'ffff);
const wire::Gid kGroup = wire::Gid::of(0xff12'401b'ffff'0000, 0x0101'0203);
const wire::Gid kB = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00a1'b204);
const wire::Gid kC = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00a1'b207);

TEST(Queries, RequestsAreThoseARealSmTook) {
  expect_recorded("classportinfo", class_port_info());
  expect_recorded("mcm-get", find_group(kBroadcast));
  expect_recorded("mcm-join-broadcast", join_group(kBroadcast, kB, 0xffff, 1));
  expect_recorded("mcm-delete-last", leave_group(kGroup, kC, 0xffff, 1));
  McMemberRecord like{};
  like.qkey.set(0x0b1b);
  like.mtu = wire::with_selector(wire::Selector::kExactly, 4);
  like.rate = wire::with_selector(wire::Selector::kExactly, 3);
  like.pkey.set(0xffff);
  expect_recorded("mcm-create-ipv4", create_group(kGroup, kC, 1, like));
}

TEST(Queries, U05_JoinsCarryTheFullMembershipBit) {
  for (const Request& request :
       {join_group(kBroadcast, kB, 0x0001, 1), leave_group(kBroadcast, kB, 0x0001, 1)}) {
    EXPECT_EQ(wire::read<McMemberRecord>(request.data)->pkey.host(), 0x8001);
  }
}

TEST(Queries, CreateCopiesTheBroadcastGroupExactly) {
  McMemberRecord like{};
  like.qkey.set(0x8001'0b1b);
  like.mtu = 4;  // The request says "exactly", for any selector of the answer.
  like.rate = 7;
  like.tclass = 9;
  like.pkey.set(0x0001);
  like.sl_flow_hop = McMemberRecord::pack(3, 0x12345, 64);
  const Request request = create_group(kGroup, kB, 8, like);
  const auto r = *wire::read<McMemberRecord>(request.data);
  EXPECT_EQ(request.comp_mask, 0x173f7U);
  EXPECT_EQ(r.qkey, like.qkey);
  EXPECT_EQ(r.mtu, 0x84);
  EXPECT_EQ(r.rate, 0x87);
  EXPECT_EQ(r.tclass, 9);
  EXPECT_EQ(r.pkey.host(), 0x8001);
  EXPECT_EQ(r.sl_flow_hop, like.sl_flow_hop);
  EXPECT_EQ(r.join(), 8);
}

TEST(Queries, U20_PathIsAskedWithPkeyAndNumbPath) {
  const Request request = find_path(kB, kC, 0x0001, 5);
  const auto r = *wire::read<wire::PathRecord>(request.data);
  EXPECT_EQ(request.comp_mask, 0x340cU);
  EXPECT_EQ(r.sgid, kB);
  EXPECT_EQ(r.dgid, kC);
  EXPECT_EQ(r.pkey.host(), 0x8001);
  EXPECT_EQ(r.tclass, 5);
  EXPECT_EQ(r.reversible_numb, 1);
}

TEST(Queries, U41_SeveralPathsAreATable) {
  const Request request = find_paths(kB, kC, 0x0001, 5, 4);
  const auto r = *wire::read<wire::PathRecord>(request.data);
  EXPECT_EQ(request.method, wire::Method::kGetTable);
  EXPECT_EQ(request.comp_mask, 0x340cU);
  EXPECT_EQ(r.sgid, kB);
  EXPECT_EQ(r.dgid, kC);
  EXPECT_EQ(r.tclass, 5);
  EXPECT_EQ(r.reversible_numb, 4);
}

TEST(Queries, E04_PathIsAskedOfAnyTrafficClass) {
  EXPECT_EQ(find_path(kB, kC, 0x0001, std::nullopt).comp_mask, 0x300cU);
}

TEST(Queries, C15_PathBetweenLidsNamesThem) {
  const Request request = find_path_between(kB, kC, 0x0001, {.slid = 0x11, .dlid = 0x21});
  const auto r = *wire::read<wire::PathRecord>(request.data);
  EXPECT_EQ(request.comp_mask, 0x303cU);
  EXPECT_EQ(r.slid.host(), 0x11);
  EXPECT_EQ(r.dlid.host(), 0x21);
  EXPECT_EQ(r.dgid, kC);
}

TEST(Queries, GroupsOfAPartitionAreATable) {
  const Request request = list_groups(0x8001);
  EXPECT_EQ(request.method, wire::Method::kGetTable);
  EXPECT_EQ(request.comp_mask, McMemberRecord::kPkey);
  EXPECT_EQ(wire::read<McMemberRecord>(request.data)->pkey.host(), 0x8001);
}

TEST(Queries, U31_SubscriptionsAreThoseARealAdministratorTook) {
  const auto file = ipoib::test::load_vectors("opensm-sa.json");
  std::map<std::string, wire::SaMad> recorded;
  for (const auto& x : file.at("exchanges"))
    recorded[x.at("name")] = *wire::read<wire::SaMad>(ipoib::test::octets(x.at("request")));
  const std::pair<const char*, Request> rows[] = {
      {"informinfo-subscribe-66", subscribe(wire::Trap::kGroupCreated)},
      {"informinfo-subscribe-67", subscribe(wire::Trap::kGroupDeleted)},
      {"informinfo-unsubscribe", unsubscribe(wire::Trap::kGroupCreated)},
  };
  for (const auto& [name, request] : rows) {
    const wire::SaMad& want = recorded.at(name);
    EXPECT_EQ(ipoib::test::to_hex(wire::bytes_of(request_mad(request, want.hdr.mad.tid.host()))),
              ipoib::test::to_hex(wire::bytes_of(want)))
        << name;
  }
}

TEST(Queries, U31_AllTrapsAreThoseOfAnyProducer) {
  const auto info = *wire::read<wire::InformInfo>(subscribe().data);
  EXPECT_EQ(info.trap_number.host(), 0xffff);
  EXPECT_EQ(info.producer_type.host(), 0xff'ffffU);
  EXPECT_EQ(info.lid_range_begin.host(), 0xffff);
  EXPECT_EQ(info.qpn.host(), 1U);
}

TEST(Queries, EveryFailureIsDescribed) {
  EXPECT_EQ(describe({Errc::kRefused, 0x0600}), "SA refused: insufficient components (0x0600)");
  EXPECT_EQ(describe({Errc::kTimedOut, 0}), "SA did not answer");
  EXPECT_NE(describe({Errc::kUnavailable, 0}), describe({Errc::kNoResources, 0}));
  EXPECT_EQ(describe({Errc::kNoResources, 0, 1}), "SA table is too big");
  EXPECT_EQ(describe({Errc::kNoResources, 0}), "too many pending SA requests");
  EXPECT_FALSE(describe({Errc::kProtocol, 0}).empty());
  EXPECT_EQ(describe({Errc::kTimedOut, 0, 118}), "SA table aborted: RMPP status 118");
}

}  // namespace
}  // namespace ipoib::sa
