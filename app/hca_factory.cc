#include "app/hca_factory.h"

#include <utility>

#include "drivers/soft/soft_hca.h"
#include "drivers/umad/umad_port.h"
#include "lib/wire/iba.h"

namespace ipoib::app {

Result<std::unique_ptr<fabric::Hca>> make_hca(const mgmt::HcaConfig& config,
                                              const mgmt::HcaResources& resources) {
  soft::SoftHcaConfig soft;
  soft.name = config.name;
  soft.port_id = resources.ethdev_port;
  soft.attr.guid = config.guid;
  soft.attr.lid = config.lid;
  soft.attr.sm_lid = config.sm_lid;
  soft.attr.mtu = wire::mtu_code(config.mtu);
  soft.attr.pkeys = config.pkeys;
  soft.pool = resources.pool;
  soft.icrc = config.icrc;
  soft.first_qpn = config.first_qpn;
  soft.qsbr = resources.qsbr;
  soft.doorbell = resources.doorbell;
  std::unique_ptr<fabric::PortManager> manager;
  if (!config.mad.device.empty())
    manager = umad::UmadPort::create({.device = config.mad.device,
                                      .port = config.mad.port,
                                      .doorbell = resources.doorbell,
                                      .now = {}});
  auto hca = soft::SoftHca::create(soft, std::move(manager));
  if (!hca) return tl::make_unexpected(hca.error());
  return std::unique_ptr<fabric::Hca>{std::move(*hca)};
}

}  // namespace ipoib::app
