// SPDX-License-Identifier: BSD-3-Clause
// Converts the configuration of an HCA to that of a software HCA.
#pragma once

#include "drivers/soft/soft_hca.h"
#include "lib/mgmt/device/hca_resources.h"
#include "lib/mgmt/node_config.h"
#include "lib/wire/iba.h"

namespace ipoib::app {

[[nodiscard]] inline soft::SoftHcaConfig soft_hca_config(const mgmt::HcaConfig& config,
                                                         const mgmt::HcaResources& resources) {
  soft::SoftHcaConfig soft;
  soft.name = config.name;
  soft.port_id = resources.ethdev_port;
  soft.rx_queues = resources.cable_rx;
  soft.readers = resources.cable_readers;
  static_assert(mgmt::kMaxCableWorkers <= soft::WorkerRings::kMaxWorkers);
  soft.workers = resources.cable_tx;
  soft.ring_places = resources.ring_places;
  soft.attr.guid = config.guid;
  soft.attr.lid = config.lid;
  soft.attr.lmc = static_cast<std::uint8_t>(config.lmc);
  soft.attr.sm_lid = config.sm_lid;
  soft.attr.mtu = wire::mtu_code(config.max_mtu());
  soft.attr.pkeys = config.pkeys;
  soft.pool = resources.pool;
  soft.control_pool = resources.control_pool;
  soft.share_pool = resources.share_pool;
  soft.message_mbufs = resources.message_mbufs;
  soft.icrc = config.icrc;
  soft.first_qpn = config.first_qpn;
  soft.kept_qpns = config.link_qpns;
  soft.qsbr = resources.qsbr;
  soft.retirement = resources.retirement;
  soft.doorbell = resources.doorbell;
  return soft;
}

}  // namespace ipoib::app
