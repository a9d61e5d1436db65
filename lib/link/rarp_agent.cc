// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/rarp_agent.h"

#include <algorithm>

#include "lib/link/address_class.h"

namespace ipoib::link {
namespace {

constexpr unsigned kAttempts = 6;

}  // namespace

template <class Hw>
RarpAgent<Hw>::RarpAgent(const RarpConfig<Hw>& config, const std::vector<wire::IpPrefix>& addresses,
                         ArpTransport<Hw>& transport, Listener listener)
    : config_{config},
      addresses_{addresses},
      transport_{transport},
      listener_{std::move(listener)} {}

template <class Hw>
void RarpAgent<Hw>::start(TimePoint now) {
  if (!config_.ask || own_) return;
  attempts_ = 0;
  due_ = now;
}

template <class Hw>
void RarpAgent<Hw>::stop() {
  due_.reset();
  own_.reset();
}

template <class Hw>
void RarpAgent<Hw>::tick(TimePoint now) {
  if (!due_ || now < *due_) return;
  if (attempts_ >= kAttempts) {
    due_.reset();
    return;
  }
  due_ = now + std::chrono::seconds(1) * (1U << attempts_++);
  const auto hw = transport_.own_hw();
  ++counters_.asked;
  transport_.broadcast_arp(
      wire::bytes_of(wire::make_arp<Hw>(wire::ArpOp::kRarpRequest, hw, 0, hw, 0)));
}

template <class Hw>
void RarpAgent<Hw>::on_rarp(const wire::Arp<Hw>& arp, TimePoint now) {
  if (static_cast<wire::ArpOp>(arp.op.host()) == wire::ArpOp::kRarpRequest)
    return on_request(arp, now);
  const auto addr = wire::IpAddr::v4(arp.target_ip.host());
  const bool wanted = due_ && same_interface(arp.target_hw, transport_.own_hw());
  if (!wanted || !is_plausible(arp.sender_hw) || !is_neighbour_address(addresses_, addr)) {
    ++counters_.invalid;
    return;
  }
  due_.reset();
  own_ = wire::IpPrefix{addr, config_.prefix_len};
  listener_(*own_, now);
}

template <class Hw>
void RarpAgent<Hw>::on_request(const wire::Arp<Hw>& arp, TimePoint now) {
  if (same_interface(arp.sender_hw, transport_.own_hw())) return;  // Reflected by the fabric.
  ++counters_.requests;
  const auto host =
      std::find_if(config_.served.begin(), config_.served.end(),
                   [&](const auto& entry) { return same_interface(entry.first, arp.target_hw); });
  const auto own = std::find_if(addresses_.begin(), addresses_.end(),
                                [](const auto& a) { return a.addr.is_v4(); });
  if (host == config_.served.end() || own == addresses_.end() || !is_plausible(arp.sender_hw))
    return;
  ++counters_.answered;
  const auto reply = wire::make_arp<Hw>(wire::ArpOp::kRarpReply, transport_.own_hw(),
                                        own->addr.v4_host(), arp.target_hw, host->second.v4_host());
  transport_.unicast_arp(arp.sender_hw, wire::bytes_of(reply), now);
}

template class RarpAgent<wire::LinkAddr>;
template class RarpAgent<wire::MacAddr>;

}  // namespace ipoib::link
