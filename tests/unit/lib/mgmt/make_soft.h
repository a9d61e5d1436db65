// Software HCAs for nodes in tests.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "drivers/soft/soft_hca.h"
#include "lib/mgmt/node.h"

namespace ipoib::mgmt {

/// `tsc`: the clock of path rates; null: the time-stamp counter.
inline Result<std::unique_ptr<fabric::Hca>> make_soft_by(const HcaConfig& config,
                                                         const HcaResources& r,
                                                         std::uint64_t (*tsc)() noexcept) {
  soft::SoftHcaConfig soft;
  soft.name = config.name;
  soft.port_id = r.ethdev_port;
  soft.attr.guid = config.guid;
  soft.attr.lid = config.lid;
  soft.attr.sm_lid = config.sm_lid;
  soft.attr.pkeys = config.pkeys;
  soft.pool = r.pool;
  soft.control_pool = r.control_pool;
  soft.qsbr = r.qsbr;
  soft.retirement = r.retirement;
  soft.doorbell = r.doorbell;
  soft.first_qpn = config.first_qpn;
  soft.tsc = tsc;
  auto hca = soft::SoftHca::create(soft);
  if (!hca) return tl::make_unexpected(hca.error());
  return std::unique_ptr<fabric::Hca>{std::move(*hca)};
}
inline Result<std::unique_ptr<fabric::Hca>> make_soft(const HcaConfig& config,
                                                      const HcaResources& r) {
  return make_soft_by(config, r, nullptr);
}

}  // namespace ipoib::mgmt
