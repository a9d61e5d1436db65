// SPDX-License-Identifier: BSD-3-Clause
// Which driver makes which Hca. The only place that knows the drivers.
#pragma once

#include "lib/mgmt/node.h"

namespace ipoib::app {

[[nodiscard]] Result<std::unique_ptr<fabric::Hca>> make_hca(const mgmt::HcaConfig& config,
                                                            const mgmt::HcaResources& resources);

}  // namespace ipoib::app
