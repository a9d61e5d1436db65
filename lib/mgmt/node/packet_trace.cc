// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/packet_trace.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"
#include "lib/mgmt/node/node_clock.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::mgmt {

namespace trace = msg::trace;

Result<trace::Filter> PacketTrace::filter_of(const TraceRequest& request) const {
  if (request.packets == 0 || request.packets > trace::Session::kMaxRecords)
    return fail(Errc::kInvalidArgument, "a trace records 1 to {} packets, not {}",
                trace::Session::kMaxRecords, request.packets);
  if (request.src && request.dst && request.src->addr.is_v4() != request.dst->addr.is_v4())
    return fail(Errc::kInvalidArgument,
                "{} and {} are of different IP versions: no packet has both",
                wire::to_string(*request.src), wire::to_string(*request.dst));
  trace::Filter filter{.src = request.src,
                       .dst = request.dst,
                       .protocol = request.protocol,
                       .port = request.port,
                       .dropped_only = request.dropped_only};
  if (!request.in.empty()) {
    const InterfaceSlot* const slot = interfaces_.find(request.in);
    if (slot == nullptr) return fail(Errc::kNotFound, "no link or port {}", request.in);
    filter.in = slot->control->id();
  }
  return filter;
}

Status PacketTrace::start(const TraceRequest& request) {
  expects_management();
  const auto filter = filter_of(request);
  if (!filter) return tl::make_unexpected(filter.error());
  auto session = std::make_unique<trace::Session>(*filter, request.packets);
  give_to_workers(session.get());
  if (session_ != nullptr) old_sessions_.add(std::exchange(session_, nullptr), retirement_);
  session_ = std::move(session);
  packets_.clear();
  info_ = {TraceInfo::State::kRunning, request};
  start_tsc_ = tsc_();
  return {};
}

Status PacketTrace::stop() {
  expects_management();
  collect();
  if (info_.state != TraceInfo::State::kRunning)
    return fail(Errc::kUnavailable, "no trace is running");
  end(TraceInfo::State::kStopped);
  return {};
}

void PacketTrace::clear() {
  expects_management();
  if (session_ == nullptr) return;
  if (info_.state == TraceInfo::State::kRunning) end(TraceInfo::State::kStopped);
  old_sessions_.add(std::exchange(session_, nullptr), retirement_);
  packets_.clear();
  info_ = {};
}

TraceInfo PacketTrace::info() {
  expects_management();
  collect();
  return info_;
}

const std::vector<TracedPacket>& PacketTrace::packets() {
  expects_management();
  collect();
  return packets_;
}

void PacketTrace::advance(TimePoint now) {
  now_ = now;
  collect();
  old_sessions_.reclaim(retirement_, [](auto session) { session.reset(); });
}

void PacketTrace::give_to_workers(trace::Session* session) {
  msg::Down message;
  message.kind = msg::Down::Kind::kTrace;
  message.trace = session;
  workers_.send_to_all(message);
}

void PacketTrace::end(TraceInfo::State state) {
  give_to_workers(nullptr);
  info_.state = state;
}

/// After stop(), too: workers publish what they follow until they have the message.
void PacketTrace::collect() {
  if (session_ == nullptr) return;
  while (packets_.size() < session_->limit()) {
    const trace::Record* const record = session_->record(packets_.size());
    if (record == nullptr) break;
    packets_.push_back(named(*record));
  }
  info_.missed = session_->missed();
  if (info_.state == TraceInfo::State::kRunning && packets_.size() == session_->limit())
    end(TraceInfo::State::kComplete);
}

TracedPacket PacketTrace::named(const trace::Record& record) const {
  TracedPacket p;
  p.record = record;
  p.since_start = duration_of(record.tsc - std::min(record.tsc, start_tsc_));
  p.lcore = workers_.all()[record.worker].lcore;
  p.in = name_of(record.in);
  for (const trace::Step& step : record.path()) p.names.push_back(names_of(step));
  return p;
}

TracedPacket::StepNames PacketTrace::names_of(const trace::Step& step) const {
  TracedPacket::StepNames names;
  std::visit(
      [&](const auto& s) {
        if constexpr (requires { s.iface; }) names.iface = name_of(s.iface);
      },
      step);
  if (const auto* const routed = std::get_if<trace::Routed>(&step))
    names.prefix = route_to(*routed);
  if (const auto* const resolved = std::get_if<trace::Resolved>(&step))
    names.lid = lid_of(*resolved);
  if (const auto* const delivered = std::get_if<trace::Delivered>(&step))
    for (table::InterfaceId i = 0; i < interfaces_.size() && i < table::kMaxMulticastInterfaces;
         ++i)
      if ((delivered->out >> i & 1) != 0) names.out.push_back(name_of(i));
  return names;
}

std::string PacketTrace::name_of(table::InterfaceId id) const {
  const InterfaceSlot* const slot = interfaces_.find(id);
  return slot != nullptr ? slot->control->name() : "";
}

std::optional<wire::IpPrefix> PacketTrace::route_to(const trace::Routed& step) const {
  if (step.kind == table::NextHopKind::kNone) return std::nullopt;
  for (int len = wire::host_len(step.to); len >= 0; --len) {
    wire::IpPrefix prefix{step.to, static_cast<std::uint8_t>(len)};
    prefix.addr = wire::network(prefix);
    if (routes_.routes().contains(prefix)) return prefix;
  }
  return std::nullopt;
}

std::uint16_t PacketTrace::lid_of(const trace::Resolved& step) const {
  const InterfaceSlot* const slot = interfaces_.find(step.iface);
  if (slot == nullptr || step.mode == table::NeighbourMode::kEthernet) return 0;
  if (const auto neighbour = slot->control->neighbour(step.addr, now_)) return neighbour->lid;
  if (!wire::is_multicast(step.addr)) return 0;
  for (const link::GroupInfo& group : slot->control->groups(now_))
    if (group.group == step.addr) return group.mlid;
  return 0;
}

}  // namespace ipoib::mgmt
