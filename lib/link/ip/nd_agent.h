// SPDX-License-Identifier: BSD-3-Clause
// IPv6 of one interface: its addresses, neighbour discovery, and the two sides of router discovery.
// Source: RFC 4861, RFC 4862 §5.4; RFC 4391 §8, §9.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/rate_limiter.h"
#include "lib/link/interface.h"
#include "lib/link/ip/address_conflicts.h"
#include "lib/link/ip/announcements.h"
#include "lib/link/ip/ip6_addresses.h"
#include "lib/link/ip/neighbour_cache.h"
#include "lib/link/ip/own_groups.h"
#include "lib/link/ip/router_timers.h"
#include "lib/link/ip/shared_addresses.h"
#include "lib/link/log_limit.h"
#include "lib/link/medium.h"
#include "lib/wire/nd.h"

namespace ipoib::link {

struct ProxyAsker;
class ProxySide;
class SubnetProxy;

/// The surroundings of an agent; references are kept.
struct NdPlace {
  const std::string& name;
  table::InterfaceId id;
  const Ip6Config& config;
  OwnGroups& groups;
  AddressSink& receiver;
};

class NdAgent final : public Solicitor, private AddressOwner {
 public:
  NdAgent(const NdPlace& place, Medium& medium, NeighbourCache& cache, std::uint64_t seed);

  /// The interface carries packets of `mtu` octets. IPv6 starts; if it runs it continues and
  /// announces its addresses; with another identifier it restarts. `configured`: all addresses of
  /// the interface. It has one more: the link-local one made from `interface_id`.
  void up(const std::vector<wire::IpPrefix>& configured, std::uint64_t interface_id,
          std::uint16_t mtu, TimePoint now);
  /// Sends a final router advertisement (lifetime 0) if it sent any. Withdraws addresses and
  /// groups.
  void down(TimePoint now);
  /// Some of the addresses are shared. The reference is kept. Call it before up().
  void share(SharedAddresses& shared, const std::vector<wire::IpPrefix>& addresses);
  /// The interface has one more address: begins to use it if IPv6 runs. `detect`: after duplicate
  /// address detection, now and after each restart. Precondition: list() does not have it.
  void add(const wire::IpPrefix& address, bool detect, TimePoint now);
  void remove(const wire::IpPrefix& address, TimePoint now);
  [[nodiscard]] bool running() const { return running_; }
  /// The reason why IPv6 does not run; empty when it does.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Largest IPv6 packet: the link's MTU, or a router's; 0 if IPv6 does not run.
  [[nodiscard]] std::uint16_t mtu() const { return running_ ? mtu_ : std::uint16_t{0}; }
  /// Own IPv6 addresses except duplicates, including link-local ones.
  [[nodiscard]] const std::vector<wire::IpPrefix>& prefixes() const {
    return addresses_.prefixes();
  }
  [[nodiscard]] std::vector<AddressInfo> list() const { return addresses_.list(); }

  /// Sends a solicitation to the solicited-node group of `addr`.
  void request(const wire::IpAddr& addr, unsigned attempt, TimePoint now) override;
  void probe(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) override;
  void failed(const wire::IpAddr& addr) override;
  [[nodiscard]] bool can_ask(const wire::IpAddr&) const override { return running_; }
  /// Octets from the IPv6 header on. Returns the link-layer address of the sender, if an acceptable
  /// message names it.
  std::optional<wire::HwAddr> on_nd(std::span<const std::byte> packet, TimePoint now);

  /// Sends the better next hop to the sender of `offending` (octets from its IPv6 header on), if
  /// the rules allow a redirect. The caller limits the rate.
  void send_redirect(std::span<const std::byte> offending, const wire::IpAddr& next_hop,
                     TimePoint now);

  /// See Interface.
  void set_default_router(bool on, TimePoint now);
  [[nodiscard]] bool advertises_router() const { return advertiser_.running(); }

  // For hosts of other interfaces, on a `side` of `proxy`. Messages to all hosts have its mark.
  void set_proxy(SubnetProxy& proxy, ProxySide& side) {
    proxy_ = &proxy;
    side_ = &side;
  }
  /// Sends a solicitation of duplicate address detection, with the mark of the proxy and with the
  /// nonce of the host that asks.
  void ask_if_used(const wire::IpAddr& addr, const std::optional<wire::NdNonce>& nonce,
                   TimePoint now);
  void answer_for(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now);
  void announce_for(const wire::IpAddr& addr, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] const NdCounters& counters() const { return counters_; }

 private:
  using Message = wire::NdMessage;

  // AddressOwner.
  void begin(const wire::IpPrefix& address, TimePoint now) override;
  void end(const wire::IpPrefix& address, TimePoint now) override;
  bool ask(const wire::IpAddr& addr, const wire::NdNonce& nonce, TimePoint now) override;
  void ready(const wire::IpPrefix& address, TimePoint now) override;
  void on_address_removed(const wire::IpPrefix& address, TimePoint now) override;
  void duplicate(const wire::IpPrefix& address) override;

  void start(const std::vector<wire::IpPrefix>& configured, std::uint64_t interface_id,
             TimePoint now);
  void apply_mtu(std::uint16_t mtu);
  [[nodiscard]] bool is_better_mtu(std::uint32_t mtu, TimePoint now) const;
  void on_router_mtu(std::uint32_t mtu, const wire::IpAddr& router, TimePoint now);
  void on_default_router(const wire::IpAddr& router, bool usable);
  void announce(const wire::IpAddr& addr, TimePoint now);
  void announce_once(const wire::IpAddr& addr, TimePoint now);
  [[nodiscard]] std::vector<wire::NdPrefix> own_prefixes() const;
  void advertise_router(std::uint16_t lifetime_s, TimePoint now);
  void solicit_routers(TimePoint now);
  void answer(const Message& question, TimePoint now);
  void answer_later(const Message& question, TimePoint now);
  [[nodiscard]] std::optional<wire::IpAddr> anycast_of(const wire::IpPrefix& own) const;
  [[nodiscard]] bool is_router_anycast(const wire::IpAddr& addr) const;
  [[nodiscard]] std::optional<Message> solicitation(const wire::IpAddr& addr);
  bool to_group(const Message& message, TimePoint now);
  void unicast(const wire::HwAddr& to, std::span<const std::byte> packet, TimePoint now);

  /// Returns false if the message must be ignored.
  [[nodiscard]] bool may_handle(const Message& m, TimePoint now);
  void handle(const Message& m, TimePoint now);
  static const std::optional<wire::HwAddr>& sender_of(const Message& m);
  void on_solicitation(const Message& m, TimePoint now);
  void on_advertisement(const Message& m, TimePoint now);
  void on_router_solicitation(const Message& m, TimePoint now);
  void on_router_advertisement(const Message& m, TimePoint now);
  void on_redirect(const Message& m, TimePoint now);
  void on_conflict(const Message& m, const wire::IpAddr& addr, TimePoint now);
  void learn(const wire::IpAddr& addr, const wire::HwAddr& hw, bool create, TimePoint now);
  void on_contradiction(const wire::IpAddr& addr, const std::optional<wire::HwAddr>& hw,
                        TimePoint now);
  [[nodiscard]] bool on_link(const wire::IpAddr& addr) const;
  [[nodiscard]] bool proxy_ignores(const Message& m, TimePoint now);
  [[nodiscard]] bool proxy_ignores_claim(const wire::IpAddr& addr,
                                         const std::optional<wire::HwAddr>& hw, TimePoint now);
  void proxy_asked(const Message& m, TimePoint now);
  [[nodiscard]] Message advertisement_for(const wire::IpAddr& addr) const;
  [[nodiscard]] bool is_shared(const wire::IpAddr& own) const {
    return shared_ != nullptr && shared_->has(own);
  }

  NdPlace place_;
  Medium& medium_;
  NeighbourCache& cache_;
  Ip6Addresses addresses_;
  RouterAdvertiser advertiser_;
  RouterDiscovery discovery_;
  bool running_ = false;
  bool default_router_ = true;  ///< Says so in its advertisements.
  std::string reason_ = "not started";
  std::uint16_t link_mtu_ = 0;
  std::uint16_t mtu_ = 0;
  std::uint64_t interface_id_ = 0;
  std::optional<wire::IpAddr> mtu_from_;  ///< The default router whose MTU applies.
  std::optional<TimePoint> mtu_taken_;    ///< Time of the last MTU from a router.
  LogLimit mtu_ignored_log_;
  RateLimiter redirects_{std::chrono::milliseconds(10), 10};
  SharedAddresses* shared_ = nullptr;  ///< Null: it shares none.
  Announcements again_;
  AddressConflicts conflicts_;
  std::mt19937_64 random_;
  SubnetProxy* proxy_ = nullptr;
  ProxySide* side_ = nullptr;
  std::multimap<TimePoint, Message> anycast_questions_;  ///< Ordered by the time of their answers.
  NdCounters counters_;
};

}  // namespace ipoib::link
