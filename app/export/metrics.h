// SPDX-License-Identifier: BSD-3-Clause
// Metrics of a node for Prometheus. The management lcore takes a sample, which only copies numbers;
// the requesting thread makes the metrics of it. Counters run since the node started: commands that
// clear statistics do not affect them. The number of series depends on the configuration, not on
// traffic.
#pragma once

#include <prometheus/metric_family.h>

#include <string_view>
#include <vector>

#include "lib/mgmt/filter_config.h"
#include "lib/mgmt/node_info.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_totals.h"
#include "lib/mgmt/node_view.h"

namespace ipoib::app {

struct MetricsSample {
  mgmt::NodeTotals totals;
  mgmt::ForwardInfo forward;
  std::vector<mgmt::LinkInfo> links;
  std::vector<mgmt::EthernetPortInfo> ports;
  std::vector<mgmt::HcaInfo> hcas;
  std::vector<mgmt::FilterInfo> filters;
};

/// Management lcore only.
[[nodiscard]] MetricsSample metrics_sample(const mgmt::NodeView& view,
                                           const mgmt::NodeStats& stats);

using Metrics = std::vector<prometheus::MetricFamily>;

/// `version` is the version of the program. Any thread.
[[nodiscard]] Metrics metrics_of(const MetricsSample& sample, std::string_view version);
/// Returns the metrics of a node whose management lcore does not answer.
[[nodiscard]] Metrics metrics_of_silence();

// metrics_work.cc
/// Adds the metrics of workers, and of the time stamps that they read.
void add_work(Metrics& metrics, const mgmt::NodeTotals& totals);

}  // namespace ipoib::app
