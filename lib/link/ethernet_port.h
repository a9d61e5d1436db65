// SPDX-License-Identifier: BSD-3-Clause
// One Ethernet port as an IP interface: ARP, RARP, neighbour discovery, groups and neighbours.
// Source: RFC 826, RFC 894, RFC 903, RFC 1112 §6.4, RFC 2464, RFC 4861.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/link/arp_agent.h"
#include "lib/link/interface.h"
#include "lib/link/nd_agent.h"
#include "lib/link/neighbour_cache.h"
#include "lib/link/own_groups.h"
#include "lib/link/rarp_agent.h"

namespace ipoib::link {

/// The device functions that an Ethernet port uses.
class PortActions {
 public:
  virtual ~PortActions() = default;
  [[nodiscard]] virtual wire::MacAddr mac() const = 0;
  /// Sends octets that start at the Ethernet header. Losing them is allowed, as on any wire.
  virtual void send(std::span<const std::byte> frame) = 0;
  /// join() starts reception of frames to the group's address, leave() ends it. Each join has its
  /// leave.
  virtual void join(const wire::MacAddr& group) = 0;
  virtual void leave(const wire::MacAddr& group) = 0;
  virtual void state_changed(State state) = 0;
};

struct EthernetPortConfig {
  std::string name;
  table::InterfaceId id = 0;
  std::vector<wire::IpPrefix> addresses;
  std::uint16_t mtu = 1500;
  NeighbourConfig neighbour;
  Ip6Config ip6;
  RarpConfig<wire::MacAddr> rarp;
};

/// Up once it is started and has a carrier. References given to the constructor must outlive the
/// port. stop() must be called before its end, or held packets leak.
class EthernetPort final : public Interface,
                           private ArpTransport<wire::MacAddr>,
                           private NdTransport<wire::MacAddr>,
                           private NeighbourPaths<wire::MacAddr> {
 public:
  EthernetPort(EthernetPortConfig config, PortActions& actions, NeighbourSink& sink,
               std::uint64_t seed, AddressSink& receiver = no_address_sink());

  [[nodiscard]] const std::string& name() const override { return config_.name; }
  [[nodiscard]] table::InterfaceId id() const override { return config_.id; }
  [[nodiscard]] State state() const override { return state_; }
  [[nodiscard]] std::string reason() const override;
  [[nodiscard]] std::uint16_t mtu() const override { return config_.mtu; }
  [[nodiscard]] const std::vector<wire::IpPrefix>& addresses() const override {
    return config_.addresses;
  }
  [[nodiscard]] std::vector<AddressInfo> addresses6() const override { return nd_.list(); }
  [[nodiscard]] std::uint16_t mtu6() const override { return nd_.mtu(); }
  [[nodiscard]] const std::string& reason6() const override { return nd_.reason(); }

  Status set_mtu(std::uint16_t mtu, TimePoint now) override;

  void start(TimePoint now) override;
  /// Withdraws everything at once, including static entries; gateways stay until forgotten, but
  /// lose their data.
  void stop(TimePoint now) override;
  /// A port is assumed to have a carrier until this reports otherwise.
  void set_carrier(bool carrier, TimePoint now);

  void on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) override;
  Result<table::NeighbourIndex> use_gateway(const wire::IpAddr& addr, TimePoint now) override;
  void forget_gateway(const wire::IpAddr& addr) override { cache_.forget_gateway(addr); }
  [[nodiscard]] bool has_failed(const wire::IpAddr& addr) const override {
    return cache_.has_failed(addr);
  }
  void on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
              TimePoint now) override;
  void on_nd(std::span<const std::byte> packet, TimePoint now) override;
  void send_redirect(std::span<const std::byte> packet, const wire::IpAddr& next_hop,
                     TimePoint now) override {
    nd_.send_redirect(packet, next_hop, now);
  }

  Status join_group(const wire::IpAddr& group, TimePoint now) override;
  Status leave_group(const wire::IpAddr& group, TimePoint now) override;
  [[nodiscard]] std::vector<GroupInfo> groups(TimePoint now) const override;

  void tick(TimePoint now) override;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const override;

  [[nodiscard]] std::vector<wire::IpAddr> neighbour_addresses() const override {
    return cache_.addresses();
  }
  [[nodiscard]] std::optional<NeighbourInfo> neighbour(const wire::IpAddr& addr,
                                                       TimePoint now) const override {
    return cache_.info(addr, now);
  }
  [[nodiscard]] NeighbourPhases neighbour_phases() const override { return cache_.phases(); }
  /// `lid` and `sl` have no meaning here.
  Status add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                    std::uint8_t sl, TimePoint now) override;
  Status remove_neighbour(const wire::IpAddr& addr) override { return cache_.remove(addr); }
  void flush(TimePoint) override { cache_.flush(); }

  [[nodiscard]] PortCounters counters() const {
    return {arp_.counters(), nd_.counters(), rarp_.counters(), cache_.counters()};
  }

 private:
  // ArpTransport and NdTransport.
  [[nodiscard]] wire::MacAddr own_hw() const override { return actions_.mac(); }
  void broadcast_arp(std::span<const std::byte> arp) override;
  void unicast_arp(const wire::MacAddr& to, std::span<const std::byte> arp, TimePoint now) override;
  bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                     TimePoint now) override;
  void send_to(const wire::MacAddr& to, std::span<const std::byte> packet, TimePoint now) override;
  // NeighbourPaths: on Ethernet, sending needs the address only.
  PathState acquire(const wire::IpAddr&, const wire::MacAddr&, TimePoint) override {
    return PathState::kReady;
  }
  void release(const wire::IpAddr&, const wire::MacAddr&) override {}
  void refresh(const wire::MacAddr&, TimePoint) override {}
  [[nodiscard]] PathState state(const wire::MacAddr&) const override { return PathState::kReady; }
  [[nodiscard]] table::NeighbourMode mode() const override {
    return table::NeighbourMode::kEthernet;
  }
  void describe(const wire::MacAddr& hw, table::Neighbour& out) const override;
  void describe(const wire::MacAddr&, NeighbourInfo&) const override {}

  void set_state(State state);
  void on_up(TimePoint now);
  void start_ip6(TimePoint now);
  void on_rarp_address(const wire::IpPrefix& own, TimePoint now);
  /// Addresses of this node in the family of `addr`.
  [[nodiscard]] const std::vector<wire::IpPrefix>& own(const wire::IpAddr& addr) const {
    return addr.is_v4() ? config_.addresses : nd_.prefixes();
  }
  [[nodiscard]] Status can_be_neighbour(const wire::IpAddr& addr) const;

  EthernetPortConfig config_;
  PortActions& actions_;
  NeighbourSink& sink_;
  AddressSink& receiver_;
  std::map<wire::IpAddr, unsigned> joins_;  ///< Groups listened to, with the number of joins.
  State state_ = State::kDown;
  bool carrier_ = true;
  ArpAgent<wire::MacAddr> arp_;
  RarpAgent<wire::MacAddr> rarp_;
  OwnGroups own_groups_;
  NdAgent<wire::MacAddr> nd_;
  FamilySolicitor<wire::MacAddr> solicitor_;
  NeighbourCache<wire::MacAddr> cache_;
};

}  // namespace ipoib::link
