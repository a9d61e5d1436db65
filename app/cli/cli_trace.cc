// SPDX-License-Identifier: BSD-3-Clause
// Commands of the packet trace.
#include <algorithm>
#include <charconv>
#include <memory>

#include "app/cli/cli_commands.h"
#include "app/cli/cli_rows.h"
#include "app/config/filter_text.h"
#include "app/export/render.h"
#include "lib/mgmt/node_view.h"
#include "lib/mgmt/trace.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::app {
namespace {

/// Packets per piece of `show trace`: about a millisecond of work.
constexpr std::size_t kPacketsInPiece = 32;

std::optional<std::uint8_t> protocol_named(std::string_view word) {
  for (const auto& [name, number] : kProtocolNames)
    if (name == word) return number;
  std::uint8_t number = 0;
  const char* const end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return number;
}

/// An address stands for the prefix that holds it alone.
std::optional<wire::IpPrefix> packets_of(std::string_view word) {
  if (const auto addr = wire::parse_ip(word)) return wire::host_prefix(*addr);
  const auto prefix = wire::parse_prefix(word);
  if (!prefix || prefix->addr != wire::network(*prefix)) return std::nullopt;
  return prefix;
}

}  // namespace

bool is_trace_prefix(std::string_view word) {
  return packets_of(word).has_value();
}

bool is_trace_protocol(std::string_view word) {
  return protocol_named(word).has_value();
}

std::string trace_protocols_allowed() {
  std::string names;
  for (const auto& [name, number] : kProtocolNames) names += fmt::format("{}, ", name);
  return names + "or 0-255";
}

Result<Output> trace_start(const mgmt::NodeFaces& node, const Match& match) {
  if (auto s = require(match.get("IFACE"), interface_names(node.view)); !s)
    return tl::make_unexpected(s.error());
  mgmt::TraceRequest request;
  request.packets = number(match, "RECORDS");
  request.in = match.get("IFACE").value_or("");
  if (const auto src = match.get("SRC")) request.src = packets_of(*src);
  if (const auto dst = match.get("DST")) request.dst = packets_of(*dst);
  if (const auto proto = match.get("PROTO")) request.protocol = protocol_named(*proto);
  if (match.has("port")) request.port = static_cast<std::uint16_t>(number(match, "L4PORT"));
  request.dropped_only = match.has("drop");
  if (auto s = node.trace.start(request); !s) return tl::make_unexpected(s.error());
  return "";
}

Result<Output> trace_stop(const mgmt::NodeFaces& node, const Match&) {
  if (auto s = node.trace.stop(); !s) return tl::make_unexpected(s.error());
  return "";
}

Result<Output> clear_trace(const mgmt::NodeFaces& node, const Match&) {
  node.trace.clear();
  return "";
}

/// In pieces. When a clear or another start comes between two of them, the output ends.
Result<Output> show_trace(const mgmt::NodeFaces& node, const Match& match) {
  mgmt::Trace& trace = node.trace;
  const mgmt::TraceInfo info = trace.info();
  const std::size_t total = trace.packets().size();
  std::string head = trace_text(info, total);
  if (match.has("json")) {
    head = dump(to_json(info, total));
    head.back() = ',';  // in place of the brace
    head += "\"packets\":[";
  }
  return Output{[&trace, head = std::move(head), json = match.has("json"), total,
                 next = std::size_t{0}](std::string& out) mutable {
    out += std::exchange(head, {});
    const auto& packets = trace.packets();
    const std::size_t end = std::min(total, packets.size());
    for (std::size_t n = 0; next < end && n < kPacketsInPiece; ++next, ++n) {
      if (!json)
        out += trace_text(packets[next], next + 1);
      else
        out += (next != 0 ? "," : "") + dump(to_json(packets[next]));
    }
    if (next < end) return true;
    if (json) out += "]}\n";
    return false;
  }};
}

}  // namespace ipoib::app
