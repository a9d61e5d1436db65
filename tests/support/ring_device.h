// SPDX-License-Identifier: BSD-3-Clause
// Ethdevs whose wires are rings.
#pragma once

#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/support/mbufs.h"

namespace ipoib::test {

/// Creates an ethdev that receives from one ring and sends to the other. Throws on failure, like
/// all functions here.
inline std::uint16_t add_ring_port(const std::string& name, rte_ring* in, rte_ring* out) {
  const int port =
      in == nullptr || out == nullptr ? -1 : rte_eth_from_rings(name.c_str(), &in, 1, &out, 1, 0);
  if (port < 0) throw std::runtime_error("no ethdev " + name);
  return static_cast<std::uint16_t>(port);
}

/// Does the same, and starts it with one queue in each direction.
inline std::uint16_t start_ring_port(const std::string& name, rte_ring* in, rte_ring* out,
                                     rte_mempool* pool, std::uint16_t depth = 256) {
  constexpr auto kAnySocket = static_cast<unsigned>(SOCKET_ID_ANY);
  const std::uint16_t port = add_ring_port(name, in, out);
  const rte_eth_conf conf{};
  if (pool == nullptr || rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
      rte_eth_rx_queue_setup(port, 0, depth, kAnySocket, nullptr, pool) != 0 ||
      rte_eth_tx_queue_setup(port, 0, depth, kAnySocket, nullptr) != 0 ||
      rte_eth_dev_start(port) != 0)
    throw std::runtime_error("ethdev " + name + " does not start");
  return port;
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
