// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/xstats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace ipoib::mgmt {
namespace {

using DropArray = std::array<std::uint64_t, kDropCount>;

std::optional<std::uint64_t> value_of(const std::vector<Xstat>& rows, std::string_view name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Xstat& x) { return x.name == name; });
  return found == rows.end() ? std::nullopt : std::optional{found->value};
}

TrafficInfo some_traffic() {
  TrafficInfo t{10, 20, 1000, 2000, {}};
  t.drops[static_cast<std::size_t>(Drop::kIpNoRoute)] = 5;
  t.drops[static_cast<std::size_t>(Drop::kIbTxFull)] = 3;
  t.drops[static_cast<std::size_t>(Drop::kHandoffRingFull)] = 4;
  return t;
}

TEST(Xstats, OfALink) {
  const auto rows = interface_xstats(Place::kLink, some_traffic(), {}, {});
  EXPECT_EQ(rows[0].name, "rx_good_packets");
  EXPECT_EQ(value_of(rows, "rx_good_packets"), 10U);
  EXPECT_EQ(value_of(rows, "tx_good_bytes"), 2000U);
  EXPECT_EQ(value_of(rows, "rx_q0_packets"), 10U);
  EXPECT_EQ(value_of(rows, "tx_q0_packets"), 20U);
  // A device with two receive queues counts by queue itself.
  const std::vector<Xstat> device{{"rx_q0_packets", 7}, {"rx_q1_packets", 3}};
  const auto by_queue = interface_xstats(Place::kPort, some_traffic(), {}, device);
  EXPECT_EQ(value_of(by_queue, "rx_q0_packets"), 7U);
  EXPECT_EQ(value_of(by_queue, "rx_q1_packets"), 3U);
  EXPECT_EQ(value_of(by_queue, "tx_q0_packets"), 20U);
  EXPECT_EQ(value_of(rows, "rx_drop_ip_no_route"), 5U);
  EXPECT_EQ(value_of(rows, "tx_drop_ib_tx_full"), 3U);
  EXPECT_EQ(value_of(rows, "tx_errors"), 7U) << "the sum of what was lost on the way out";
  EXPECT_EQ(value_of(rows, "rx_drop_ip_checksum"), 0U) << "zeros are there";
  EXPECT_FALSE(value_of(rows, "rx_drop_eth_runt")) << "no link counts that";
  EXPECT_FALSE(value_of(rows, "rx_drop_ib_icrc")) << "its hca does";
}

// Counters of the device without a counterpart of ours are shown as they are; no name occurs twice.
TEST(Xstats, OfAPortWithThoseOfItsDevice) {
  const std::vector<Xstat> device = {{"rx_good_packets", 99}, {"rx_phy_crc_errors", 6}};
  const auto rows = interface_xstats(Place::kPort, some_traffic(), {1, 2, 3}, device);
  EXPECT_EQ(value_of(rows, "rx_missed_errors"), 1U);
  EXPECT_EQ(value_of(rows, "rx_errors"), 2U);
  EXPECT_EQ(value_of(rows, "rx_mbuf_allocation_errors"), 3U);
  EXPECT_EQ(value_of(rows, "rx_good_packets"), 10U);
  EXPECT_EQ(rows.back().name, "rx_phy_crc_errors");
  EXPECT_EQ(value_of(rows, "rx_drop_eth_runt"), 0U);
  EXPECT_EQ(value_of(rows, "tx_drop_ib_tx_full"), 3U) << "counted, so shown, wherever it was";
  std::set<std::string> names;
  for (const Xstat& x : rows) EXPECT_TRUE(names.insert(x.name).second) << x.name;
}

TEST(Xstats, OfAnHcaWithThoseOfItsCable) {
  DropArray drops{};
  drops[static_cast<std::size_t>(Drop::kIbPkey)] = 12;
  const auto rows = hca_xstats(drops, std::vector<Xstat>{{"rx_good_packets", 40}});
  EXPECT_EQ(value_of(rows, "rx_good_packets"), 40U);
  EXPECT_EQ(value_of(rows, "rx_drop_ib_pkey"), 12U);
  EXPECT_EQ(value_of(rows, "tx_drop_ib_rate_limited"), 0U);
  EXPECT_FALSE(value_of(rows, "rx_drop_ip_no_route"));
}

// Each reason appears in at least one place.
TEST(Xstats, EveryReasonHasAPlace) {
  for (std::size_t i = 0; i < kDropCount; ++i) {
    bool found = false;
    for (const Place place : {Place::kLink, Place::kPort, Place::kHca, Place::kNode})
      for (const auto& [reason, n] : drops_at(place, {})) found |= reason == static_cast<Drop>(i);
    EXPECT_TRUE(found) << drop_name(static_cast<Drop>(i));
  }
}

TEST(Xstats, SinceAClear) {
  const std::vector<Xstat> from = {{"a", 5}, {"b", 7}, {"c", 1}};
  const auto rows = since(std::vector<Xstat>{{"a", 8}, {"b", 2}, {"d", 4}}, from);
  EXPECT_EQ(value_of(rows, "a"), 3U);
  EXPECT_EQ(value_of(rows, "b"), 2U) << "the device set it back";
  EXPECT_EQ(value_of(rows, "d"), 4U) << "another counter than the one remembered";
  const DeviceStats device = since(DeviceStats{5, 1, 9}, DeviceStats{2, 3, 9});
  EXPECT_EQ(device.rx_missed, 3U);
  EXPECT_EQ(device.rx_errors, 1U);
  EXPECT_EQ(device.rx_nombuf, 0U);
}

}  // namespace
}  // namespace ipoib::mgmt
