// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/port_events.h"

#include <gtest/gtest.h>

#include <vector>

namespace ipoib::fabric {
namespace {

std::vector<PortEvent> all(PortEvents& events) {
  std::vector<PortEvent> result;
  while (const auto event = events.next()) result.push_back(*event);
  return result;
}

TEST(PortEvents, EachKindWaitsOnce) {
  PortEvents events;
  EXPECT_FALSE(events.next());
  for (int i = 0; i < 1000; ++i) {
    events.add(PortEvent::kLidChange);
    events.add(PortEvent::kClientReregister);
  }
  EXPECT_EQ(all(events),
            (std::vector<PortEvent>{PortEvent::kLidChange, PortEvent::kClientReregister}));
  EXPECT_FALSE(events.next());
}

TEST(PortEvents, TheLastOneTellsWhetherThePortIsActive) {
  PortEvents events;
  events.add(PortEvent::kPortDown);
  events.add(PortEvent::kPortActive);
  EXPECT_EQ(all(events), (std::vector<PortEvent>{PortEvent::kPortDown, PortEvent::kPortActive}));
  events.add(PortEvent::kPortActive);
  events.add(PortEvent::kPortDown);
  EXPECT_EQ(all(events), std::vector<PortEvent>{PortEvent::kPortDown});
  events.add(PortEvent::kPortActive);
  events.add(PortEvent::kSmChange);
  EXPECT_EQ(all(events), (std::vector<PortEvent>{PortEvent::kSmChange, PortEvent::kPortActive}))
      << "who waits for an active port finds its SM known";
}

TEST(PortEvents, ChangesOfAddressesAreTheirEvents) {
  const PortAttr before;
  const auto after = [&](auto change) {
    PortAttr next = before;
    change(next);
    PortEvents events;
    events.add_changes(before, next);
    return all(events);
  };
  using Kinds = std::vector<PortEvent>;
  EXPECT_EQ(after([](PortAttr&) {}), Kinds{});
  EXPECT_EQ(after([](PortAttr& a) { a.state = PortState::kDown; }), Kinds{});
  EXPECT_EQ(after([](PortAttr& a) { a.guid = 1; }), Kinds{PortEvent::kGidChange});
  EXPECT_EQ(after([](PortAttr& a) { a.gid_prefix = 1; }), Kinds{PortEvent::kGidChange});
  EXPECT_EQ(after([](PortAttr& a) { a.lid = 1; }), Kinds{PortEvent::kLidChange});
  EXPECT_EQ(after([](PortAttr& a) { a.lmc = 1; }), Kinds{PortEvent::kLidChange});
  EXPECT_EQ(after([](PortAttr& a) { a.pkeys = {}; }), Kinds{PortEvent::kPkeyChange});
  EXPECT_EQ(after([](PortAttr& a) { a.sm_lid = 1; }), Kinds{PortEvent::kSmChange});
  EXPECT_EQ(after([](PortAttr& a) { a.sm_sl = 1; }), Kinds{PortEvent::kSmChange});
}

TEST(PortEvents, EveryKindComesOutAndHasAName) {
  PortEvents events;
  for (int kind = 0; kind <= static_cast<int>(PortEvent::kFatal); ++kind) {
    events.add(static_cast<PortEvent>(kind));
    EXPECT_EQ(events.next(), static_cast<PortEvent>(kind));
    EXPECT_FALSE(to_string(static_cast<PortEvent>(kind)).empty());
  }
  EXPECT_EQ(to_string(PortEvent::kFatal), "fatal");
}

}  // namespace
}  // namespace ipoib::fabric
