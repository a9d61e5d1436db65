// SPDX-License-Identifier: BSD-3-Clause
// ARP for the addresses of one interface: requests neighbours, answers for own addresses, learns
// from received records, announces itself and detects other hosts that claim its addresses. Source:
// RFC 826, RFC 5227 (announcements, defence); RFC 4391 §9.2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/link/ip/address_conflicts.h"
#include "lib/link/ip/announcements.h"
#include "lib/link/ip/neighbour_cache.h"
#include "lib/link/ip/shared_addresses.h"
#include "lib/link/medium.h"
#include "lib/wire/arp.h"

namespace ipoib::link {

struct ProxyAsker;
class ProxySide;
class SubnetProxy;

class ArpAgent final : public Solicitor {
 public:
  /// References are kept. `name`: name of the interface, for the log.
  ArpAgent(const std::string& name, const std::vector<wire::IpPrefix>& addresses, Medium& medium,
           NeighbourCache& cache);

  /// Some of the addresses are shared. The reference is kept.
  void share(SharedAddresses& shared) { shared_ = &shared; }

  void request(const wire::IpAddr& addr, unsigned attempt, TimePoint now) override;
  void probe(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) override;
  void failed(const wire::IpAddr&) override {}
  [[nodiscard]] bool can_ask(const wire::IpAddr&) const override { return true; }

  /// Announces this node's IPv4 addresses to all hosts, twice.
  void announce(TimePoint now);
  /// Announces one of them, twice.
  void announce(const wire::IpAddr& own, TimePoint now);
  /// The address is no longer this node's.
  void forget(const wire::IpAddr& own) { again_.remove(own); }
  void stop() { again_.clear(); }

  /// Handles a received record, which is not one of RARP. Empty: the octets are no record of this
  /// kind of link, which is counted.
  void on_arp(const std::optional<wire::Arp>& arp, TimePoint now);

  // For hosts of other interfaces, on a `side` of `proxy`. Requests to all hosts have its mark.
  void set_proxy(SubnetProxy& proxy, ProxySide& side) {
    proxy_ = &proxy;
    side_ = &side;
  }
  /// Sends a probe (RFC 5227 §2.1.1) with the mark of the proxy.
  void ask_if_used(const wire::IpAddr& addr) { broadcast_request(0, addr.v4_host(), true); }
  void answer_for(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now);
  void announce_for(const wire::IpAddr& addr) {
    broadcast_request(addr.v4_host(), addr.v4_host(), true);
  }

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return again_.next_deadline(); }

  [[nodiscard]] const ArpCounters& counters() const { return counters_; }

 private:
  void broadcast_request(std::uint32_t sender_ip, std::uint32_t target_ip, bool marked);
  void announce_once(const wire::IpAddr& own) {
    broadcast_request(own.v4_host(), own.v4_host(), false);
  }
  void unicast(wire::ArpOp op, std::uint32_t sender_ip, const wire::HwAddr& to,
               std::uint32_t target_ip, TimePoint now);
  void on_conflict(const wire::Arp& arp, TimePoint now);
  [[nodiscard]] bool proxy_ignores(const wire::Arp& arp, TimePoint now);
  void proxy_asked(const wire::Arp& arp, TimePoint now);
  [[nodiscard]] bool is_shared(const wire::IpAddr& own) const {
    return shared_ != nullptr && shared_->has(own);
  }
  [[nodiscard]] std::uint32_t source_for(const wire::IpAddr& target) const;

  const std::vector<wire::IpPrefix>& addresses_;
  Medium& medium_;
  NeighbourCache& cache_;
  SharedAddresses* shared_ = nullptr;  ///< Null: it shares none.
  Announcements again_;
  RateLimiter named_{std::chrono::minutes(5), 3};  ///< Requests to all hosts with a sender.
  AddressConflicts conflicts_;
  SubnetProxy* proxy_ = nullptr;
  ProxySide* side_ = nullptr;
  ArpCounters counters_;
};

}  // namespace ipoib::link
