// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/drop.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ipoib {
namespace {

TEST(DropNames, CompleteUniqueAndInOneStyle) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kDropCount; ++i) {
    const std::string_view name = drop_name(static_cast<Drop>(i));
    EXPECT_FALSE(name.empty()) << i;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos)
        << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

// The list of names has the order of the list of reasons: the first and last reasons of the groups
// have their own names.
TEST(DropNames, StandWithTheirReasons) {
  struct Case {
    Drop reason;
    const char* name;
  };
  for (const auto& c : std::initializer_list<Case>{{Drop::kIbRunt, "ib_runt"},
                                                   {Drop::kIbIcrc, "ib_icrc"},
                                                   {Drop::kIbTxInvalid, "ib_tx_invalid"},
                                                   {Drop::kIpoibRunt, "ipoib_runt"},
                                                   {Drop::kEthTxFull, "eth_tx_full"},
                                                   {Drop::kIpRunt, "ip_runt"},
                                                   {Drop::kIpTtlExceeded, "ip_ttl_exceeded"},
                                                   {Drop::kIpFragmentLimit, "ip_fragment_limit"},
                                                   {Drop::kLocalUnsupported, "local_unsupported"},
                                                   {Drop::kLocalFromSelf, "local_from_self"},
                                                   {Drop::kNeighbourPending, "neighbour_pending"},
                                                   {Drop::kGroupAbsent, "group_absent"},
                                                   {Drop::kForwardingStopped, "forwarding_stopped"},
                                                   {Drop::kNoMbuf, "no_mbuf"}})
    EXPECT_EQ(drop_name(c.reason), c.name);
}

}  // namespace
}  // namespace ipoib
