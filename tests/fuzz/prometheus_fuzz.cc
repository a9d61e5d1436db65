// SPDX-License-Identifier: BSD-3-Clause
// The page for Prometheus of a node with any names and numbers. Each line follows the text format,
// each family is described once and before its series, no series is there twice, and labels have
// the values of the node. Any listen address is accepted, or refused with a reason.
//
// Input: one octet that selects the node's rows, then names and numbers in the order in which
// Harness reads them.
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
#include <prometheus/text_serializer.h>

#include <charconv>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/export/metrics.h"
#include "app/export/prometheus.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/fake_node.h"

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
  /// Reads the name of a metric, or of a label, which has no colons.
  [[nodiscard]] std::string_view name(bool colons) {
    std::size_t len = 0;
    while (len < rest_.size() && fits(rest_[len], colons, len > 0)) ++len;
    require(len > 0);
    const auto name = rest_.substr(0, len);
    rest_.remove_prefix(len);
    return name;
  }
  /// Skips the value of a label with its quotation marks.
  void value() {
    require(take("\""));
    std::size_t at = 0;
    for (; at < rest_.size() && rest_[at] != '"'; ++at)
      if (rest_[at] == '\\')
        require(++at < rest_.size() && (rest_[at] == '\\' || rest_[at] == '"' || rest_[at] == 'n'));
    require(at < rest_.size());
    rest_.remove_prefix(at + 1);
  }
  void number_to_end() const {
    if (rest_ == "Nan" || rest_ == "NaN" || rest_ == "+Inf" || rest_ == "-Inf") return;
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    require(error == std::errc{} && end == rest_.data() + rest_.size());
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  static bool fits(char c, bool colons, bool digits) {
    const auto letter = static_cast<unsigned char>((c | 0x20) - 'a');
    return letter < 26 || c == '_' || (digits && c >= '0' && c <= '9') || (colons && c == ':');
  }

  std::string_view rest_;
};

/// A set of texts that keeps its memory when it is cleared.
class Texts {
 public:
  void clear() {
    slots_.assign(slots_.size(), {});
    used_ = 0;
  }
  /// Returns false if the set has the text already.
  [[nodiscard]] bool insert(std::string_view text) {
    if (used_ * 2 >= slots_.size()) grow();
    std::string_view& slot = slots_[find(text)];
    if (!slot.empty()) return false;
    slot = text;
    ++used_;
    return true;
  }
  [[nodiscard]] bool contains(std::string_view text) const { return !slots_[find(text)].empty(); }

 private:
  /// Returns the slot of the text, or a free slot for it.
  [[nodiscard]] std::size_t find(std::string_view text) const {
    std::size_t at = std::hash<std::string_view>{}(text) % slots_.size();
    while (!slots_[at].empty() && slots_[at] != text) at = (at + 1) % slots_.size();
    return at;
  }
  void grow() {
    const auto old = std::exchange(slots_, std::vector<std::string_view>(slots_.size() * 2));
    for (const std::string_view text : old)
      if (!text.empty()) slots_[find(text)] = text;
  }

  std::vector<std::string_view> slots_{64};  ///< At least twice as many as texts.
  std::size_t used_ = 0;
};

/// The page that was read last, whose text must outlive it. Series are compared as text: a label's
/// value has only one spelling, because only characters that need an escape may have one.
class Page {
 public:
  void read(std::string_view text) {
    families_.clear();
    series_.clear();
    require(text.ends_with('\n'));
    while (!text.empty()) {
      const auto end = text.find('\n');
      read_line(Line{text.substr(0, end)});
      text.remove_prefix(end + 1);
    }
  }
  [[nodiscard]] bool has(std::string_view series) const { return series_.contains(series); }

 private:
  void read_line(Line line) {
    if (line.take("# HELP ")) {
      family_ = line.name(true);
      require(families_.insert(family_));
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
    const std::string_view text = line.rest();
    const std::string_view metric = line.name(true);
    require(metric.starts_with(family_));
    const auto part = metric.substr(family_.size());
    require(histogram_ ? part == "_bucket" || part == "_sum" || part == "_count" : part.empty());
    if (line.take("{")) {
      do {
        (void)line.name(false);
        require(line.take("="));
        line.value();
      } while (line.take(","));
      require(line.take("}"));
    }
    require(series_.insert(text.substr(0, text.size() - line.rest().size())));
    require(line.take(" "));
    line.number_to_end();
  }

  std::string_view family_;
  bool histogram_ = false;
  Texts families_, series_;
};

/// Returns a label in the spelling that the page must have.
std::string label(std::string_view name, std::string_view value) {
  std::string out{name};
  out += "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string{c};
  }
  return out + '"';
}

class Harness {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }

  void run(Input in) {
    const unsigned rows = kinds(in.octet());
    const Status checked = check_listen_address(text(in));
    require(checked.has_value() || checked.error().what.find("allowed:") != std::string::npos);

    const std::string version = text(in);
    MetricsSample sample = make_sample(in);
    keep(rows, sample);
    Metrics metrics = metrics_of(sample, version);
    // The text of a family without series is always the same.
    if (rows != 0) std::erase_if(metrics, [](const auto& f) { return f.metric.empty(); });
    const std::string written = prometheus::TextSerializer{}.Serialize(metrics);
    page_.read(written);
    for (const mgmt::LinkInfo& link : sample.links)
      require(
          page_.has(fmt::format("ipoib_link_info{{{},{},pkey=\"{:#06x}\",{},{}}}",
                                label("interface", link.name), label("hca", link.hca), link.pkey,
                                label("mode", link.mode), label("dialect", link.dialect))));
    for (const mgmt::EthernetPortInfo& port : sample.ports)
      require(page_.has(fmt::format("ipoib_port_info{{{},{},{}}}", label("interface", port.name),
                                    label("device", port.device), label("driver", port.driver))));
    for (const mgmt::InterfaceTotals& i : sample.totals.interfaces)
      require(page_.has(fmt::format("ipoib_interface_up{{{}}}", label("interface", i.name))));
  }

 private:
  Harness() { fill(node_.rows); }

  static std::string text(Input& in) {
    const auto octets = in.take(in.octet() % 32);
    return {reinterpret_cast<const char*>(octets.data()), octets.size()};
  }
  static std::uint64_t number(Input& in) {
    const std::uint64_t high = in.number(4);
    return high << 32 | in.number(4);
  }

  /// Returns the kind of rows to keep, or 0 for a page with all kinds, which takes six times as long.
  /// The inputs that a fuzzer keeps are mostly of the latter sort, so later only one in sixteen of
  /// them gets that page. An input that is run alone gets it, and so does each seed in a replay.
  unsigned kinds(unsigned rows) {
    if (rows % 32 != 0) return rows % 32;
    return ++complete_ <= 64 || complete_ % 16 == 0 ? 0 : 1 + rows / 32;
  }

  /// Removes the rows of all kinds except one for most inputs. Those that no input changes are in
  /// pages with all kinds only.
  static void keep(unsigned only, MetricsSample& s) {
    if (only == 0) return;
    if (only % 5 != 0) s.links.clear();
    if (only % 5 != 1) s.ports.clear();
    if (only % 5 != 2) {
      s.hcas.clear();
      s.totals.hcas.clear();
    }
    if (only % 5 != 3) s.totals.interfaces.clear();
    if (only % 5 != 4) s.totals.workers.clear();
    s.totals.queues.clear();
    s.filters.clear();
  }

  /// The names of interfaces differ, as the configuration ensures.
  MetricsSample make_sample(Input& in) const {
    MetricsSample s = metrics_sample(node_.view, node_.stats);
    mgmt::LinkInfo& link = s.links.at(0);
    link.name = "l" + text(in);
    link.hca = text(in);
    link.mode = text(in);
    link.dialect = text(in);
    link.pkey = static_cast<std::uint16_t>(in.number(2));
    mgmt::EthernetPortInfo& port = s.ports.at(0);
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
  Page page_;
  unsigned complete_ = 0;  ///< Inputs that ask for all kinds.
};

}  // namespace
}  // namespace ipoib::app

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::app::Harness::instance().run(ipoib::test::Input{ipoib::test::input(data, size)});
  return 0;
}
