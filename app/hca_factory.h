// SPDX-License-Identifier: BSD-3-Clause
// Creates HCAs with the configured driver. The rest of the program does not depend on the drivers.
#pragma once

#include "lib/fabric/hca.h"
#include "lib/mgmt/device/hca_resources.h"
#include "lib/mgmt/node_config.h"

namespace ipoib::app {

[[nodiscard]] Result<std::unique_ptr<fabric::Hca>> make_hca(const mgmt::HcaConfig& config,
                                                            const mgmt::HcaResources& resources);

}  // namespace ipoib::app
