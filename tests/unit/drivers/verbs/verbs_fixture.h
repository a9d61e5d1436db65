// SPDX-License-Identifier: BSD-3-Clause
// Ports of the verbs driver on devices of the libibverbs stand-in, and functions that make them
// exchange packets.
#pragma once

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "drivers/verbs/verbs_hca.h"
#include "lib/fabric/packet_meta.h"
#include "tests/support/drops.h"
#include "tests/support/fake_verbs/fabric.h"
#include "tests/support/mbufs.h"
#include "tests/support/silent_mad_port.h"

namespace ipoib::verbs {

using test::Bytes;

inline constexpr std::uint32_t kQkey = 0xb1b;
inline constexpr std::uint16_t kMlid = 0xc001;
// Speeds of ports and rates of paths.
inline constexpr std::uint8_t kSpeed10Gbps = 1, kSpeed100Gbps = 32;
inline constexpr std::uint8_t kRate40Gbps = 7;
inline constexpr std::uint16_t kDepth = 64;  ///< Depth of all queues.
inline const wire::Gid kMgid = wire::Gid::of(0xff12'401b'ffff'0000, 0xffff'ffff);

/// A QP1 that receives the MADs which a test puts into `waiting`.
class QueuedMads final : public test::SilentMadPort {
 public:
  std::optional<fabric::ReceivedMad> receive() override {
    if (waiting.empty()) return std::nullopt;
    const fabric::ReceivedMad first = waiting.front();
    waiting.pop_front();
    return first;
  }
  [[nodiscard]] bool pending() const override { return !waiting.empty(); }

  std::deque<fabric::ReceivedMad> waiting;
};

/// Plays the port manager, with the attributes of the device's port.
class FakePortManager final : public fabric::PortManager {
 public:
  explicit FakePortManager(const fake_verbs::Device& device) : device_{device} {}

  [[nodiscard]] fabric::MadPort& mad_port() override { return mads; }
  [[nodiscard]] const fabric::PortAttr& attr() const override;
  std::optional<fabric::PortEvent> next_event() override;
  [[nodiscard]] std::string problem() const override { return trouble; }

  [[nodiscard]] fabric::KeyViolations key_violations() const override {
    const fake_verbs::Port& port = device_.ports[0];
    return {.pkey = port.pkey_violations, .qkey = port.qkey_violations};
  }

  std::deque<fabric::PortEvent> events;
  std::string trouble;
  QueuedMads mads;
  std::optional<std::uint8_t> mtu;  ///< Code of the MTU that it reports; none: the device's.

 private:
  const fake_verbs::Device& device_;
  mutable fabric::PortAttr attr_;
};

/// One port with one UD queue.
struct Node {
  [[nodiscard]] std::vector<rte_mbuf*> receive(std::uint16_t most = 64) const;
  [[nodiscard]] std::uint64_t drops(Drop reason) const { return hca->drops().get(reason); }
  [[nodiscard]] std::uint64_t all_drops() const { return test::sum_of(hca->drops()); }

  fake_verbs::Device* device = nullptr;
  std::unique_ptr<VerbsHca> hca;
  FakePortManager* manager = nullptr;  ///< Belongs to `hca`. Null until `hca` asks for it.
  fabric::UdQueue* queue = nullptr;
};

class VerbsFixture : public testing::Test {
 protected:
  void SetUp() override;
  /// Checks that nothing leaked and that there was no violation.
  void TearDown() override;

  static rte_mempool* pool();
  static unsigned mbufs_in_use() { return rte_mempool_in_use_count(pool()); }

  /// Adds device number 0 or 1, LID 4 or 5. The driver does not use it yet.
  fake_verbs::Device& add_device(int number);
  [[nodiscard]] VerbsHcaConfig config(Node& node);
  /// A node on the device, with a UD queue that has a Q_Key.
  std::unique_ptr<Node> make_node(fake_verbs::Device& device,
                                  const std::function<void(VerbsHcaConfig&)>& change = {});
  std::unique_ptr<Node> make_node(int number,
                                  const std::function<void(VerbsHcaConfig&)>& change = {}) {
    return make_node(add_device(number), change);
  }
  /// Lets time pass for the HCA. Returns the port events of that time.
  std::vector<fabric::PortEvent> pass(Node& node, Duration time = std::chrono::seconds(2));

  static rte_mbuf* packet(std::span<const std::byte> octets, fabric::AhIndex ah = fabric::kNoAh,
                          std::uint32_t qpn = 0);
  /// A packet in several mbufs of at most `part` octets each.
  static rte_mbuf* chain(std::span<const std::byte> octets, std::size_t part) {
    return test::mbuf_of(pool(), octets, part);
  }
  static std::vector<Bytes> take(const std::vector<rte_mbuf*>& pkts);
  /// Sends packets with these octets, and expects that all are taken.
  static void send(Node& from, fabric::AhIndex ah, std::uint32_t qpn,
                   const std::vector<Bytes>& packets);
  static fabric::AhIndex ah_to(Node& node, std::uint16_t dlid, std::uint8_t rate = 0);
  static fabric::AhIndex group_ah(Node& node);
  static void expect_problem(const Node& node, std::string_view part) {
    EXPECT_NE(node.hca->problem().find(part), std::string::npos)
        << part << " is not in: " << node.hca->problem();
  }
  /// The port of the node has four lanes of this speed code of verbs from now on.
  void set_speed(Node& node, std::uint8_t speed);
  /// True if a packet arrives.
  bool talk(Node& from, Node& to);

  fake_verbs::Fabric& fabric_ = fake_verbs::Fabric::get();
  TimePoint now_{std::chrono::hours(1)};
  unsigned mbufs_before_ = 0;
};

/// An IPoIB header of IPv4, then octets that depend on `len` and `number`.
[[nodiscard]] Bytes payload(std::size_t len, unsigned number = 0);

}  // namespace ipoib::verbs
