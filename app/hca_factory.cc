// SPDX-License-Identifier: BSD-3-Clause
#include "app/hca_factory.h"

#include <rte_mbuf.h>

#include <utility>

#include "app/soft_hca_config.h"
#include "drivers/soft/soft_hca.h"
#include "drivers/umad/gid_mad_port.h"
#include "drivers/umad/umad_port.h"
#include "drivers/verbs/verbs_hca.h"
#include "lib/base/log.h"
#include "lib/wire/iba.h"

namespace ipoib::app {
namespace {

std::unique_ptr<fabric::PortManager> make_manager(const mgmt::MadConfig& mad, Doorbell* doorbell) {
  return umad::UmadPort::create(
      {.device = mad.device, .port = mad.port, .doorbell = doorbell, .now = {}});
}

Result<std::unique_ptr<fabric::Hca>> make_soft(const mgmt::HcaConfig& config,
                                               const mgmt::HcaResources& resources) {
  std::unique_ptr<fabric::PortManager> manager;
  if (!config.mad.device.empty()) manager = make_manager(config.mad, resources.doorbell);
  auto hca = soft::SoftHca::create(soft_hca_config(config, resources), std::move(manager));
  if (!hca) return tl::make_unexpected(hca.error());
  return std::unique_ptr<fabric::Hca>{std::move(*hca)};
}

/// Returns the code of the largest MTU of a device: as configured, or any whose packets fit into the
/// mbufs.
std::uint8_t max_mtu_code(const mgmt::HcaConfig& config, rte_mempool& pool) {
  std::uint8_t code = wire::mtu_code(config.max_mtu());
  if (config.mtu) return code;
  const unsigned room = rte_pktmbuf_data_room_size(&pool) - RTE_PKTMBUF_HEADROOM;
  const std::uint8_t largest = code;
  while (code > 1 && wire::mtu_octets(code) > room) --code;
  if (code < largest)
    log(LogArea::kFabric, LogLevel::kNotice,
        "{}: the MTU of the port is limited to {} octets by --mbuf-size", config.name,
        wire::mtu_octets(code));
  return code;
}

/// MADs go through umad on the same port.
Result<std::unique_ptr<fabric::Hca>> make_verbs(const mgmt::HcaConfig& config,
                                                const mgmt::HcaResources& resources) {
  verbs::VerbsHcaConfig verbs;
  verbs.name = config.name;
  verbs.device = config.device;
  verbs.port = static_cast<std::uint8_t>(config.port);
  verbs.mtu = max_mtu_code(config, *resources.pool);
  verbs.administrator = config.subnet_administrator;
  verbs.pool = resources.pool;
  verbs.rxd = resources.rxd;
  verbs.txd = resources.txd;
  verbs.worker_node = resources.worker_node;
  verbs.qsbr = resources.qsbr;
  verbs.retirement = resources.retirement;
  verbs.doorbell = resources.doorbell;
  const mgmt::MadConfig mad{config.device, config.port};
  verbs.manager = [mad, doorbell = resources.doorbell] { return make_manager(mad, doorbell); };
  verbs.mad_port = [mad, doorbell = resources.doorbell](std::uint8_t gid_index) {
    return std::make_unique<umad::GidMadPort>(umad::GidMadConfig{
        .device = mad.device, .port = mad.port, .gid_index = gid_index, .doorbell = doorbell});
  };
  auto hca = verbs::VerbsHca::create(std::move(verbs));
  if (!hca) return tl::make_unexpected(hca.error());
  return std::unique_ptr<fabric::Hca>{std::move(*hca)};
}

}  // namespace

Result<std::unique_ptr<fabric::Hca>> make_hca(const mgmt::HcaConfig& config,
                                              const mgmt::HcaResources& resources) {
  switch (config.driver) {
    case mgmt::HcaDriver::kSoft: return make_soft(config, resources);
    case mgmt::HcaDriver::kVerbs: return make_verbs(config, resources);
  }
  return fail(Errc::kInvalidArgument, "unknown HCA driver");
}

}  // namespace ipoib::app
