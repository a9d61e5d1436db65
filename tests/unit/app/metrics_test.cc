// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

using testing::HasSubstr;

struct MetricsTest : testing::Test {
  MetricsTest() {
    fill(node.rows);
    node.rows.totals.icmp_errors = {7, 3};
    node.rows.totals.membership_refused = {{"host_groups", 4}, {"over_budget", 0}};
    node.rows.totals.forwarder_changes = {{"taken_over", 3}};
  }
  [[nodiscard]] Metrics metrics() const {
    return metrics_of(metrics_sample(node.view, node.stats), "dpdk-ipoib 1");
  }
  /// The text that is sent.
  [[nodiscard]] std::string text() const {
    return prometheus::TextSerializer{}.Serialize(metrics());
  }
  [[nodiscard]] std::size_t series() const {
    std::size_t n = 0;
    for (const auto& family : metrics()) n += family.metric.size();
    return n;
  }

  FakeNode node;
};

TEST_F(MetricsTest, InterfacesAndTheirDrops) {
  const std::string all = text();
  for (const char* line :
       {"ipoib_interface_receive_packets_total{interface=\"ib0\"} 107\n",
        "ipoib_interface_up{interface=\"ib0\"} 1\n", "ipoib_interface_up{interface=\"eth0\"} 0\n",
        "ipoib_interface_mtu_bytes{interface=\"ib0\"} 2044\n",
        "ipoib_interface_speed_bytes_per_second{interface=\"ib0\"} 1250000000\n",
        "ipoib_interface_state{interface=\"ib0\",state=\"up\"} 1\n",
        "ipoib_interface_state{interface=\"ib0\",state=\"joining\"} 0\n",
        "ipoib_interface_drops_total{interface=\"ib0\",direction=\"receive\",reason=\"ip_no_"
        "route\"} "
        "5\n",
        "ipoib_interface_drops_total{interface=\"ib0\",direction=\"transmit\",reason=\"ib_tx_"
        "full\"} "
        "0\n",
        "ipoib_queue_receive_packets_total{interface=\"ib0\",queue=\"0\",worker=\"0\"} 107\n",
        "ipoib_queue_transmit_bytes_total{interface=\"eth0\",queue=\"1\",worker=\"3\"} 2100\n",
        "ipoib_interface_receive_missed_total{interface=\"eth0\"} 1\n",
        "ipoib_interface_receive_nombuf_total{interface=\"eth0\"} 3\n",
        "ipoib_interface_events_total{interface=\"ib0\",event=\"joins_sent\"} 2\n",
        "ipoib_neighbours{interface=\"ib0\",state=\"reachable\"} 1\n",
        "ipoib_neighbours{interface=\"ib0\",state=\"failed\"} 0\n",
        "ipoib_groups{interface=\"ib0\",state=\"member\"} 1\n",
        "ipoib_membership_messages_total{interface=\"ib0\",kind=\"reports_sent\"} 8\n"})
    EXPECT_THAT(all, HasSubstr(line));
  EXPECT_THAT(all,
              testing::Not(HasSubstr("ipoib_interface_receive_missed_total{interface=\"ib0\"")));
  EXPECT_THAT(all, testing::ContainsRegex("event=\"nd_errors_[a-z_]+\"[}] 3\n"));
}

TEST_F(MetricsTest, NodeHcasAndSubnetAdministration) {
  const std::string all = text();
  for (const char* line : {"ipoib_up 1\n",
                           "version=\"dpdk-ipoib 1\"",
                           "ipoib_uptime_seconds 90\n",
                           "ipoib_forward_mode{mode=\"route\"} 1\n",
                           "ipoib_forward_mode{mode=\"io\"} 0\n",
                           "ipoib_forwarding 0\n",
                           "ipoib_routes{kind=\"static\"} 2\n",
                           "ipoib_multicast_routes 1\n",
                           "ipoib_membership_refused_total{reason=\"host_groups\"} 4\n",
                           "ipoib_multicast_forwarder_changes_total{change=\"taken_over\"} 3\n",
                           "ipoib_membership_refused_total{reason=\"over_budget\"} 0\n",
                           "ipoib_icmp_errors_sent_total 7\n",
                           "ipoib_icmp_errors_suppressed_total 3\n",
                           "ipoib_hca_state{hca=\"soft0\",state=\"active\"} 1\n",
                           "ipoib_hca_lid{hca=\"soft0\"} 1\n",
                           "ipoib_hca_drops_total{hca=\"soft0\",direction=\"receive\",reason=\"ib_"
                           "pkey\"} 12\n",
                           "ipoib_sa_client_events_total{hca=\"soft0\",event=\"sent\"} 9\n",
                           "ipoib_mad_events_total{hca=\"soft0\",event=\"sent\"} 12\n",
                           "ipoib_sa_administrator_smps_total{hca=\"soft0\",event=\"sent\"} 5\n",
                           "ipoib_sa_administrator{hca=\"soft0\"} 1\n",
                           "ipoib_sa_administrator_groups{hca=\"soft0\"} 4\n",
                           "ipoib_mbufs_free 4000\n",
                           "ipoib_reserve_mbufs 64\n"})
    EXPECT_THAT(all, HasSubstr(line));
}

TEST_F(MetricsTest, WorkersAndTheirBursts) {
  const std::string all = text();
  for (const char* line :
       {"ipoib_worker_info{worker=\"0\",lcore=\"1\"} 1\n",
        "ipoib_worker_gro_segments_total{worker=\"0\"} ",
        "ipoib_worker_gso_packets_total{worker=\"0\"} ",
        "ipoib_worker_busy_cycles_total{worker=\"0\"} 3000000000\n",
        "ipoib_worker_busy_seconds_total{worker=\"0\"} 1.5\n",
        "ipoib_worker_receive_packets_total{worker=\"0\"} 70\n",
        "ipoib_worker_receive_burst_packets_bucket{worker=\"0\",le=\"0\"} 5\n",
        "ipoib_worker_receive_burst_packets_bucket{worker=\"0\",le=\"1\"} 9\n",
        "ipoib_worker_receive_burst_packets_bucket{worker=\"0\",le=\"3\"} 12\n",
        "ipoib_worker_receive_burst_packets_bucket{worker=\"0\",le=\"63\"} 12\n",
        "ipoib_worker_receive_burst_packets_bucket{worker=\"0\",le=\"+Inf\"} 13\n",
        "ipoib_worker_receive_burst_packets_count{worker=\"0\"} 13\n",
        "ipoib_worker_receive_burst_packets_sum{worker=\"0\"} 70\n"})
    EXPECT_THAT(all, HasSubstr(line));
}

// A fine histogram in nanoseconds becomes a coarse one in seconds. Each count lands in the right
// bucket.
TEST_F(MetricsTest, LatencyInSeconds) {
  auto& ns = node.rows.totals.latency.ns;
  ns[fwd::Histogram::bucket_of(900)] = 1;
  ns[fwd::Histogram::bucket_of(1'500)] = 2;
  ns[fwd::Histogram::bucket_of(40'000'000)] = 4;
  ns[fwd::Histogram::bucket_of(30'000'000'000)] = 8;
  node.rows.totals.latency.sent = 20;
  node.rows.totals.turn_ns[fwd::Histogram::bucket_of(150'000'000)] = 3;
  node.rows.totals.latency.streams[0] = {15, 18};
  node.rows.totals.log_lines_lost = 6;
  const std::string all = text();
  for (const char* line :
       {"ipoib_latency_seconds_bucket{le=\"1e-06\"} 1\n",
        "ipoib_latency_seconds_bucket{le=\"2e-06\"} 3\n",
        "ipoib_latency_seconds_bucket{le=\"0.02\"} 3\n",
        "ipoib_latency_seconds_bucket{le=\"0.05\"} 7\n",
        "ipoib_latency_seconds_bucket{le=\"10\"} 7\n",
        "ipoib_latency_seconds_bucket{le=\"+Inf\"} 15\n", "ipoib_latency_seconds_count 15\n",
        "ipoib_latency_sent_packets_total 20\n", "ipoib_latency_received_packets_total 15\n",
        "ipoib_latency_missing_packets 3\n", "ipoib_management_turn_seconds_bucket{le=\"0.1\"} 0\n",
        "ipoib_management_turn_seconds_bucket{le=\"0.2\"} 3\n", "ipoib_log_lines_lost_total 6\n"})
    EXPECT_THAT(all, HasSubstr(line));
  const auto at = all.find("ipoib_latency_seconds_sum ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NEAR(std::stod(all.substr(at + 26)), 240.16, 2.4);
}

TEST_F(MetricsTest, P23_FiltersAndTheirPackets) {
  const std::string all = text();
  EXPECT_THAT(all,
              HasSubstr("ipoib_filter_packets_total{rule=\"1\",interface=\"eth0\",direction="
                        "\"in\",action=\"drop\",source=\"10.9.0.0/16\",destination=\"\","
                        "protocol=\"tcp\",source_ports=\"\",destination_ports=\"20-22\"} 14\n"));
  EXPECT_THAT(all, HasSubstr("ipoib_filter_packets_total{rule=\"2\",interface=\"all\","));
  node.rows.filters.clear();
  EXPECT_THAT(text(), testing::Not(HasSubstr("ipoib_filter"))) << "a family has series";
}

// Requirements of Prometheus on names: base units and _total, help for each, and no series twice.
TEST_F(MetricsTest, NamesAndSeriesAreInOrder) {
  const std::regex name{"ipoib_[a-z0-9]+(_[a-z0-9]+)*"};
  std::set<std::string> names;
  for (const auto& family : metrics()) {
    EXPECT_TRUE(std::regex_match(family.name, name)) << family.name;
    EXPECT_TRUE(names.insert(family.name).second) << family.name << " twice";
    EXPECT_EQ(family.name.ends_with("_total"), family.type == prometheus::MetricType::Counter)
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    std::set<std::vector<std::string>> series;
    for (const auto& metric : family.metric) {
      std::vector<std::string> labels;
      for (const auto& l : metric.label) labels.push_back(l.name + "=" + l.value);
      EXPECT_TRUE(series.insert(labels).second) << family.name << " has a series twice";
    }
  }
}

TEST_F(MetricsTest, EachFamilyHasSeries) {
  node.rows.filters.clear();
  for (auto& hca : node.rows.totals.hcas) hca.administrator = false;
  for (const auto& family : metrics()) EXPECT_FALSE(family.metric.empty()) << family.name;
}

// Traffic and neighbours add no series.
TEST_F(MetricsTest, HowManySeriesThereAreDependsOnTheConfiguration) {
  const std::size_t before = series();
  node.rows.neighbours.assign(1000, node.rows.neighbours[0]);
  node.rows.totals.interfaces[0].neighbours.fill(1000);
  for (auto& n : node.rows.totals.latency.ns) n = 1;
  node.rows.totals.interfaces[0].traffic.rx_packets = 1'000'000;
  EXPECT_EQ(series(), before);
  EXPECT_LT(before, 600U);
}

TEST_F(MetricsTest, OfANodeThatDoesNotAnswer) {
  const auto metrics = metrics_of_silence();
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].name, "ipoib_up");
  EXPECT_EQ(metrics[0].metric[0].gauge.value, 0);
}

}  // namespace
}  // namespace ipoib::app
