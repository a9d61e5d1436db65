// SPDX-License-Identifier: BSD-3-Clause
// Names of tests are those of tests/requirements.md.
#include "lib/cm/port_limiter.h"

#include <gtest/gtest.h>

namespace ipoib::cm {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kFar = 0x2001'0db8'0000'0001;
const wire::Gid kOwnGid = wire::Gid::of(wire::kDefaultGidPrefix, 1);

PortName at(std::uint16_t lid) {
  return {.lid = lid, .gid = {}};
}

struct Ports {
  PortLimiter limiter{PortLimits{}};
  TimePoint now{10s};

  /// Returns the number of queue pairs that the port gets if it asks so many times. Their
  /// connections end at once, if they do.
  unsigned get(const PortName& port, unsigned times, bool end = true) {
    unsigned got = 0;
    for (unsigned i = 0; i < times; ++i) {
      if (!limiter.allow(port, now)) continue;
      ++got;
      if (end) limiter.end(port);
    }
    return got;
  }
};

TEST(PortLimiter, P16_APortHasABurstAndARate) {
  Ports ports;
  EXPECT_EQ(ports.get(at(7), 1000), 256U);
  EXPECT_EQ(ports.get(at(8), 10), 10U) << "the share of another port";
  ports.now += 1s;
  EXPECT_EQ(ports.get(at(7), 1000), 50U);
  ports.now += 60s;
  EXPECT_EQ(ports.get(at(7), 1000), 256U);
}

TEST(PortLimiter, P16_ConnectionsOfAPortAreLimited) {
  Ports ports;
  EXPECT_EQ(ports.get(at(7), 256, false), 256U);
  ports.now += 60s;
  EXPECT_EQ(ports.get(at(7), 10, false), 0U);
  EXPECT_EQ(ports.limiter.connections(at(7)), 256U);
  ports.limiter.end(at(7));
  EXPECT_EQ(ports.get(at(7), 10, false), 1U);
}

TEST(PortLimiter, P16_AllPortsTogetherHaveABurstAndARate) {
  Ports ports;
  unsigned got = 0;
  for (std::uint16_t lid = 1; lid <= 2000; ++lid) got += ports.get(at(lid), 1);
  EXPECT_EQ(got, 512U);
  ports.now += 1s;
  got = 0;
  for (std::uint16_t lid = 1; lid <= 2000; ++lid) got += ports.get(at(lid), 1);
  EXPECT_EQ(got, 500U);
}

/// A port that is refused because of its own limit takes nothing from the others.
TEST(PortLimiter, P16_APortBeyondItsShareTakesNothingFromTheOthers) {
  Ports ports;
  ports.get(at(7), 256, false);
  ports.get(at(7), 5000, false);
  unsigned got = 0;
  for (std::uint16_t lid = 100; lid < 1100; ++lid) got += ports.get(at(lid), 1);
  EXPECT_EQ(got, 256U);
}

TEST(PortLimiter, P16_EverNewPortsAreForgotten) {
  Ports ports;
  ports.get(at(1), 1, false);
  for (std::uint16_t lid = 2; lid < 40'000; ++lid) {
    ports.now += 2ms;
    ports.get(at(lid), 1);
    ASSERT_LE(ports.limiter.ports(), 2U * 3072)
        << "those of twice the time in which a share is whole";
  }
  EXPECT_EQ(ports.limiter.connections(at(1)), 1U);
}

/// Neither the path bits of a LID nor a GID of the own subnet give a port another share.
TEST(PortName, P16_APortCannotChooseItsName) {
  const PortIdentity own{.gid = kOwnGid, .lid = 1, .lmc = 2, .by_gid = false};
  const auto name = [&own](std::uint16_t lid, const wire::Gid& gid) {
    return PortName::of({.lid = lid, .gid = gid}, own);
  };
  const auto near = [](std::uint64_t guid) { return wire::Gid::of(wire::kDefaultGidPrefix, guid); };
  EXPECT_EQ(name(8, {}), name(11, {}));
  EXPECT_NE(name(8, {}), name(12, {}));
  EXPECT_EQ(name(8, near(5)), name(9, near(6)));
  // The ports behind a router, and those of a link layer without LIDs.
  EXPECT_NE(name(8, wire::Gid::of(kFar, 5)), name(8, wire::Gid::of(kFar, 6)));
  EXPECT_EQ(name(8, wire::Gid::of(kFar, 5)), name(40, wire::Gid::of(kFar, 5)));
  const PortIdentity ethernet{.gid = kOwnGid, .lid = 1, .lmc = 0, .by_gid = true};
  EXPECT_NE(PortName::of({.lid = 2, .gid = near(5)}, ethernet),
            PortName::of({.lid = 2, .gid = near(6)}, ethernet));
}

}  // namespace
}  // namespace ipoib::cm
