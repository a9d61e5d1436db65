// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/xstats.h"

#include <fmt/format.h>

#include <algorithm>

namespace ipoib::mgmt {
namespace {

/// The first part of a reason's name says where it is counted.
bool possible(Place place, Drop reason) {
  const auto name = drop_name(reason);
  if (name.starts_with("ib_"))
    return place == Place::kHca || (place == Place::kLink && reason == Drop::kIbTxFull);
  if (place == Place::kHca) return false;
  if (name.starts_with("ipoib_") || name.starts_with("group_")) return place == Place::kLink;
  if (name.starts_with("eth_")) return place == Place::kPort;
  return true;
}

void add_drops(std::vector<Xstat>& rows, Place place,
               const std::array<std::uint64_t, kDropCount>& drops) {
  for (const auto& [reason, packets] : drops_at(place, drops))
    rows.push_back(
        {fmt::format("{}_drop_{}", is_transmit(reason) ? "tx" : "rx", drop_name(reason)), packets});
}

std::uint64_t transmit_drops(const TrafficInfo& traffic) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kDropCount; ++i)
    if (is_transmit(static_cast<Drop>(i))) sum += traffic.drops[i];
  return sum;
}

std::uint64_t since(std::uint64_t now, std::uint64_t from) {
  return now >= from ? now - from : now;
}

}  // namespace

bool is_transmit(Drop reason) {
  switch (reason) {
    case Drop::kIbTxFull:
    case Drop::kIbTxTooLong:
    case Drop::kIbTxInvalid:
    case Drop::kIbRateLimited:
    case Drop::kIbTxFlushed:
    case Drop::kEthTxFull:
    case Drop::kHandoffRingFull:
    case Drop::kTxSegments: return true;
    default: return false;
  }
}

std::vector<std::pair<Drop, std::uint64_t>> drops_at(
    Place place, const std::array<std::uint64_t, kDropCount>& drops) {
  std::vector<std::pair<Drop, std::uint64_t>> rows;
  for (std::size_t i = 0; i < kDropCount; ++i) {
    const auto reason = static_cast<Drop>(i);
    if (drops[i] != 0 || possible(place, reason)) rows.emplace_back(reason, drops[i]);
  }
  return rows;
}

std::vector<Xstat> interface_xstats(Place place, const TrafficInfo& traffic,
                                    const DeviceStats& errors, std::span<const Xstat> device) {
  std::vector<Xstat> rows = {
      {"rx_good_packets", traffic.rx_packets}, {"tx_good_packets", traffic.tx_packets},
      {"rx_good_bytes", traffic.rx_bytes},     {"tx_good_bytes", traffic.tx_bytes},
      {"rx_missed_errors", errors.rx_missed},  {"rx_errors", errors.rx_errors},
      {"tx_errors", transmit_drops(traffic)},  {"rx_mbuf_allocation_errors", errors.rx_nombuf}};
  // Queue 0 of a device with one has all packets. Other devices count by queue themselves.
  const auto has = [device](std::string_view name) {
    return std::any_of(device.begin(), device.end(),
                       [name](const Xstat& x) { return x.name == name; });
  };
  if (!has("rx_q1_packets")) {
    rows.push_back({"rx_q0_packets", traffic.rx_packets});
    rows.push_back({"rx_q0_bytes", traffic.rx_bytes});
  }
  if (!has("tx_q1_packets")) {
    rows.push_back({"tx_q0_packets", traffic.tx_packets});
    rows.push_back({"tx_q0_bytes", traffic.tx_bytes});
  }
  add_drops(rows, place, traffic.drops);
  const std::size_t n = rows.size();
  for (const Xstat& x : device) {
    const auto end = rows.begin() + static_cast<std::ptrdiff_t>(n);
    const bool listed =
        std::any_of(rows.begin(), end, [&](const Xstat& r) { return r.name == x.name; });
    if (!listed) rows.push_back(x);
  }
  return rows;
}

std::vector<Xstat> hca_xstats(const std::array<std::uint64_t, kDropCount>& drops,
                              std::span<const Xstat> ethdev) {
  std::vector<Xstat> rows{ethdev.begin(), ethdev.end()};
  add_drops(rows, Place::kHca, drops);
  return rows;
}

std::vector<Xstat> since(std::vector<Xstat> now, std::span<const Xstat> from) {
  for (std::size_t i = 0; i < std::min(now.size(), from.size()); ++i)
    if (now[i].name == from[i].name) now[i].value = since(now[i].value, from[i].value);
  return now;
}

DeviceStats since(const DeviceStats& now, const DeviceStats& from) {
  return {since(now.rx_missed, from.rx_missed), since(now.rx_errors, from.rx_errors),
          since(now.rx_nombuf, from.rx_nombuf)};
}

}  // namespace ipoib::mgmt
