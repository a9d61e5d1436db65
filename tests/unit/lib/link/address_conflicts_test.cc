// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/address_conflicts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "tests/support/logged.h"

namespace ipoib::link {
namespace {

using std::chrono::seconds;

constexpr wire::MacAddr kClaimant = {std::byte{2}, std::byte{0}, std::byte{0},
                                     std::byte{0}, std::byte{0}, std::byte{5}};

/// Both families: an own address is defended, and claims are logged, once in ten seconds.
TEST(AddressConflicts, AreDefendedAndLoggedOncePerInterval) {
  for (const char* text : {"10.0.0.1", "fd00::1"}) {
    const wire::IpAddr addr = *wire::parse_ip(text);
    const std::string name = "eth0";
    AddressConflicts conflicts{name};
    const auto claims = [&](int n, Duration at) {
      int defended = 0;
      const std::string log = logged([&] {
        for (int i = 0; i < n; ++i)
          defended += conflicts.on_conflict(addr, kClaimant, TimePoint{} + at) ? 1 : 0;
      });
      return std::pair{defended, log};
    };
    const auto [defended, log] = claims(100, seconds(1));
    EXPECT_EQ(defended, 1);
    EXPECT_NE(log.find("eth0: address conflict: own address " + std::string{text} +
                       " is also claimed by 02:00:00:00:00:05 (0 conflicts suppressed)"),
              std::string::npos)
        << log;
    EXPECT_EQ(claims(1, seconds(10)), (std::pair{0, std::string{}}));
    const auto again = claims(1, seconds(11));
    EXPECT_EQ(again.first, 1);
    EXPECT_NE(again.second.find("(100 conflicts suppressed)"), std::string::npos) << again.second;
  }
}

TEST(AddressConflicts, OfOtherHostsAreOnlyLogged) {
  const std::string name = "eth0";
  AddressConflicts conflicts{name};
  const wire::IpAddr addr = *wire::parse_ip("10.0.0.7");
  const std::string log = logged([&] {
    for (int i = 0; i < 100; ++i) conflicts.on_contradiction(addr, kClaimant, {});
  });
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
  EXPECT_NE(log.find("eth0: address conflict: 10.0.0.7 is claimed by 02:00:00:00:00:05 and by"
                     " another host (0 conflicts suppressed)"),
            std::string::npos)
      << log;
  logged([&] { EXPECT_TRUE(conflicts.on_conflict(addr, kClaimant, {})) << "a limit of its own"; });
}

}  // namespace
}  // namespace ipoib::link
