// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/rarp_agent.h"

#include <algorithm>

#include "lib/link/ip/address_class.h"

namespace ipoib::link {
namespace {

constexpr unsigned kAttempts = 6;

}  // namespace

RarpAgent::RarpAgent(const RarpConfig& config, const std::vector<wire::IpPrefix>& addresses,
                     Medium& medium, Listener listener)
    : config_{config}, addresses_{addresses}, medium_{medium}, listener_{std::move(listener)} {}

void RarpAgent::start(TimePoint now) {
  if (!config_.ask || learned_) return;
  attempts_ = 0;
  due_ = now;
}

void RarpAgent::stop() {
  due_.reset();
  learned_.reset();
}

void RarpAgent::tick(TimePoint now) {
  if (!due_ || now < *due_) return;
  if (attempts_ >= kAttempts) {
    due_.reset();
    return;
  }
  due_ = now + std::chrono::seconds(1) * (1U << attempts_++);
  const auto hw = medium_.own_hw();
  ++counters_.asked;
  medium_.broadcast(wire::EtherType::kRarp,
                    wire::build_arp({wire::ArpOp::kRarpRequest, hw, 0, hw, 0}, medium_.format()));
}

void RarpAgent::on_rarp(const wire::Arp& arp, TimePoint now) {
  if (arp.op == wire::ArpOp::kRarpRequest) return on_request(arp, now);
  const auto addr = wire::IpAddr::v4(arp.target_ip);
  const bool wanted = due_ && arp.target_hw.same_interface(medium_.own_hw());
  if (!wanted || !arp.sender_hw.is_plausible() || !is_neighbour_address(addresses_, addr)) {
    ++counters_.invalid;
    return;
  }
  due_.reset();
  learned_ = wire::IpPrefix{addr, config_.prefix_len};
  listener_(*learned_, now);
}

void RarpAgent::on_request(const wire::Arp& arp, TimePoint now) {
  if (arp.sender_hw.same_interface(medium_.own_hw())) return;  // Reflected by the fabric.
  ++counters_.requests;
  const auto host =
      std::find_if(config_.served.begin(), config_.served.end(),
                   [&](const auto& entry) { return entry.first.same_interface(arp.target_hw); });
  const auto own = std::find_if(addresses_.begin(), addresses_.end(),
                                [](const auto& a) { return a.addr.is_v4(); });
  if (host == config_.served.end() || own == addresses_.end() || !arp.sender_hw.is_plausible())
    return;
  ++counters_.answered;
  medium_.send(arp.sender_hw, wire::EtherType::kRarp,
               wire::build_arp({wire::ArpOp::kRarpReply, medium_.own_hw(), own->addr.v4_host(),
                                arp.target_hw, host->second.v4_host()},
                               medium_.format()),
               now);
}

}  // namespace ipoib::link
