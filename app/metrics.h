// SPDX-License-Identifier: BSD-3-Clause
// What Prometheus is told of a node: a sample taken on the management lcore, which does no more
// than copy numbers, and the metrics made of it by whoever asked. Counters are those since the
// node started: clearing statistics is a matter of the command line alone. How many series there
// are depends on the configuration, not on traffic.
#pragma once

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

#include "lib/mgmt/node.h"

namespace ipoib::app {

struct MetricsSample {
  mgmt::NodeTotals totals;
  mgmt::ForwardInfo forward;
  std::vector<mgmt::LinkInfo> links;
  std::vector<mgmt::PortInfo> ports;
  std::vector<mgmt::HcaInfo> hcas;
};

/// Management lcore only.
[[nodiscard]] MetricsSample metrics_sample(const mgmt::Node& node);

using Metrics = std::vector<prometheus::MetricFamily>;

/// `version`: of the program. Any thread.
[[nodiscard]] Metrics metrics_of(const MetricsSample& sample, std::string_view version);
/// Of a node whose management does not answer.
[[nodiscard]] Metrics metrics_of_silence();

// metrics_work.cc
/// Workers, and the time stamps they read.
void add_work(Metrics& metrics, const mgmt::NodeTotals& totals);

}  // namespace ipoib::app
