// SPDX-License-Identifier: BSD-3-Clause
// Links of a simulated fabric with the embedded administrator, and steps of their multicast groups.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/unit/lib/link/sim_fabric.h"

namespace ipoib::link {

using namespace std::chrono_literals;

inline constexpr unsigned kFull = wire::join_state::kFullMember;
inline constexpr unsigned kNon = wire::join_state::kNonMember;
inline constexpr unsigned kSendOnly = wire::join_state::kSendOnlyNonMember;
inline constexpr unsigned kSendOnlyFull = wire::join_state::kSendOnlyFullMember;

inline constexpr auto* kGlobal = "239.1.2.3";
inline constexpr auto* kLocal = "224.0.0.251";

class SimGroups : public ::testing::Test {
 protected:
  /// Without IPv6 a link joins only 224.0.0.1 besides the broadcast group.
  SimGroups() { f.config.ip6.enabled = f.config.ip6.routing = false; }
  void bring_up(std::size_t n) {
    while (f.nodes.size() < n)
      f.add_node("10.0.0." + std::to_string(f.nodes.size() + 1) + "/24").start();
    ASSERT_TRUE(f.run_until([&] { return f.all_up(); }, 5s));
    f.run_for(20ms);
  }
  SimNode& node(std::size_t i) { return *f.nodes.at(i); }
  // Steps of a node. If `then` is given, that time passes after the step.
  void join(std::size_t i, const char* group, Duration then = {}) {
    ASSERT_TRUE(node(i).link->join_group(ip(group), f.now));
    pass(then);
  }
  void leave(std::size_t i, const char* group, Duration then = {}) {
    ASSERT_TRUE(node(i).link->leave_group(ip(group), f.now));
    pass(then);
  }
  void send(std::size_t i, const char* group, Duration then = {}) {
    node(i).send_ip(ip(group));
    pass(then);
  }
  /// Node 0 sends to new groups, `most` of them, until its table of 128 groups is full.
  void fill_table(std::uint32_t most, Duration each) {
    for (std::uint32_t i = 0; i < most && node(0).link->groups(f.now).size() < 128; ++i) {
      node(0).send_ip(wire::IpAddr::v4(0xef03'0000 + i));
      f.run_for(each);
    }
  }
  /// The node asks the SA for something that its link did not want.
  void ask(std::size_t i, const sa::Request& request, Duration then = {}) {
    node(i).client->submit(
        request, [](const auto&, TimePoint) {}, f.now);
    pass(then);
  }
  void pass(Duration d) {
    if (d != Duration{}) f.run_for(d);
  }
  std::uint64_t heard(std::size_t i, const char* group) {
    return node(i).group_received[ip(group)];
  }
  GroupInfo row(std::size_t i, const char* group) {
    for (auto& r : node(i).link->groups(f.now))
      if (r.group == ip(group)) return r;
    return {};
  }
  void stop_all() {
    for (const auto& n : f.nodes) n->link->stop(f.now);
    f.run_for(40s);
    for (const auto& n : f.nodes) {
      EXPECT_EQ(n->link->state(), State::kStopped);
      EXPECT_TRUE(n->nothing_left());
      EXPECT_FALSE(n->link->next_deadline());
    }
    EXPECT_EQ(f.members(), 0U) << "memberships at the SA";
  }

  SimFabric f{1};
};

}  // namespace ipoib::link
