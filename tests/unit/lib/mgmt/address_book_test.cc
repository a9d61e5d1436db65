// SPDX-License-Identifier: BSD-3-Clause
// Routes that come from router advertisements and redirects.
#include "lib/mgmt/slow_path/address_book.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
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

/// An operator's route takes precedence over redirects, however often they arrive.
TEST_F(AddressBookTest, RefusedRedirectsAreToldOfOnceASecond) {
  ASSERT_TRUE(routes.add_blackhole(*wire::parse_prefix("2001:db8::9/128")));
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

/// The withdrawal of a default router whose route was not used does not remove the operator's
/// default route.
TEST_F(AddressBookTest, AdvertisedRouterTakesOnlyItsOwnRouteAway) {
  ASSERT_TRUE(routes.add_blackhole(*wire::parse_prefix("::/0")));
  logged([this] {
    book.default_router(0, ip("fe80::1"), true);
    book.default_router(0, ip("fe80::1"), false);
  });
  EXPECT_TRUE(prefixes.contains(*wire::parse_prefix("::/0")));
  EXPECT_FALSE(routes.add_blackhole(*wire::parse_prefix("::/0"))) << "it is there";
}

}  // namespace
}  // namespace ipoib::mgmt
