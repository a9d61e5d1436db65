// SPDX-License-Identifier: BSD-3-Clause
// A node whose two workers share an Ethernet port. The test steps it, and its workers.
#pragma once

#include <rte_cycles.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/mgmt/node/node_assembly.h"
#include "lib/mgmt/node/node_builder.h"
#include "tests/support/soft_frames.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {

/// A device with two queues in each direction.
struct TwoQueues {
  TwoQueues() {
    static int count = 0;
    const std::string unique = "two" + std::to_string(count++);
    for (std::size_t i = 0; i < 2; ++i) {
      in[i] = rte_ring_create((unique + "_in" + std::to_string(i)).c_str(), 64, SOCKET_ID_ANY, 0);
      out[i] = rte_ring_create((unique + "_out" + std::to_string(i)).c_str(), 64, SOCKET_ID_ANY, 0);
    }
    name = test::name_of_port(test::add_ring_port(unique, in, out));
  }
  std::array<rte_ring*, 2> in{}, out{};
  std::string name;
};

struct SharedPortFixture : NodeFixture {
  /// Workers 1 and 0 share eth0, in this order; worker 0 owns the cable unless `c` says otherwise.
  void begin(NodeConfig c, const HcaFactory& make_hca = make_soft, TscClock tsc = real_tsc) {
    c.ports[0].device = port.name;
    c.worker.count = 2;
    c.worker.assign.insert({{"eth0", {1, 0}}, {"soft0", {0}}});
    auto built = build_node(c, {0, {1, 2}}, make_hca, tsc, 1);
    ASSERT_TRUE(built) << built.error().what;
    node = std::move(*built);
    node->runner.start();
    for (int i = 0; i < 10; ++i) pass();
  }
  static std::uint64_t real_tsc() noexcept { return rte_rdtsc(); }
  void pass() {
    node->runner.run_once();
    for (WorkerHandle& w : node->parts->workers.all()) w.worker->iterate(node->parts->clock.tsc());
  }
  void TearDown() override {
    if (node == nullptr) return;
    node->runner.begin_to_leave();
    for (int i = 0; i < 10; ++i) pass();
    EXPECT_TRUE(node->runner.has_left());
  }
  EthernetPortInfo row() const { return node->faces.view.ports()[0]; }
  static constexpr std::array<std::byte, 8> kUnknownType{std::byte{0x12}, std::byte{0x34}};
  /// A packet on the cable, from the port with that LID. `payload`: from the IPoIB header on.
  static std::vector<std::byte> cable_frame(const LinkInfo& to, std::uint32_t qpn,
                                            std::uint16_t from,
                                            std::span<const std::byte> payload = kUnknownType) {
    return soft::ud_frame(
        {.dlid = to.lid, .slid = from, .dest_qp = qpn, .src_qp = 0x4a7, .qkey = to.parameters.qkey},
        payload);
  }

  TwoQueues port;
  std::unique_ptr<NodeAssembly> node;
};

}  // namespace ipoib::mgmt
