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

#include "lib/link/ethernet_paths.h"
#include "lib/link/interface.h"
#include "lib/link/ip/ip_stack.h"
#include "lib/link/medium.h"

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

struct EthernetPortConfig : IpConfig {
  std::uint16_t mtu = 1500;
};

/// Up once it is started and has a carrier. References given to the constructor must outlive the
/// port. stop() must be called before its end, or held packets leak.
class EthernetPort final : public Interface, private Medium {
 public:
  EthernetPort(EthernetPortConfig config, PortActions& actions, NeighbourSink& sink,
               std::uint64_t seed, AddressSink& receiver = no_address_sink());

  [[nodiscard]] State state() const override { return state_; }
  [[nodiscard]] std::string reason() const override;
  [[nodiscard]] std::uint16_t mtu() const override { return config_.mtu; }
  Status set_mtu(std::uint16_t mtu, TimePoint now) override;

  void start(TimePoint now) override;
  /// Withdraws everything at once, including static entries; gateways stay until forgotten, but
  /// lose their data.
  void stop(TimePoint now) override;
  /// A port is assumed to have a carrier until this reports otherwise.
  void set_carrier(bool carrier, TimePoint now);

  void on_neighbour_wanted(const wire::IpAddr& addr, HeldPacket packet, TimePoint now) override;
  void on_arp(std::span<const std::byte> arp, std::uint16_t slid, std::uint32_t src_qpn,
              TimePoint now) override;
  void on_nd(std::span<const std::byte> packet, std::uint16_t slid, TimePoint now) override;

  Status join_group(const wire::IpAddr& group, TimePoint now) override;
  Status leave_group(const wire::IpAddr& group, TimePoint now) override;
  [[nodiscard]] std::vector<GroupInfo> groups(TimePoint now) const override;

  void tick(TimePoint now) override { ip_.tick(now); }
  [[nodiscard]] std::optional<TimePoint> next_deadline() const override {
    return ip_.next_deadline();
  }

  /// `lid` and `sl` have no meaning here.
  Status add_static(const wire::IpAddr& addr, std::string_view lladdr, std::uint16_t lid,
                    std::uint8_t sl, TimePoint now) override;

  [[nodiscard]] IpCounters counters() const { return ip_.counters(); }

 private:
  // Medium.
  [[nodiscard]] wire::HwAddr own_hw() const override { return actions_.mac(); }
  [[nodiscard]] wire::HwAddr broadcast_hw() const override;
  void broadcast(wire::EtherType type, std::span<const std::byte> payload) override;
  void send(const wire::HwAddr& to, wire::EtherType type, std::span<const std::byte> payload,
            TimePoint now) override;
  bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                     TimePoint now) override;

  void set_state(State state);
  [[nodiscard]] std::uint64_t interface_id() const;

  EthernetPortConfig config_;
  EthernetPaths paths_{config_.mtu};
  PortActions& actions_;
  AddressSink& receiver_;
  std::map<wire::IpAddr, unsigned> joins_;  ///< Groups listened to, with the number of joins.
  State state_ = State::kDown;
  bool carrier_ = true;
  IpStack stack_;
};

}  // namespace ipoib::link
