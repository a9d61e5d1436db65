// SPDX-License-Identifier: BSD-3-Clause
// The page for Prometheus of a node with any names and numbers: each line is what the text format
// allows, each family is told of once and before its series, no series is there twice, and what
// labels say is what was put in. Any address to listen at is one or is refused with a reason.
//
// Input: names and numbers in the order in which they are wanted; see Harness.
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
#include <prometheus/text_serializer.h>

#include <cctype>
#include <charconv>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/metrics.h"
#include "app/prometheus.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/unit/app/fake_node.h"

namespace ipoib::app {
namespace {

using test::Input;
using test::require;

/// Reads one line from the front.
class Line {
 public:
  explicit Line(std::string_view text) : rest_{text} {}

  [[nodiscard]] bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  /// Of a metric, or of a label, which has no colons.
  [[nodiscard]] std::string name(bool colons) {
    std::string out;
    const auto fits = [&](char c) {
      const auto u = static_cast<unsigned char>(c);
      return std::isalpha(u) != 0 || c == '_' || (colons && c == ':') ||
             (!out.empty() && std::isdigit(u) != 0);
    };
    while (!rest_.empty() && fits(rest_.front())) out += next();
    require(!out.empty());
    return out;
  }
  /// Of a label, with its quotation marks; as it was before it was escaped.
  [[nodiscard]] std::string value() {
    require(take("\""));
    std::string out;
    while (!take("\"")) {
      require(!rest_.empty());
      const bool newline = take("\\n");
      const bool escaped = !newline && (rest_.starts_with("\\\\") || rest_.starts_with("\\\""));
      if (escaped) (void)next();
      require(newline || escaped || rest_.front() != '\\');
      out += newline ? '\n' : next();
    }
    return out;
  }
  void number_to_end() const {
    if (rest_ == "Nan" || rest_ == "NaN" || rest_ == "+Inf" || rest_ == "-Inf") return;
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    require(error == std::errc{} && end == rest_.data() + rest_.size());
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  char next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  std::string_view rest_;
};

using LabelList = std::vector<std::pair<std::string, std::string>>;

class Page {
 public:
  explicit Page(std::string_view text) {
    require(text.ends_with('\n'));
    while (!text.empty()) {
      const auto end = text.find('\n');
      read(Line{text.substr(0, end)});
      text.remove_prefix(end + 1);
    }
  }
  [[nodiscard]] bool has(const std::string& metric, const LabelList& labels) const {
    return series_.contains({metric, labels});
  }

 private:
  void read(Line line) {
    if (line.take("# HELP ")) {
      family_ = line.name(true);
      require(families_.insert(family_).second);
      require(line.take(" ") && !line.rest().empty());
    } else if (line.take("# TYPE ")) {
      require(line.name(true) == family_ && line.take(" "));
      require(line.rest() == "counter" || line.rest() == "gauge" || line.rest() == "histogram");
      histogram_ = line.rest() == "histogram";
    } else {
      read_series(line);
    }
  }
  void read_series(Line& line) {
    const std::string metric = line.name(true);
    const bool part = histogram_ && (metric == family_ + "_bucket" || metric == family_ + "_sum" ||
                                     metric == family_ + "_count");
    require(part || (!histogram_ && metric == family_));
    LabelList labels;
    if (line.take("{")) {
      do {
        std::string name = line.name(false);
        require(line.take("="));
        labels.emplace_back(std::move(name), line.value());
      } while (line.take(","));
      require(line.take("}"));
    }
    require(line.take(" "));
    line.number_to_end();
    require(series_.emplace(metric, labels).second);
  }

  std::string family_;
  bool histogram_ = false;
  std::set<std::string> families_;
  std::set<std::pair<std::string, LabelList>> series_;
};

class Harness {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }

  void run(Input in) {
    const Status checked = check_listen_address(text(in));
    require(checked.has_value() || checked.error().what.find("allowed:") != std::string::npos);

    const std::string version = text(in);
    const MetricsSample sample = make_sample(in);
    const Page page{prometheus::TextSerializer{}.Serialize(metrics_of(sample, version))};
    const mgmt::LinkInfo& link = sample.links.at(0);
    require(page.has("ipoib_link_info", {{"interface", link.name},
                                         {"hca", link.hca},
                                         {"pkey", fmt::format("{:#06x}", link.pkey)},
                                         {"mode", link.mode},
                                         {"dialect", link.dialect}}));
    const mgmt::PortInfo& port = sample.ports.at(0);
    require(page.has("ipoib_port_info",
                     {{"interface", port.name}, {"device", port.device}, {"driver", port.driver}}));
    require(page.has("ipoib_interface_up", {{"interface", link.name}}));
  }

 private:
  Harness() { fill(node_); }

  static std::string text(Input& in) {
    const auto octets = in.take(in.octet() % 32);
    return {reinterpret_cast<const char*>(octets.data()), octets.size()};
  }
  static std::uint64_t number(Input& in) {
    const std::uint64_t high = in.number(4);
    return high << 32 | in.number(4);
  }

  /// Names of interfaces differ, as the configuration sees to.
  MetricsSample make_sample(Input& in) const {
    MetricsSample s = metrics_sample(node_);
    mgmt::LinkInfo& link = s.links.at(0);
    link.name = "l" + text(in);
    link.hca = text(in);
    link.mode = text(in);
    link.dialect = text(in);
    link.pkey = static_cast<std::uint16_t>(in.number(2));
    mgmt::PortInfo& port = s.ports.at(0);
    port.name = "p" + text(in);
    port.device = text(in);
    port.driver = text(in);
    s.hcas.at(0).name = s.totals.hcas.at(0).name = text(in);
    s.hcas.at(0).wire = text(in);
    s.totals.interfaces.at(0).name = link.name;
    s.totals.interfaces.at(1).name = port.name;
    fill_numbers(in, s.totals);
    return s;
  }
  static void fill_numbers(Input& in, mgmt::NodeTotals& totals) {
    totals.tsc_hz = number(in);
    totals.uptime = std::chrono::milliseconds{in.number(4)};
    for (auto& i : totals.interfaces) {
      i.mtu = static_cast<std::uint16_t>(in.number(2));
      i.speed_bps = number(in);
      i.traffic.rx_packets = number(in);
      i.traffic.tx_bytes = number(in);
      for (auto& drops : i.traffic.drops) drops = in.octet();
    }
    for (auto& w : totals.workers) {
      w.busy_cycles = number(in);
      for (auto& bursts : w.bursts) bursts = number(in);
    }
    for (unsigned n = in.octet() % 8; n > 0; --n) {
      const std::size_t bucket = in.number(2) % totals.latency.ns.size();
      totals.latency.ns[bucket] = number(in);
    }
  }

  FakeNode node_;
};

}  // namespace
}  // namespace ipoib::app

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::app::Harness::instance().run(ipoib::test::Input{ipoib::test::input(data, size)});
  return 0;
}
