// SPDX-License-Identifier: BSD-3-Clause
// Records of the packet trace as text and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "app/config/filter_text.h"
#include "app/export/render.h"

namespace ipoib::app {
namespace {

namespace trace = msg::trace;
using StepNames = mgmt::TracedPacket::StepNames;
using table::NeighbourMode;

std::string protocol_text(std::uint8_t protocol) {
  for (const auto& [name, number] : kProtocolNames)
    if (number == protocol) return std::string{name};
  return fmt::format("protocol {}", protocol);
}

/// "10.0.0.2 > 10.1.0.2, udp 5000 > 53, 84 octets, TTL 64".
std::string packet_text(const trace::Packet& p) {
  const auto type = wire::EtherType{p.ether_type};
  const bool arp = type == wire::EtherType::kArp || type == wire::EtherType::kRarp;
  std::string text;
  if (p.has_addresses)
    text = fmt::format("{} > {}, ", wire::to_string(p.src), wire::to_string(p.dst));
  if (arp)
    text += fmt::format("{} {}", type == wire::EtherType::kArp ? "arp" : "rarp", p.protocol);
  else if (!p.is_ip())
    text += fmt::format("EtherType {:#06x}", p.ether_type);
  else if (!p.upper)
    text += protocol_text(p.protocol);
  else if (p.is(wire::IpProto::kIcmp) || p.is(wire::IpProto::kIcmpv6))
    text += fmt::format("{} {}/{}", protocol_text(p.protocol), (*p.upper)[0], (*p.upper)[1]);
  else
    text += fmt::format("{} {} > {}", protocol_text(p.protocol), (*p.upper)[0], (*p.upper)[1]);
  text += fmt::format(", {} octets", p.len);
  if (p.is_ip())
    text += fmt::format(", {} {}", type == wire::EtherType::kIpv4 ? "TTL" : "hop limit", p.hops);
  return text;
}

std::string times(std::uint16_t packets) {
  return packets == 1 ? "" : fmt::format(", {} packets", packets);
}

/// The line of a step; `verdict`: the ending, empty while the packet goes on.
struct Line {
  std::string text;
  std::string verdict{};
};

struct StepLine {
  const StepNames& names;

  Line operator()(const trace::Entered& s) const {
    if (s.stage != trace::Stage::kIpoibInput) return {std::string{to_string(s.stage)}};
    return {fmt::format("{}: by {}", to_string(s.stage), to_string(s.mode))};
  }
  Line operator()(const trace::Routed& s) const {
    const std::string prefix = names.prefix ? wire::to_string(*names.prefix) + ", " : "";
    return {
        fmt::format("{}: {}{}", s.to.is_v4() ? "ip4_route" : "ip6_route", prefix, target(s.kind))};
  }
  Line operator()(const trace::Resolved& s) const {
    const std::string head =
        fmt::format("neighbour {} on {}: ", wire::to_string(s.addr), names.iface);
    switch (s.state) {
      case table::NeighbourState::kFree: return {head + "unknown"};
      case table::NeighbourState::kIncomplete: return {head + "incomplete"};
      case table::NeighbourState::kFailed: return {head + "failed"};
      case table::NeighbourState::kValid: break;
    }
    if (s.mode == NeighbourMode::kEthernet)
      return {fmt::format("{}valid, MAC {}", head, wire::to_string(s.mac))};
    const std::string lid = names.lid != 0 ? fmt::format(", LID {}", names.lid) : "";
    return {fmt::format("{}valid, {}{}, {} {:#08x}", head, to_string(s.mode), lid,
                        s.mode == NeighbourMode::kUd ? "QPN" : "own QPN", s.qpn)};
  }
  Line operator()(const trace::Delivered& s) const {
    if (!s.local && names.out.empty()) return {"multicast_input: to no interface"};
    const std::string out = names.out.empty() ? "" : fmt::format("{}", fmt::join(names.out, ", "));
    const char* const local = s.local ? "this node" : "";
    return {
        fmt::format("multicast_input: to {}{}{}", out, s.local && !out.empty() ? ", " : "", local)};
  }
  Line operator()(const trace::Merged& s) const {
    return {fmt::format("tcp_gro: {} segments in this packet", s.segments)};
  }
  Line operator()(const trace::Cut& s) const {
    return {fmt::format("{} for an MTU of {}",
                        s.tcp ? fmt::format("tcp_gso: {} segments", s.pieces)
                              : fmt::format("ip_output: {} fragments", s.pieces),
                        s.mtu)};
  }
  Line operator()(const trace::Joined&) const {
    return {"tcp_gro: part of another packet", "merged"};
  }
  Line operator()(const trace::Sent& s) const {
    const std::string lost =
        s.lost != 0 ? fmt::format(", the device lost {} of this burst", s.lost) : "";
    return {
        fmt::format("sent on {} by {}{}{}", names.iface, to_string(s.mode), times(s.packets), lost),
        "sent"};
  }
  Line operator()(const trace::HandedOff& s) const {
    const std::string egress = names.iface.empty() ? "" : fmt::format(" for {}", names.iface);
    return {fmt::format("handed off to worker {}{}{}", s.worker, egress, times(s.packets)),
            "handed off"};
  }
  Line operator()(const trace::Punted& s) const {
    using Kind = msg::Up::Kind;
    switch (s.kind) {
      case Kind::kLocal: return {"local: delivered to this node", "local"};
      case Kind::kArp: return {"punted: ARP", "punted"};
      case Kind::kMembership: return {"punted: group membership", "punted"};
      case Kind::kNd: return {"punted: neighbour discovery", "punted"};
      case Kind::kIcmpError:
        return {fmt::format("punted: ICMP error {}/{} to the sender", s.icmp_type, s.icmp_code)};
      case Kind::kBroadcast: return {"punted: broadcast for Linux", "punted"};
      case Kind::kLinkFrame: return {"punted: LLDP for Linux", "punted"};
      case Kind::kRedirectWanted: return {"punted: redirect to the sender"};
      case Kind::kForLinux: return {"punted: for the multicast router of Linux"};
      case Kind::kNeighbourWanted:
      case Kind::kMulticastUnknown:
      case Kind::kMulticastHeard: break;
    }
    return {"punted", "punted"};
  }
  Line operator()(const trace::Held& s) const {
    return {fmt::format("held until {} on {} is resolved", wire::to_string(s.addr), names.iface),
            "held"};
  }
  Line operator()(const trace::Dropped& s) const {
    return {fmt::format("dropped: {}{}{}", drop_name(s.reason),
                        names.iface.empty() ? "" : " on " + names.iface, times(s.packets)),
            fmt::format("dropped ({})", drop_name(s.reason))};
  }
  Line operator()(const trace::Consumed&) const {
    return {"counted and freed by the forward mode", "consumed"};
  }

 private:
  [[nodiscard]] std::string target(table::NextHopKind kind) const {
    using Kind = table::NextHopKind;
    switch (kind) {
      case Kind::kNone: return "no route";
      case Kind::kLocal: return "an address of this node";
      case Kind::kLocalDown: return "an address of this node that is not in use";
      case Kind::kBroadcast: return "a broadcast address";
      case Kind::kConnected: return "connected to " + names.iface;
      case Kind::kGateway:
      case Kind::kGroup: return "through a gateway on " + names.iface;
      case Kind::kBlackhole: return "blackhole";
      case Kind::kUnreachable: return "unreachable";
      case Kind::kProhibited: return "prohibited";
    }
    return "";
  }
};

std::vector<Line> lines_of(const mgmt::TracedPacket& p) {
  std::vector<Line> lines;
  const auto path = p.record.path();
  for (std::size_t i = 0; i < path.size(); ++i)
    lines.push_back(std::visit(StepLine{p.names[i]}, path[i]));
  if (p.record.truncated) lines.push_back({"further steps are not recorded"});
  return lines;
}

double seconds_of(Duration d) {
  return std::chrono::duration<double>(d).count();
}

constexpr std::string_view state_text(mgmt::TraceInfo::State state) {
  switch (state) {
    case mgmt::TraceInfo::State::kNone: return "none";
    case mgmt::TraceInfo::State::kRunning: return "running";
    case mgmt::TraceInfo::State::kComplete: return "complete";
    case mgmt::TraceInfo::State::kStopped: return "stopped";
  }
  return "";
}

/// In the words of the command.
std::string filter_text(const mgmt::TraceRequest& r) {
  std::string text;
  if (!r.in.empty()) text += " in " + r.in;
  if (r.src) text += " src " + wire::to_string(*r.src);
  if (r.dst) text += " dst " + wire::to_string(*r.dst);
  if (r.protocol) text += fmt::format(" proto {}", *r.protocol);
  if (r.port) text += fmt::format(" port {}", *r.port);
  if (r.dropped_only) text += " drop";
  return text.empty() ? text : text.substr(1);
}

}  // namespace

Json to_json(const mgmt::TracedPacket& p) {
  Json steps = Json::array();
  std::vector<std::string> verdicts;
  for (const Line& line : lines_of(p)) {
    steps.push_back(line.text);
    if (!line.verdict.empty() &&
        std::find(verdicts.begin(), verdicts.end(), line.verdict) == verdicts.end())
      verdicts.push_back(line.verdict);
  }
  return {{"time_ns", std::chrono::nanoseconds{p.since_start}.count()},
          {"worker", p.record.worker},
          {"lcore", p.lcore},
          {"in", p.in},
          {"packet", packet_text(p.record.packet)},
          {"steps", std::move(steps)},
          {"verdict", fmt::format("{}", fmt::join(verdicts, ", "))}};
}

Json to_json(const mgmt::TraceInfo& info, std::size_t recorded) {
  return {{"state", state_text(info.state)},
          {"filter", filter_text(info.request)},
          {"limit", info.request.packets},
          {"recorded", recorded},
          {"missed", info.missed}};
}

std::string trace_text(const mgmt::TraceInfo& info, std::size_t recorded) {
  if (info.state == mgmt::TraceInfo::State::kNone) return "no trace\n";
  const std::string filter = filter_text(info.request);
  std::string text =
      fmt::format("trace {}: {} of {} packets{}{}\n", state_text(info.state), recorded,
                  info.request.packets, filter.empty() ? "" : ", ", filter);
  if (info.missed != 0)
    text +=
        fmt::format("{} more packets matched that a worker had no room to follow\n", info.missed);
  return text;
}

std::string trace_text(const mgmt::TracedPacket& p, std::size_t number) {
  std::string text = fmt::format("\n{}: {:.6f} s, worker {} (lcore {}){}\n   {}\n", number,
                                 seconds_of(p.since_start), p.record.worker, p.lcore,
                                 p.in.empty() ? "" : ", in " + p.in, packet_text(p.record.packet));
  for (const Line& line : lines_of(p)) text += fmt::format("   - {}\n", line.text);
  return text;
}

}  // namespace ipoib::app
