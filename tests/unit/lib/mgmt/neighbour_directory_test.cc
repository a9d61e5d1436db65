// SPDX-License-Identifier: BSD-3-Clause
// When neighbours get and lose their host entries, beside the messages to workers.
#include "lib/mgmt/slow_path/neighbour_directory.h"

#include <map>
#include <utility>

#include "tests/support/addresses.h"
#include "tests/unit/lib/mgmt/retirement_fixture.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;
using ipoib::test::prefix;
using table::NeighbourState;

/// Host entries, and how many messages had been sent when they last changed.
class NeighbourDirectoryTest : public RetirementFixture, protected route::RouteSink {
 protected:
  void SetUp() override {
    RetirementFixture::SetUp();
    directory->set_routes(routes);
    ASSERT_TRUE(routes.add_address(fwd::test::kIb0, prefix("10.0.0.1/24")));
  }

  Status set_prefix(const wire::IpPrefix&, table::NextHopIndex) override { return {}; }
  void remove_prefix(const wire::IpPrefix&) override {}
  Status add_neighbour(const wire::IpAddr& addr, table::NextHopIndex via,
                       table::NeighbourIndex neighbour) override {
    ++changes;
    if (full) return fail(Errc::kNoResources, "full");
    hosts[{addr, hops.get(via).iface}] = neighbour;
    sent_before = sent();
    return {};
  }
  void remove_neighbour(const wire::IpAddr& addr, table::NextHopIndex via) override {
    ++changes;
    EXPECT_EQ(hosts.erase({addr, hops.get(via).iface}), 1U);
    sent_before = sent();
  }
  void set_next_hop(table::NextHopIndex index, const table::NextHop& hop) override {
    hops.set(index, hop);
  }
  Result<table::NeighbourIndex> use_gateway(table::InterfaceId, const wire::IpAddr&) override {
    return 0;
  }
  void forget_gateway(table::InterfaceId, const wire::IpAddr&) override {}
  bool has_failed(table::InterfaceId, const wire::IpAddr&) const override { return false; }
  std::uint64_t mark_time() override { return 0; }
  bool is_past(std::uint64_t, bool) override { return true; }

  [[nodiscard]] std::uint64_t sent() const { return workers.all().back().channel->sent(); }
  void install(table::NeighbourIndex index, const char* addr, NeighbourState state,
               table::InterfaceId iface = fwd::test::kIb0) {
    table::Neighbour n = ib_neighbour(iface, addr, 3, 0x77);
    n.state = state;
    directory->install(index, n);
  }

  table::NextHopTable hops;
  std::map<std::pair<wire::IpAddr, table::InterfaceId>, table::NeighbourIndex> hosts;
  route::RouteTable routes{*this};
  std::uint64_t sent_before = 0;
  unsigned changes = 0;
  bool full = false;
};

TEST_F(NeighbourDirectoryTest, WorkersAreToldOfANeighbourBeforeItsHostEntryAndUntilAfterIt) {
  const auto index = *directory->allocate_index();
  install(index, "10.0.0.7", NeighbourState::kIncomplete);
  EXPECT_TRUE(hosts.empty());
  install(index, "10.0.0.7", NeighbourState::kValid);
  EXPECT_EQ(hosts.at({ip("10.0.0.7"), fwd::test::kIb0}), index);
  EXPECT_EQ(sent_before, 2U) << "both messages had been sent";
  directory->remove(index);
  EXPECT_TRUE(hosts.empty());
  EXPECT_EQ(sent_before, 2U);
  EXPECT_EQ(sent(), 3U) << "the removal followed";
}

TEST_F(NeighbourDirectoryTest, ChangesOfANeighbourLeaveItsHostEntryAlone) {
  const auto index = *directory->allocate_index();
  for (int i = 0; i < 3; ++i) {
    install(index, "10.0.0.7", NeighbourState::kValid);
    install(index, "10.0.0.7", NeighbourState::kFailed);
    install(index, "10.0.0.7", NeighbourState::kIncomplete);
  }
  EXPECT_EQ(changes, 1U);
  EXPECT_EQ(hosts.size(), 1U);
  install(index, "10.0.0.8", NeighbourState::kValid);
  EXPECT_EQ(hosts.size(), 1U) << "a number has one host entry";
  EXPECT_TRUE(hosts.contains({ip("10.0.0.8"), fwd::test::kIb0}));
}

TEST_F(NeighbourDirectoryTest, OnlyIpv4HostsHaveAHostEntry) {
  for (const char* addr :
       {"fd00::7", "239.1.1.1", "255.255.255.255", "10.0.0.255", "10.0.0.1", "192.0.2.7"}) {
    const auto index = *directory->allocate_index();
    install(index, addr, NeighbourState::kValid);
    directory->remove(index);
  }
  EXPECT_EQ(changes, 0U);
}

TEST_F(NeighbourDirectoryTest, WhereThereWasNoRoomTheNextChangeTriesAgain) {
  const auto index = *directory->allocate_index();
  full = true;
  install(index, "10.0.0.7", NeighbourState::kValid);
  directory->remove(index);
  EXPECT_EQ(changes, 1U) << "nothing to remove";
  const auto other = *directory->allocate_index();
  install(other, "10.0.0.8", NeighbourState::kValid);
  full = false;
  install(other, "10.0.0.8", NeighbourState::kValid);
  EXPECT_EQ(hosts.size(), 1U);
}

}  // namespace
}  // namespace ipoib::mgmt
