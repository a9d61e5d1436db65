// SPDX-License-Identifier: BSD-3-Clause
// Routes that come from router advertisements and redirects.
#include "lib/mgmt/slow_path/address_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "tests/support/addresses.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/mgmt/fake_interface.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;

class AddressBookTest : public testing::Test,
                        protected route::RouteSink,
                        protected route::MulticastSender,
                        protected route::DeliverySink {
 protected:
  // In this test, the index of a neighbour is the last octet of its address.
  Status set_prefix(const wire::IpPrefix& prefix, table::NextHopIndex next_hop) override {
    if (prefixes.size() >= room && !prefixes.contains(prefix))
      return fail(Errc::kNoResources, "full");
    prefixes[prefix] = next_hop;
    return {};
  }
  void remove_prefix(const wire::IpPrefix& prefix) override { prefixes.erase(prefix); }
  Status add_neighbour(const wire::IpAddr&, table::NextHopIndex, table::NeighbourIndex) override {
    return {};
  }
  void remove_neighbour(const wire::IpAddr&, table::NextHopIndex) override {}
  void set_next_hop(table::NextHopIndex index, const table::NextHop& hop) override {
    hops[index] = hop;
  }
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId, const wire::IpAddr& addr) override {
    return std::to_integer<table::NeighbourIndex>(addr.bytes[15]);
  }
  void forget_gateway(table::InterfaceId, const wire::IpAddr&) override {}
  bool has_failed(table::InterfaceId, const wire::IpAddr&) const override { return false; }
  std::uint64_t mark_time() override { return 0; }
  bool is_past(std::uint64_t, bool) override { return true; }
  void send(table::InterfaceId, std::vector<std::byte>) override {}
  void set(const table::Delivery&) override {}
  void remove(table::InterfaceId, const wire::IpAddr&, const wire::IpAddr&) override {}

  /// Returns the neighbour for packets to the prefix, or 0 if there is no such route.
  table::NeighbourIndex via(const char* prefix) {
    const auto it = prefixes.find(*wire::parse_prefix(prefix));
    return it == prefixes.end() ? 0 : hops.at(it->second).neighbour;
  }

  /// kNone: there is no such route.
  table::NextHopKind kind(const char* prefix) {
    const auto it = prefixes.find(*wire::parse_prefix(prefix));
    return it == prefixes.end() ? table::NextHopKind::kNone : hops.at(it->second).kind;
  }

  std::size_t room = SIZE_MAX;  ///< For prefixes.
  std::map<wire::IpPrefix, table::NextHopIndex> prefixes;
  std::map<table::NextHopIndex, table::NextHop> hops;
  InterfaceTable interfaces;
  route::RouteTable routes{*this};
  route::MulticastRouter multicast{{}, *this, *this};
  AddressBook book{interfaces, routes, multicast};
};

TEST_F(AddressBookTest, AnotherDefaultRouterTakesOverFromOneThatFails) {
  book.default_router(0, ip("fe80::1"), true);
  EXPECT_EQ(via("::/0"), 1U);
  book.neighbour_failed(0, ip("fe80::1"));
  EXPECT_EQ(via("::/0"), 1U);  // there is no other router
  book.default_router(0, ip("fe80::2"), true);
  book.neighbour_failed(1, ip("fe80::1"));
  book.neighbour_failed(0, ip("fe80::2"));
  EXPECT_EQ(via("::/0"), 1U);  // neither of the two was the router in use
  book.neighbour_failed(0, ip("fe80::1"));
  EXPECT_EQ(via("::/0"), 2U);
  book.neighbour_failed(0, ip("fe80::2"));
  EXPECT_EQ(via("::/0"), 1U);
  book.default_router(0, ip("fe80::1"), false);
  EXPECT_EQ(via("::/0"), 2U);
}

TEST_F(AddressBookTest, RedirectsEndWhereTheirNextHopFails) {
  book.default_router(0, ip("fe80::1"), true);
  book.redirect(0, ip("2001:db8::9"), ip("fe80::7"));
  EXPECT_EQ(via("2001:db8::9/128"), 7U);
  book.neighbour_failed(0, ip("fe80::1"));
  EXPECT_EQ(via("2001:db8::9/128"), 7U);
  book.neighbour_failed(0, ip("fe80::7"));
  EXPECT_EQ(via("2001:db8::9/128"), 0U);
  EXPECT_EQ(via("::/0"), 1U);
}

/// An operator's route takes precedence over redirects, and leaves them.
TEST_F(AddressBookTest, P17_RoutersMessagesWaitBehindTheOperatorsRoutes) {
  const auto host = *wire::parse_prefix("2001:db8::9/128"), all = *wire::parse_prefix("::/0");
  ASSERT_TRUE(routes.add_blackhole(host));
  ASSERT_TRUE(routes.add_blackhole(all));
  EXPECT_EQ(logged([&] {
              book.redirect(0, host.addr, ip("fe80::7"));
              book.default_router(0, ip("fe80::1"), true);
            }),
            "");
  EXPECT_EQ(kind("2001:db8::9/128"), table::NextHopKind::kBlackhole);
  EXPECT_EQ(kind("::/0"), table::NextHopKind::kBlackhole);
  ASSERT_TRUE(routes.remove(host));
  ASSERT_TRUE(routes.remove(all));
  EXPECT_EQ(via("2001:db8::9/128"), 7U);
  EXPECT_EQ(via("::/0"), 1U);
}

/// No redirect says where an own address is, however often it arrives.
TEST_F(AddressBookTest, RefusedRedirectsAreToldOfOnceASecond) {
  ASSERT_TRUE(routes.add_local(0, *wire::parse_prefix("2001:db8::9/128")));
  const auto redirects = [this](int n) {
    return logged([&] {
      for (int i = 0; i < n; ++i) book.redirect(0, ip("2001:db8::9"), ip("fe80::7"));
    });
  };
  const std::string first = redirects(100);
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 1) << first;
  EXPECT_NE(first.find("2001:db8::9"), std::string::npos) << first;
  book.set_now(TimePoint{} + std::chrono::milliseconds(999));
  EXPECT_EQ(redirects(1), "");
  book.set_now(TimePoint{} + std::chrono::seconds(1));
  EXPECT_NE(redirects(50).find("(100 messages suppressed)"), std::string::npos);
}

TEST_F(AddressBookTest, AnAddressStaysOwnWhileItIsNotInUse) {
  using table::NextHopKind;
  FakeInterface iface;
  interfaces.add({0}).control = &iface;
  const auto own = *wire::parse_prefix("fd00::1/64"), other = *wire::parse_prefix("fd00::2/64");
  const auto local = *wire::parse_prefix("fe80::1/64"), v4 = *wire::parse_prefix("10.0.0.1/24");
  for (const auto& address : {own, local, v4}) book.address_ready(0, address);
  EXPECT_EQ(kind("fd00::1/128"), NextHopKind::kLocal);
  for (const auto& address : {own, local, v4}) book.address_removed(0, address);
  EXPECT_EQ(kind("fd00::1/128"), NextHopKind::kLocalDown);
  EXPECT_EQ(kind("fd00::/128"), NextHopKind::kLocalDown);
  EXPECT_EQ(kind("fe80::1/128"), NextHopKind::kNone);
  EXPECT_EQ(kind("10.0.0.1/32"), NextHopKind::kLocal);

  // The address of any router on the network stays, because another own address is in use.
  book.address_ready(0, own);
  ASSERT_TRUE(routes.suspend_local(0, other));
  book.address_duplicate(0, other);
  EXPECT_EQ(kind("fd00::2/128"), NextHopKind::kNone);
  EXPECT_EQ(kind("fd00::1/128"), NextHopKind::kLocal);
  EXPECT_EQ(kind("fd00::/128"), NextHopKind::kLocal);
}

class AddressChangesTest : public AddressBookTest {
 protected:
  AddressChangesTest() {
    interfaces.add({0}).control = &first;
    interfaces.add({0}).control = &second;
  }
  Status assign(table::InterfaceId iface, const char* address) {
    const auto own = *wire::parse_prefix(address);
    auto assigned = book.address_assigned(iface, own);
    if (!assigned) return assigned;
    return interfaces.find(iface)->control->add_address(own, {}, TimePoint{});
  }
  void release(table::InterfaceId iface, const char* address) {
    const auto own = *wire::parse_prefix(address);
    ASSERT_TRUE(interfaces.find(iface)->control->remove_address(own, TimePoint{}));
    book.address_released(iface, own);
  }
  std::optional<Errc> refused(table::InterfaceId iface, const char* address) {
    const auto before = prefixes;
    const auto assigned = assign(iface, address);
    EXPECT_EQ(prefixes, before) << address << " left something behind";
    return assigned ? std::nullopt : std::optional{assigned.error().code};
  }

  FakeInterface first, second;
};

TEST_F(AddressChangesTest, P19_ANetworkStaysUntilItsLastAddressGoes) {
  using table::NextHopKind;
  for (const char* address : {"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/32", "fd00::1/64"})
    ASSERT_TRUE(assign(0, address)) << address;
  EXPECT_EQ(kind("10.0.0.0/24"), NextHopKind::kConnected);
  EXPECT_EQ(kind("10.0.0.255/32"), NextHopKind::kBroadcast);
  EXPECT_EQ(kind("10.0.0.3/32"), NextHopKind::kLocal);
  EXPECT_EQ(kind("fd00::/64"), NextHopKind::kConnected);
  EXPECT_EQ(kind("fd00::1/128"), NextHopKind::kLocalDown) << "until detection has ended";
  release(0, "10.0.0.1/24");
  EXPECT_EQ(kind("10.0.0.1/32"), NextHopKind::kNone);
  EXPECT_EQ(kind("10.0.0.0/24"), NextHopKind::kConnected);
  for (const char* address : {"10.0.0.2/24", "10.0.0.3/32", "fd00::1/64"}) release(0, address);
  EXPECT_TRUE(prefixes.empty());
  // Another interface can have them now.
  for (const char* address : {"10.0.0.1/24", "fd00::1/64"}) EXPECT_TRUE(assign(1, address));
}

TEST_F(AddressChangesTest, P19_WhatAnotherInterfaceHasIsRefused) {
  for (const char* address : {"10.0.0.1/24", "fd00::1/64"}) ASSERT_TRUE(assign(0, address));
  book.address_ready(0, *wire::parse_prefix("fd00::1/64"));
  for (const char* address : {"10.0.0.2/24", "10.0.0.1/16", "fd00::2/64", "fd00::1/48"})
    EXPECT_EQ(refused(1, address), Errc::kExists) << address;
  EXPECT_TRUE(assign(1, "10.0.0.2/32")) << "a part of the network";
  // Each link has link-local addresses of its own.
  EXPECT_TRUE(assign(0, "fe80::1/64"));
  EXPECT_TRUE(assign(1, "fe80::1/64"));
}

TEST_F(AddressChangesTest, P19_AnAddressWithoutRoomLeavesNothingBehind) {
  ASSERT_TRUE(assign(0, "10.0.0.1/24"));
  for (const char* address : {"10.0.1.1/24", "fd00::1/64"})
    for (std::size_t more : {0U, 1U, 2U}) {
      room = prefixes.size() + more;
      EXPECT_EQ(refused(0, address), Errc::kNoResources) << address << ", room for " << more;
    }
  room = SIZE_MAX;
  EXPECT_TRUE(assign(0, "10.0.1.1/24"));
}

TEST_F(AddressChangesTest, P19_TheAddressOfAnyRouterIsSharedByAddressesInUse) {
  using table::NextHopKind;
  for (const char* address : {"fd00::1/64", "fd00::2/64"}) {
    ASSERT_TRUE(assign(0, address));
    book.address_ready(0, *wire::parse_prefix(address));
  }
  EXPECT_EQ(kind("fd00::/128"), NextHopKind::kLocal);
  book.address_removed(0, *wire::parse_prefix("fd00::1/64"));
  release(0, "fd00::1/64");
  EXPECT_EQ(kind("fd00::1/128"), NextHopKind::kNone);
  EXPECT_EQ(kind("fd00::/128"), NextHopKind::kLocal);
  EXPECT_EQ(kind("fd00::/64"), NextHopKind::kConnected);
}

/// Addresses that were added at run time may move to another node.
TEST_F(AddressChangesTest, P19_TheFirstAddressIsTheSourceOfErrors) {
  for (const char* address : {"10.0.0.1/24", "10.1.0.1/24", "10.1.0.2/24", "fd00::1/64",
                              "fd00:1::1/64", "fd00:1::2/64", "fe80::1/64", "fe80::2/64"}) {
    ASSERT_TRUE(assign(0, address));
    book.address_ready(0, *wire::parse_prefix(address));
  }
  const InterfaceSlot& slot = *interfaces.find(table::InterfaceId{0});
  EXPECT_EQ(slot.source_for(ip("10.1.0.9")), ip("10.0.0.1"));
  EXPECT_EQ(slot.source_for(ip("fd00:1::9")), ip("fd00:1::1"));
  EXPECT_EQ(slot.source_for(ip("fd00:2::9")), ip("fd00::1"));
  EXPECT_EQ(slot.source_for(ip("fe80::9")), ip("fe80::1"));
  release(0, "10.0.0.1/24");
  EXPECT_EQ(slot.source_for(ip("10.1.0.9")), ip("10.1.0.1"));
}

/// The withdrawal of a default router whose route was not used does not remove the operator's
/// default route.
TEST_F(AddressBookTest, AdvertisedRouterTakesOnlyItsOwnRouteAway) {
  ASSERT_TRUE(routes.add_blackhole(*wire::parse_prefix("::/0")));
  book.default_router(0, ip("fe80::1"), true);
  book.default_router(0, ip("fe80::1"), false);
  EXPECT_TRUE(prefixes.contains(*wire::parse_prefix("::/0")));
  EXPECT_FALSE(routes.add_blackhole(*wire::parse_prefix("::/0"))) << "it is there";
}

}  // namespace
}  // namespace ipoib::mgmt
