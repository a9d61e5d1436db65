// SPDX-License-Identifier: BSD-3-Clause
// Converts rows of structs to families of metrics.
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

/// Appends a family without series to `metrics`. The reference is valid until the next call.
inline prometheus::MetricFamily& add_family(std::vector<prometheus::MetricFamily>& metrics,
                                            prometheus::MetricType type, const char* name,
                                            const char* help) {
  return metrics.emplace_back(prometheus::MetricFamily{name, help, type, {}});
}

/// Adds a series to a family of counters or gauges.
template <class Number>
void add_series(prometheus::MetricFamily& family, Labels labels, Number value) {
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  (family.type == kCounter ? metric.counter.value : metric.gauge.value) =
      static_cast<double>(value);
}

/// One numeric metric of each row.
template <class Row>
struct MetricColumn {
  prometheus::MetricType type;
  const char* name;
  const char* help;
  double (*value)(const Row&);
};

/// Adds one family per column, with one series per row. `labels` returns the labels of a row.
template <class Row, class Columns, class LabelsOf>
void add_table(std::vector<prometheus::MetricFamily>& metrics, const std::vector<Row>& rows,
               const Columns& columns, const LabelsOf& labels) {
  for (const MetricColumn<Row>& column : columns) {
    auto& family = add_family(metrics, column.type, column.name, column.help);
    for (const Row& row : rows) add_series(family, labels(row), column.value(row));
  }
}

}  // namespace ipoib::app
