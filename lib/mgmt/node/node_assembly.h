// SPDX-License-Identifier: BSD-3-Clause
// A node put together: its parts, its faces, and the loop that runs it.
#pragma once

#include <memory>
#include <utility>

#include "lib/mgmt/capture/capture.h"
#include "lib/mgmt/device/port_devices.h"
#include "lib/mgmt/linux/linux_plane.h"
#include "lib/mgmt/node/node_control_impl.h"
#include "lib/mgmt/node/node_parts.h"
#include "lib/mgmt/node/node_runner.h"
#include "lib/mgmt/node/node_stats_impl.h"
#include "lib/mgmt/node/node_view_impl.h"
#include "lib/mgmt/node/packet_trace.h"
#include "lib/mgmt/node/test_traffic_impl.h"
#include "lib/mgmt/node_faces.h"

namespace ipoib::mgmt {

struct NodeAssembly {
  explicit NodeAssembly(std::unique_ptr<NodeParts> made) : parts{std::move(made)} {}

  std::unique_ptr<NodeParts> parts;
  NodeStatsImpl stats{*parts};
  TestTrafficImpl traffic{*parts};
  Capture capture;
  LinuxPlane linux_plane{parts->config.linux_plane,
                         {parts->interfaces, *parts->routes, parts->multicast->router().table(),
                          *parts->injector, parts->workers, parts->loop->events(), parts->clock}};
  NodeViewImpl view{*parts, stats, traffic, capture, linux_plane};
  PacketTrace trace{parts->workers, parts->interfaces, *parts->routes, *parts->retirement,
                    parts->clock.tsc};
  PortDevices devices{*parts};
  NodeControlImpl control{*parts, devices, capture, linux_plane};
  NodeRunner runner{*parts, control, devices, traffic, capture, trace, linux_plane};
  NodeFaces faces{*parts->loop, view, stats, control, traffic, trace};
};

}  // namespace ipoib::mgmt
