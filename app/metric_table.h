// SPDX-License-Identifier: BSD-3-Clause
// Rows of things as families of metrics.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

namespace ipoib::app {

using Labels = std::vector<prometheus::ClientMetric::Label>;

inline constexpr auto kCounter = prometheus::MetricType::Counter;
inline constexpr auto kGauge = prometheus::MetricType::Gauge;
inline constexpr auto kHistogram = prometheus::MetricType::Histogram;

/// Without series, the last of `metrics`; good until another is added.
inline prometheus::MetricFamily& add_family(std::vector<prometheus::MetricFamily>& metrics,
                                            prometheus::MetricType type, const char* name,
                                            const char* help) {
  return metrics.emplace_back(prometheus::MetricFamily{name, help, type, {}});
}

/// To a family of counters or gauges.
template <class Number>
void add_series(prometheus::MetricFamily& family, Labels labels, Number value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  (family.type == kCounter ? metric.counter.value : metric.gauge.value) =
      static_cast<double>(value);
}

/// One number that every row has.
template <class Row>
struct MetricColumn {
  prometheus::MetricType type;
  const char* name;
  const char* help;
  double (*value)(const Row&);
};

/// A family a column, with a series a row; `labels`: those of a row.
template <class Row, class Columns, class LabelsOf>
void add_table(std::vector<prometheus::MetricFamily>& metrics, const std::vector<Row>& rows,
               const Columns& columns, const LabelsOf& labels) {
  for (const MetricColumn<Row>& column : columns) {
    auto& family = add_family(metrics, column.type, column.name, column.help);
    for (const Row& row : rows) add_series(family, labels(row), column.value(row));
  }
}

}  // namespace ipoib::app
