// SPDX-License-Identifier: BSD-3-Clause
// Two software HCAs on one cable made of rings, and functions that put frames on it and remove
// them.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/icrc/icrc.h"
#include "tests/support/drops.h"
#include "tests/support/mbufs.h"
#include "tests/support/soft_frames.h"
#include "tests/support/vectors.h"

namespace ipoib::soft {

using test::Bytes;
using test::bytes_of;

/// The cable and the mempool, shared by all tests.
struct Cable {
  static constexpr unsigned kMbufs = 2047;
  static constexpr unsigned kCableLen = 255;  ///< Frames in each direction.

  rte_mempool* pool;
  std::uint16_t port[2];
  rte_ring* towards[2];  ///< Frames in flight to port[i].

  static Cable& get();
};

/// A cable with two queues in each direction, shared by all tests. Nothing is at its other end.
struct WideCable {
  std::uint16_t port;
  std::array<rte_ring*, 2> in, out;

  static WideCable& get();
};

inline constexpr std::uint64_t kGuid[2] = {0x0002'c903'00a1'b204, 0x0002'c903'00a1'b207};
inline constexpr std::uint16_t kLid[2] = {3, 2};
inline constexpr std::uint32_t kQkey = 0x0b1b;
inline constexpr std::uint16_t kMlid = 0xc000;

[[nodiscard]] wire::Gid gid_of(std::string_view hex);
[[nodiscard]] inline wire::Gid broadcast_mgid() {
  return gid_of("ff12401bffff000000000000ffffffff");
}

/// One port with one UD queue.
struct Node {
  std::unique_ptr<SoftHca> hca;
  fabric::UdQueue* queue = nullptr;

  /// One loop of a worker.
  void poll(unsigned worker = 0) const {
    hca->poll_function()(*hca, worker, soft::UdDatapath::kBurst);
  }
  [[nodiscard]] std::vector<rte_mbuf*> receive(fabric::UdQueue* from = nullptr) const;
  /// Sum of the drops of all reasons.
  [[nodiscard]] std::uint64_t all_drops() const { return test::sum_of(hca->drops()); }
};

class SoftFixture : public testing::Test {
 protected:
  void SetUp() override;
  /// Expects that every mbuf is back in the pool.
  void TearDown() override;

  static SoftHcaConfig config(int side);
  static Node make_node(const SoftHcaConfig& config);
  static Node make_node(int side) { return make_node(config(side)); }
  static fabric::AhIndex ah_to(const Node& node, std::uint16_t dlid);
  static fabric::AhIndex group_ah(const Node& node, const wire::Gid& mgid, std::uint16_t mlid);

  /// Returns the number of packets of 24 octets that arrive from one node at the other.
  static std::size_t arrive(const Node& from, fabric::AhIndex ah, const Node& to);
  static rte_mbuf* packet(std::span<const std::byte> payload, fabric::AhIndex ah,
                          std::uint32_t qpn);
  /// Removes and returns the frames on the cable towards a side, with Ethernet header.
  static std::vector<Bytes> on_cable(int side);
  static void put_on_cable(int side, std::span<const std::byte> frame);
  static unsigned mbufs_in_use();
};

/// The frame of a vector: Ethernet header, LRH through ICRC, padding. It has no VCRC.
[[nodiscard]] Bytes soft_frame(std::span<const std::byte> iba);
[[nodiscard]] Bytes vector_frame(std::string_view name);
[[nodiscard]] Bytes counting(std::size_t len);

}  // namespace ipoib::soft
