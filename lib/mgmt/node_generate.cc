// SPDX-License-Identifier: BSD-3-Clause
// Test packets: the generator that workers use.
#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/mgmt/node_impl.h"
#include "lib/wire/iba.h"

namespace ipoib::mgmt {

void NodeImpl::set_forward_mode(ForwardMode mode) {
  expects_own_lcore();
  config_.mode = mode;
  // set_generator() has refused invalid configurations already.
  if (auto s = publish_generator(); !s) log(LogArea::kMgmt, LogLevel::kErr, "{}", s.error().what);
  settings_.mode.store(mode, std::memory_order_relaxed);
}

Status NodeImpl::set_generator(const GeneratorConfig& generator) {
  expects_own_lcore();
  const GeneratorConfig before = std::exchange(config_.generator, generator);
  auto published = publish_generator();
  if (!published) config_.generator = before;
  return published;
}

void NodeImpl::set_burst(unsigned packets) {
  expects_own_lcore();
  config_.worker.burst = packets;
  settings_.burst.store(static_cast<std::uint16_t>(packets), std::memory_order_relaxed);
}

void NodeImpl::send_first(unsigned bursts) {
  expects_own_lcore();
  first_bursts_ += bursts;
  update_test_egress();
}

Status NodeImpl::publish_generator() {
  const std::uint64_t bps = speed_bps(test_egress());
  const unsigned room = buffers_.data_room();
  auto made = fwd::Generator::create(config_.generator,
                                     {.tsc_hz = rte_get_tsc_hz(),
                                      .workers = config_.worker.count,
                                      .max_size = static_cast<std::uint16_t>(
                                          room - std::min<unsigned>(room, RTE_PKTMBUF_HEADROOM)),
                                      .link_bps = bps,
                                      .run_id = run_id_,
                                      .all_flows = config_.mode == ForwardMode::kFlowgen,
                                      .stamped = config_.mode == ForwardMode::kLatency});
  if (!made) return tl::make_unexpected(made.error());
  generator_bps_ = bps;
  auto old = std::exchange(generator_, std::move(*made));
  // Release: pairs with the load in the worker that uses it.
  settings_.generator.store(generator_.get(), std::memory_order_release);
  if (old != nullptr) old_generators_.add(std::move(old), *retirement_);
  return {};
}

void NodeImpl::update_test_egress() {
  const table::InterfaceId id = test_egress();
  if (config_.generator.rate.unit == fwd::PacketRate::Unit::kPercent &&
      speed_bps(id) != generator_bps_)
    if (auto s = publish_generator(); !s) log(LogArea::kMgmt, LogLevel::kErr, "{}", s.error().what);
  const InterfaceSlot* const slot = interfaces_.find(id);
  if (first_bursts_ == 0 || slot == nullptr || slot->control->state() != link::State::kUp) return;
  const std::uint32_t asked = settings_.first_bursts.load(std::memory_order_relaxed);
  settings_.first_bursts.store(asked + std::exchange(first_bursts_, 0), std::memory_order_relaxed);
}

/// Interface that leads to the first test destination; of an ECMP group, that of bucket 0.
table::InterfaceId NodeImpl::test_egress() const {
  const wire::IpAddr& dst = config_.generator.ip.dst;
  table::NextHop hop =
      next_hops_.get(dst.is_v4() ? prefixes_->lookup(dst.v4_host()) : prefixes6_->lookup(dst));
  if (hop.kind == table::NextHopKind::kGroup) hop = next_hops_.member(hop, 0);
  const bool leads_on =
      hop.kind == table::NextHopKind::kConnected || hop.kind == table::NextHopKind::kGateway;
  return leads_on ? hop.iface : table::kNoInterface;
}

std::uint64_t NodeImpl::speed_bps(table::InterfaceId id) const {
  constexpr std::uint64_t kMega = 1'000'000;
  for (const auto& p : ports_)
    if (p->config().id == id) return p->device().link_status().speed_mbps * kMega;
  for (const auto& l : links_)
    if (l->config().id == id && l->control().state() == link::State::kUp)
      return wire::rate_mbps(l->control().parameters().rate) * kMega;
  return 0;
}

ForwardInfo NodeImpl::forward_info() const {
  expects_own_lcore();
  ForwardInfo info;
  info.mode = forward_mode();
  info.forwarding = forwarding();
  info.burst = settings_.burst.load(std::memory_order_relaxed);
  const table::InterfaceId id = test_egress();
  info.egress = name_of(id);
  info.egress_bps = speed_bps(id);
  info.first_bursts = first_bursts_;
  for (const WorkerInfo& w : workers()) {
    info.generated += w.generated;
    info.consumed += w.consumed;
    info.no_mbuf += w.no_mbuf;
  }
  return info;
}

}  // namespace ipoib::mgmt
