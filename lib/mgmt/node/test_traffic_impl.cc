// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/test_traffic_impl.h"

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/mgmt/node/node_parts.h"

namespace ipoib::mgmt {

void TestTrafficImpl::set_forward_mode(fwd::ForwardMode mode) {
  parts_.loop->expects_own_lcore();
  parts_.config.mode = mode;
  // set_generator() has refused invalid configurations already.
  if (auto s = publish(); !s) log(LogArea::kMgmt, LogLevel::kErr, "{}", s.error().what);
  parts_.tables.settings.mode.store(mode, std::memory_order_relaxed);
}

Status TestTrafficImpl::set_generator(const fwd::GeneratorConfig& generator) {
  parts_.loop->expects_own_lcore();
  const GeneratorConfig before = std::exchange(parts_.config.generator, generator);
  auto published = publish();
  if (!published) parts_.config.generator = before;
  return published;
}

void TestTrafficImpl::set_burst(unsigned packets) {
  parts_.loop->expects_own_lcore();
  parts_.config.worker.burst = packets;
  parts_.tables.settings.burst.store(static_cast<std::uint16_t>(packets),
                                     std::memory_order_relaxed);
}

void TestTrafficImpl::send_first(unsigned bursts) {
  parts_.loop->expects_own_lcore();
  first_bursts_ += bursts;
  update();
}

Status TestTrafficImpl::publish() {
  const std::uint64_t bps = parts_.speed_bps(egress());
  const unsigned room = parts_.buffers.data_room();
  auto made = fwd::Generator::create(parts_.config.generator,
                                     {.tsc_hz = rte_get_tsc_hz(),
                                      .workers = parts_.config.worker.count,
                                      .max_size = static_cast<std::uint16_t>(
                                          room - std::min<unsigned>(room, RTE_PKTMBUF_HEADROOM)),
                                      .link_bps = bps,
                                      .run_id = parts_.run_id,
                                      .all_flows = parts_.config.mode == ForwardMode::kFlowgen,
                                      .stamped = parts_.config.mode == ForwardMode::kLatency});
  if (!made) return tl::make_unexpected(made.error());
  generator_bps_ = bps;
  auto old = std::exchange(generator_, std::move(*made));
  // Release: pairs with the load in the worker that uses it.
  parts_.tables.settings.generator.store(generator_.get(), std::memory_order_release);
  if (old != nullptr) old_generators_.add(std::move(old), *parts_.retirement);
  return {};
}

void TestTrafficImpl::update() {
  const table::InterfaceId id = egress();
  if (parts_.config.generator.rate.unit == fwd::PacketRate::Unit::kPercent &&
      parts_.speed_bps(id) != generator_bps_)
    if (auto s = publish(); !s) log(LogArea::kMgmt, LogLevel::kErr, "{}", s.error().what);
  const InterfaceSlot* const slot = parts_.interfaces.find(id);
  if (first_bursts_ == 0 || slot == nullptr || slot->control->state() != link::State::kUp) return;
  const std::uint32_t requested =
      parts_.tables.settings.first_bursts.load(std::memory_order_relaxed);
  parts_.tables.settings.first_bursts.store(requested + std::exchange(first_bursts_, 0),
                                            std::memory_order_relaxed);
}

void TestTrafficImpl::collect() {
  old_generators_.reclaim(*parts_.retirement, [](auto old) { old.reset(); });
}

table::InterfaceId TestTrafficImpl::egress() const {
  const wire::IpAddr& dst = parts_.config.generator.ip.dst;
  table::NextHop hop =
      parts_.tables.next_hops->get(dst.is_v4() ? parts_.tables.prefixes->lookup(dst.v4_host())
                                               : parts_.tables.prefixes6->lookup(dst));
  if (hop.kind == table::NextHopKind::kGroup) hop = parts_.tables.next_hops->member(hop, 0);
  const bool leads_on =
      hop.kind == table::NextHopKind::kConnected || hop.kind == table::NextHopKind::kGateway;
  return leads_on ? hop.iface : table::kNoInterface;
}

}  // namespace ipoib::mgmt
