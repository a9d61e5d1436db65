// SPDX-License-Identifier: BSD-3-Clause
// Records of the packet trace as text, so that a test lists the path of a packet.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "lib/msg/trace_records.h"

namespace ipoib::fwd::test {

using Path = std::vector<std::string>;

struct StepText {
  static std::string times(std::uint16_t n) { return n == 1 ? "" : fmt::format(" x{}", n); }

  std::string operator()(const msg::trace::Entered& s) const {
    if (s.stage != msg::trace::Stage::kIpoibInput) return std::string{to_string(s.stage)};
    return fmt::format("{} {}", to_string(s.stage), to_string(s.mode));
  }
  std::string operator()(const msg::trace::Routed& s) const {
    return fmt::format("route {} kind {} to {}", wire::to_string(s.to), static_cast<int>(s.kind),
                       s.iface);
  }
  std::string operator()(const msg::trace::Resolved& s) const {
    const std::string hw = s.mode == table::NeighbourMode::kEthernet ? wire::to_string(s.mac)
                                                                     : fmt::format("{:x}", s.qpn);
    return fmt::format("neighbour {} on {} state {} {} {}", wire::to_string(s.addr), s.iface,
                       static_cast<int>(s.state), to_string(s.mode), hw);
  }
  std::string operator()(const msg::trace::Delivered& s) const {
    return fmt::format("delivery local {} out {:x}", s.local, s.out);
  }
  std::string operator()(const msg::trace::Merged& s) const {
    return fmt::format("merged {}", s.segments);
  }
  std::string operator()(const msg::trace::Cut& s) const {
    return fmt::format("{} mtu {} pieces {}", s.tcp ? "segments" : "fragments", s.mtu, s.pieces);
  }
  std::string operator()(const msg::trace::Joined&) const { return "joined"; }
  std::string operator()(const msg::trace::Sent& s) const {
    return fmt::format("sent {} {}{}{}", s.iface, to_string(s.mode), times(s.packets),
                       s.lost != 0 ? fmt::format(" lost {}", s.lost) : "");
  }
  std::string operator()(const msg::trace::HandedOff& s) const {
    return fmt::format("handed to worker {} for {}{}", s.worker, s.iface, times(s.packets));
  }
  std::string operator()(const msg::trace::Punted& s) const {
    if (s.kind != msg::Up::Kind::kIcmpError)
      return fmt::format("punted kind {}", static_cast<int>(s.kind));
    return fmt::format("error {}/{}", s.icmp_type, s.icmp_code);
  }
  std::string operator()(const msg::trace::Held& s) const {
    return fmt::format("held for {} on {}", wire::to_string(s.addr), s.iface);
  }
  std::string operator()(const msg::trace::Dropped& s) const {
    return fmt::format("dropped {}{}{}", drop_name(s.reason),
                       s.iface != table::kNoInterface ? fmt::format(" on {}", s.iface) : "",
                       times(s.packets));
  }
  std::string operator()(const msg::trace::Consumed&) const { return "consumed"; }
};

inline Path path_of(const msg::trace::Record& record) {
  Path path;
  for (const msg::trace::Step& step : record.path()) path.push_back(std::visit(StepText{}, step));
  return path;
}

/// Paths of all records so far, in order.
inline std::vector<Path> paths_of(const msg::trace::Session& session) {
  std::vector<Path> paths;
  for (std::size_t i = 0; i < session.limit(); ++i)
    if (const msg::trace::Record* record = session.record(i)) paths.push_back(path_of(*record));
  return paths;
}

}  // namespace ipoib::fwd::test
