// SPDX-License-Identifier: BSD-3-Clause
// IPv4 and IPv6 of one interface above its medium: addresses, ARP, RARP, neighbour discovery,
// neighbours, and the groups that these need.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/link/interface.h"
#include "lib/link/ip/arp_agent.h"
#include "lib/link/ip/nd_agent.h"
#include "lib/link/ip/neighbour_cache.h"
#include "lib/link/ip/own_groups.h"
#include "lib/link/ip/rarp_agent.h"
#include "lib/link/ip/shared_addresses.h"
#include "lib/link/ip/subnet_proxy.h"
#include "lib/link/medium.h"
#include "lib/wire/arp.h"

namespace ipoib::link {

/// Configuration that links and ports have in common.
struct IpConfig {
  std::string name;
  table::InterfaceId id = 0;
  std::vector<wire::IpPrefix> addresses;
  NeighbourConfig neighbour;
  Ip6Config ip6;
  RarpConfig rarp;
};

/// Management lcore only. Nothing is received or sent before the first resume(). stop() and
/// withdraw() must be called before its end, or held packets leak.
class IpStack final : private Solicitor, private ProxySide, private NeighbourWatch {
 public:
  /// References are kept; the constructor does not use `medium` and `paths`. `seed`: seed of the
  /// jitter of its timers.
  IpStack(const IpConfig& config, Medium& medium, NeighbourPaths& paths, NeighbourSink& sink,
          AddressSink& receiver, std::uint64_t seed);
  IpStack(const IpStack&) = delete;
  IpStack& operator=(const IpStack&) = delete;

  [[nodiscard]] const IpConfig& config() const { return config_; }
  /// See Interface::addresses().
  [[nodiscard]] const std::vector<wire::IpPrefix>& addresses() const { return addresses_; }

  /// See Interface.
  Status add_address(const wire::IpPrefix& address, const AddressOptions& options, TimePoint now);
  Status remove_address(const wire::IpPrefix& address, TimePoint now);

  /// Some of the addresses are shared with other nodes. The reference is kept. Call it before start().
  void share(SharedAddresses& shared);
  [[nodiscard]] bool is_shared(const wire::IpAddr& addr) const {
    return shared_ != nullptr && shared_->has(addr);
  }

  // The life of an interface.
  /// Reports the IPv4 addresses as ready.
  void start();
  /// The medium carries packets.
  void resume() { ready_ = true; }
  [[nodiscard]] bool ready() const { return ready_; }
  /// Joins the groups that IPv4 needs. Returns false if they were joined since the last stop().
  bool join_groups(TimePoint now);
  /// Joins a further group until stop().
  void add_group(const wire::IpAddr& group, TimePoint now) { groups_.add(group, now); }
  /// Announces the IPv4 addresses to all hosts, twice.
  void announce(TimePoint now) {
    arp_.announce(now);
    if (shared_ != nullptr) shared_->announce(now);
  }
  /// The interface is up, maybe again: requests an address by RARP if configured, starts IPv6, and
  /// requests gateways that had failed.
  void up(std::uint64_t interface_id, std::uint16_t mtu, TimePoint now);
  /// Starts IPv6, or applies a new MTU or identifier to it: see NdAgent::up().
  void start_ip6(std::uint64_t interface_id, std::uint16_t mtu, TimePoint now);
  void stop_ip6(TimePoint now) { nd_.down(now); }
  /// The medium carries no packets until resume(). Neighbours and addresses are kept.
  void suspend() { ready_ = false; }
  /// Withdraws addresses and groups.
  void stop(TimePoint now);
  /// Forgets all neighbours, static ones too; gateways stay until forgotten, but lose their data.
  void withdraw();

  /// Tells a neighbour of a medium with several addresses the one to send to, by a request to it
  /// alone. Nothing happens if its link-layer address is not known.
  void tell(const wire::IpAddr& addr, TimePoint now);

  /// A worker has a packet for an unknown neighbour. Takes over `packet`.
  void request_neighbour(const wire::IpAddr& addr, HeldPacket packet, TimePoint now);
  /// Like request_neighbour(), for a group. Its link-layer address is computed from its IP address.
  void request_group(const wire::IpAddr& group, const wire::HwAddr& hw, HeldPacket packet,
                     TimePoint now);
  /// Errors: kInvalidArgument, `addr` cannot be a neighbour; kNoResources.
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now);
  /// Errors: kInvalidArgument, `addr` cannot be a neighbour.
  [[nodiscard]] Status can_be_neighbour(const wire::IpAddr& addr) const;
  /// Forgets all broadcast addresses: Medium::broadcast_hw() has changed.
  void forget_broadcast_neighbours();

  /// Octets from the ARP header on; padding behind the record is ignored. Returns the record if it
  /// is ARP, not RARP.
  std::optional<wire::Arp> on_arp(std::span<const std::byte> octets, TimePoint now);
  /// Octets from the IPv6 header on. Returns the link-layer address of the sender, if it is named.
  std::optional<wire::HwAddr> on_nd(std::span<const std::byte> packet, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// See Interface.
  void share_subnets(SubnetProxy& proxy);
  [[nodiscard]] bool shares_subnet(const wire::IpAddr& addr) const {
    return proxy_ != nullptr && proxy_->shares(*this, addr);
  }

  [[nodiscard]] NeighbourCache& neighbours() override { return neighbours_; }
  [[nodiscard]] const NeighbourCache& neighbours() const { return neighbours_; }
  [[nodiscard]] NdAgent& nd() { return nd_; }
  [[nodiscard]] const NdAgent& nd() const { return nd_; }
  [[nodiscard]] IpCounters counters() const {
    return {arp_.counters(), nd_.counters(), rarp_.counters(), neighbours_.counters()};
  }

 private:
  // Solicitor.
  void request(const wire::IpAddr& addr, unsigned attempt, TimePoint now) override {
    agent_of(addr).request(addr, attempt, now);
    if (proxy_ != nullptr) proxy_->on_request(*this, addr, now);
  }
  void probe(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) override {
    agent_of(addr).probe(addr, hw, now);
  }
  void failed(const wire::IpAddr& addr) override { agent_of(addr).failed(addr); }
  [[nodiscard]] bool can_ask(const wire::IpAddr& addr) const override {
    return ready_ && (addr.is_v4() ? arp_.can_ask(addr) : nd_.can_ask(addr));
  }

  // ProxySide; can_ask() is that of Solicitor.
  [[nodiscard]] table::InterfaceId side_id() const override { return config_.id; }
  [[nodiscard]] const std::string& side_name() const override { return config_.name; }
  [[nodiscard]] bool is_own_hw(const wire::HwAddr& hw) const override {
    return ready_ && medium_.is_own(hw);
  }
  void ask(const wire::IpAddr& addr, bool detects, const std::optional<wire::NdNonce>& nonce,
           TimePoint now) override;
  void answer(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now) override;
  void announce_for(const wire::IpAddr& addr, TimePoint now) override;
  void listen_for(const wire::IpAddr& addr, TimePoint now) override {
    if (listened_.insert(addr).second && groups_joined_)
      groups_.add(wire::solicited_node(addr), now);
  }
  void unlisten_for(const wire::IpAddr& addr, TimePoint now) override {
    if (listened_.erase(addr) != 0 && groups_joined_)
      groups_.remove(wire::solicited_node(addr), now);
  }
  bool located(const wire::IpAddr& addr) override {
    return receiver_.host_located(config_.id, addr);
  }
  void lost(const wire::IpAddr& addr) override { receiver_.host_lost(config_.id, addr); }

  // NeighbourWatch.
  void neighbour_located(const wire::IpAddr& addr, TimePoint now) override {
    proxy_->on_located(*this, addr, now);
  }
  void neighbour_lost(const wire::IpAddr& addr) override { proxy_->on_lost(*this, addr); }

  /// ARP for IPv4, neighbour discovery for IPv6.
  [[nodiscard]] Solicitor& agent_of(const wire::IpAddr& addr) {
    if (addr.is_v4()) return arp_;
    return nd_;
  }
  void on_rarp_address(const wire::IpPrefix& own, TimePoint now);
  [[nodiscard]] Status can_add(const wire::IpPrefix& address) const;
  void begin4(const wire::IpPrefix& own, TimePoint now);
  void end4(const wire::IpPrefix& own, TimePoint now);
  void review_neighbours(const wire::IpPrefix& changed, const std::vector<wire::IpPrefix>& before);
  [[nodiscard]] bool refuses(const wire::IpAddr& addr, HeldPacket packet);
  /// Addresses of this node in the family of `addr`.
  [[nodiscard]] const std::vector<wire::IpPrefix>& own_addresses(
      const wire::IpAddr& addr) const override {
    return addr.is_v4() ? addresses_ : nd_.prefixes();
  }

  const IpConfig& config_;
  Medium& medium_;
  NeighbourSink& sink_;
  AddressSink& receiver_;
  SharedAddresses* shared_ = nullptr;  ///< Null: it shares none.
  std::vector<wire::IpPrefix> addresses_;
  bool started_ = false;        ///< IPv4 addresses were reported as ready.
  bool ready_ = false;          ///< The medium carries packets.
  bool groups_joined_ = false;  ///< The groups of IPv4 are joined.
  ArpAgent arp_;
  RarpAgent rarp_;
  OwnGroups groups_;
  NdAgent nd_;
  NeighbourCache neighbours_;
  std::set<wire::IpAddr> listened_;  ///< Hosts of other sides whose groups this one needs.
  SubnetProxy* proxy_ = nullptr;     ///< Null: its subnets are its own.
};

}  // namespace ipoib::link
