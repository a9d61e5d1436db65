// SPDX-License-Identifier: BSD-3-Clause
// Ethdevs whose wires are rings.
#pragma once

#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "tests/support/mbufs.h"

namespace ipoib::test {

using Rings = std::span<rte_ring* const>;

/// Creates an ethdev with a receive queue for each ring of `in`, and a transmit queue for each of
/// `out`. Throws on failure, like all functions here.
inline std::uint16_t add_ring_port(const std::string& name, Rings in, Rings out) {
  const auto has_none = [](Rings rings) { return std::ranges::count(rings, nullptr) != 0; };
  const auto nb_rx = static_cast<unsigned>(in.size()), nb_tx = static_cast<unsigned>(out.size());
  const int port = has_none(in) || has_none(out)
                       ? -1
                       : rte_eth_from_rings(name.c_str(), in.data(), nb_rx, out.data(), nb_tx, 0);
  if (port < 0) throw std::runtime_error("no ethdev " + name);
  return static_cast<std::uint16_t>(port);
}
inline std::uint16_t add_ring_port(const std::string& name, rte_ring* in, rte_ring* out) {
  return add_ring_port(name, Rings{&in, 1}, Rings{&out, 1});
}

/// Does the same, and starts it.
inline std::uint16_t start_ring_port(const std::string& name, Rings in, Rings out,
                                     rte_mempool* pool, std::uint16_t depth = 256) {
  constexpr auto kAnySocket = static_cast<unsigned>(SOCKET_ID_ANY);
  const std::uint16_t port = add_ring_port(name, in, out);
  const auto nb_rx = static_cast<std::uint16_t>(in.size());
  const auto nb_tx = static_cast<std::uint16_t>(out.size());
  const rte_eth_conf conf{};
  bool good = pool != nullptr && rte_eth_dev_configure(port, nb_rx, nb_tx, &conf) == 0;
  for (std::uint16_t q = 0; q < nb_rx; ++q)
    good = good && rte_eth_rx_queue_setup(port, q, depth, kAnySocket, nullptr, pool) == 0;
  for (std::uint16_t q = 0; q < nb_tx; ++q)
    good = good && rte_eth_tx_queue_setup(port, q, depth, kAnySocket, nullptr) == 0;
  if (!good || rte_eth_dev_start(port) != 0)
    throw std::runtime_error("ethdev " + name + " does not start");
  return port;
}
inline std::uint16_t start_ring_port(const std::string& name, rte_ring* in, rte_ring* out,
                                     rte_mempool* pool, std::uint16_t depth = 256) {
  return start_ring_port(name, Rings{&in, 1}, Rings{&out, 1}, pool, depth);
}

/// Returns the name by which a configuration refers to the ethdev.
inline std::string name_of_port(std::uint16_t port) {
  std::array<char, RTE_ETH_NAME_MAX_LEN> text{};
  if (rte_eth_dev_get_name_by_port(port, text.data()) != 0) throw std::runtime_error("no port");
  return text.data();
}

/// An ethdev of a node, with both rings accessible to the test.
struct RingDevice {
  explicit RingDevice(const std::string& base, unsigned max_waiting = 1024) {
    static int count = 0;
    const std::string unique = base + std::to_string(count++);
    to_node = rte_ring_create((unique + "_in").c_str(), max_waiting, SOCKET_ID_ANY, 0);
    from_node = rte_ring_create((unique + "_out").c_str(), 1024, SOCKET_ID_ANY, 0);
    port = add_ring_port(unique, to_node, from_node);
    name = name_of_port(port);
  }

  rte_ring* to_node;
  rte_ring* from_node;
  std::uint16_t port;
  std::string name;
};

}  // namespace ipoib::test
