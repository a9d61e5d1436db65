// SPDX-License-Identifier: BSD-3-Clause
// Commands for forwarding: mode, test packets, bursts, lcores.
#include <array>
#include <charconv>

#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/config/generator_text.h"
#include "app/export/render.h"
#include "lib/mgmt/node_config.h"
#include "lib/mgmt/node_control.h"
#include "lib/mgmt/node_stats.h"
#include "lib/mgmt/node_view.h"
#include "lib/mgmt/test_traffic.h"

namespace ipoib::app {
namespace {

Result<Output> forward(const mgmt::NodeFaces& node, bool on) {
  const bool already = node.view.forward_info().forwarding == on;
  node.control.set_forwarding(on);
  return fmt::format("forwarding {} {}\n", already ? "was" : "is", on ? "on" : "off");
}

/// Sets `value` to a parameter, if the line has it. The grammar has checked its form.
template <class T>
void take(const Match& match, std::string_view parameter, const TextForm<T>& form, T& value) {
  const auto text = match.get(parameter);
  if (!text) return;
  if (auto parsed = form.parse(*text)) value = std::move(*parsed);
}

/// The keys of the configuration in each of testpmd's parts.
struct Part {
  std::string_view name, section;
  std::vector<std::string_view> keys;  ///< Empty: all.
};
const std::array<Part, 4> kParts = {
    Part{"fwd", "worker", {"forward-mode", "burst"}},
    Part{"fwd", "generator", {}},
    Part{"rxtx", "worker", {"burst", "rxd", "txd", "total-num-mbufs", "mbuf-size"}},
    Part{"cores", "worker", {"count", "idle-policy", "assign"}},
};

}  // namespace

Result<Output> start(const mgmt::NodeFaces& node, const Match& match) {
  if (match.has("tx_first"))
    node.traffic.send_first(match.get("BURSTS") ? number(match, "BURSTS") : 1);
  return forward(node, true);
}

Result<Output> stop(const mgmt::NodeFaces& node, const Match&) {
  return forward(node, false);
}

Result<Output> set_fwd(const mgmt::NodeFaces& node, const Match& match) {
  const auto mode = fwd::mode_named(match.get("MODE").value_or(""));
  node.traffic.set_forward_mode(mode.value_or(mgmt::ForwardMode::kRoute));
  return "";
}

Result<Output> set_burst(const mgmt::NodeFaces& node, const Match& match) {
  node.traffic.set_burst(number(match, "PACKETS"));
  return "";
}

Result<Output> set_nbcore(const mgmt::NodeFaces& node, const Match& match) {
  const unsigned count = node.view.config().worker.count;
  if (number(match, "CORES") == count) return "";
  return fail(Errc::kUnavailable,
              "the number of worker lcores is {} until the program ends, because interfaces are "
              "assigned to workers at the start; restart with --nb-cores={}",
              count, number(match, "CORES"));
}

Result<Output> set_generator(const mgmt::NodeFaces& node, const Match& match) {
  mgmt::GeneratorConfig g = node.view.config().generator;
  take(match, "SIZES", packet_sizes_form(), g.sizes);
  take(match, "ADDRPAIR", tx_ip_form(), g.ip);
  take(match, "UDPPORTS", tx_udp_form(), g.udp);
  if (match.has("flows")) g.flows = number(match, "COUNT");
  if (match.has("neighbours")) g.neighbours = number(match, "COUNT");
  for (const char* unit : {"pps", "gbps", "percent"})
    if (match.has(unit)) {
      const auto rate = packet_rate_form().parse(match.get("RATE").value_or("") + " " + unit);
      if (!rate)
        return fail(Errc::kInvalidArgument, "invalid rate {} {}; allowed: {}",
                    match.get("RATE").value_or(""), unit, packet_rate_form().allowed);
      g.rate = *rate;
    }
  return done(node.traffic.set_generator(g));
}

Result<Output> show_fwd(const mgmt::NodeFaces& node, const Match& match) {
  Json json = to_json(node.view.forward_info());
  json["generator"] = to_json(node.view.config()).at("generator");
  return object(match, json);
}

Result<Output> show_config_part(const mgmt::NodeFaces& node, const Match& match) {
  const Json config = to_json(node.view.config());
  Json shown = Json::object();
  for (const Part& part : kParts) {
    if (!match.has(part.name)) continue;
    const Json& section = config.at(std::string{part.section});
    if (part.keys.empty()) shown[std::string{part.section}] = section;
    for (const auto key : part.keys) shown[std::string{key}] = section.at(std::string{key});
  }
  if (match.has("cores")) shown["lcores"] = lcores_json(node.stats.workers());
  return object(match, shown);
}

}  // namespace ipoib::app
