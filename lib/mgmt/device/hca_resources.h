// SPDX-License-Identifier: BSD-3-Clause
// The interface between a node and the drivers that make its HCAs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/base/result.h"

struct rte_mempool;
struct rte_rcu_qsbr;

namespace ipoib {
struct Doorbell;
}
namespace ipoib::fabric {
class Hca;
class Retirement;
}  // namespace ipoib::fabric

namespace ipoib::mgmt {

struct HcaConfig;

/// Workers that can have queue pairs on one cable.
inline constexpr unsigned kMaxCableWorkers = 64;

/// Resources from which a driver makes an Hca. All of them outlive the Hca.
struct HcaResources {
  std::uint16_t ethdev_port = 0;  ///< Cable of a software HCA: configured and started.
  std::uint16_t cable_rx = 1;     ///< Receive queues of the cable.
  std::uint16_t cable_readers =
      1;                        ///< Workers that read them: the first of those with queue pairs.
  unsigned ring_places = 1024;  ///< The size of the ring from each of them to each other one.
  std::uint16_t cable_tx = 1;   ///< Transmit queues of the cable: workers that can send.
  rte_mempool* pool = nullptr;
  rte_mempool* control_pool = nullptr;  ///< For ACKs and MADs when `pool` is empty; null: none.
  rte_mempool* share_pool = nullptr;    ///< For frames that share buffers of messages; null: none.
  /// Limit of mbufs of `pool` in messages of one worker's connections.
  std::uint32_t message_mbufs = 0;
  std::uint16_t rxd = 512, txd = 512;        ///< Descriptors of a queue.
  int worker_node = -1;                      ///< NUMA node of the worker that serves the Hca.
  rte_rcu_qsbr* qsbr = nullptr;              ///< Workers report quiescent states to it.
  fabric::Retirement* retirement = nullptr;  ///< Says when a name may be used again.
  Doorbell* doorbell = nullptr;              ///< Rung when MADs or events arrive.
};
/// Makes an Hca. Implemented by app/, which knows the drivers.
using HcaFactory = std::function<Result<std::unique_ptr<fabric::Hca>>(
    const HcaConfig& config, const HcaResources& resources)>;

}  // namespace ipoib::mgmt
