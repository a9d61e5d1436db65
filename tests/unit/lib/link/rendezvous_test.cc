// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/shared/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <vector>

namespace ipoib::link {
namespace {

constexpr std::uint64_t kRendezvousHosts = 1000;

/// GUIDs as a manufacturer gives them: few bits differ.
std::vector<std::uint64_t> guids_from(std::uint64_t first, std::uint64_t n, std::uint64_t step) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < n; ++i) all.push_back(first + i * step);
  return all;
}

std::vector<std::uint64_t> rendezvous_hosts() {
  return guids_from(0x0002'c903'000a'0001, kRendezvousHosts, 16);
}

std::map<std::uint64_t, std::size_t> shares_of(const std::vector<std::uint64_t>& members) {
  std::map<std::uint64_t, std::size_t> shares;
  for (const std::uint64_t host : rendezvous_hosts()) ++shares[*rendezvous_winner(host, members)];
  return shares;
}

// Other implementations must come to the same numbers.
TEST(Rendezvous, P18_HasTheDocumentedValues) {
  EXPECT_EQ(rendezvous_mix(0), 0xe220'a839'7b1d'cdafULL);  // The first output of SplitMix64.
  EXPECT_EQ(rendezvous_weight(1, 2), rendezvous_mix(rendezvous_mix(1) ^ 2));
  EXPECT_EQ(rendezvous_winner(1, std::vector<std::uint64_t>{}), std::nullopt);
}

TEST(Rendezvous, P18_SharesAreEqualWithinFourStandardDeviations) {
  for (const std::uint64_t n : {2U, 3U, 8U}) {
    const auto shares = shares_of(guids_from(0x0002'c903'000b'0001, n, 1));
    ASSERT_EQ(shares.size(), n);
    const double p = 1.0 / static_cast<double>(n);
    const double deviation = std::sqrt(static_cast<double>(kRendezvousHosts) * p * (1 - p));
    std::string text;
    for (const auto& [member, share] : shares) {
      EXPECT_NEAR(static_cast<double>(share), static_cast<double>(kRendezvousHosts) * p,
                  4 * deviation);
      text += fmt::format(" {}", share);
    }
    std::cout << fmt::format("{} nodes, {} hosts, shares:{}\n", n, kRendezvousHosts, text);
  }
}

TEST(Rendezvous, P18_OnlyTheHostsOfTheMemberThatLeavesMove) {
  for (const std::uint64_t n : {2U, 3U, 8U}) {
    const auto members = guids_from(0x0002'c903'000b'0001, n, 1);
    for (const std::uint64_t gone : members) {
      auto rest = members;
      std::erase(rest, gone);
      std::size_t moved = 0;
      for (const std::uint64_t host : rendezvous_hosts()) {
        const auto before = rendezvous_winner(host, members);
        if (before == gone)
          ++moved;
        else
          EXPECT_EQ(rendezvous_winner(host, rest), before);
      }
      if (gone == members.front())
        std::cout << fmt::format("{} nodes, one leaves: {} of {} hosts move\n", n, moved,
                                 kRendezvousHosts);
      EXPECT_EQ(moved, shares_of(members)[gone]);
    }
  }
}

TEST(Rendezvous, P18_TheOrderOfMembersDoesNotMatter) {
  auto members = guids_from(0x0002'c903'000b'0001, 8, 1);
  const auto before = shares_of(members);
  std::reverse(members.begin(), members.end());
  EXPECT_EQ(shares_of(members), before);
}

}  // namespace
}  // namespace ipoib::link
