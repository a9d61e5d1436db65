// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/shared/shared_gateway.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/wire/arp.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/ip_prefix.h"
#include "lib/wire/nd.h"
#include "lib/wire/vrrp.h"

namespace ipoib::link {
namespace {

std::vector<wire::IpAddr> of_family(const std::vector<wire::IpAddr>& addresses, bool v4) {
  std::vector<wire::IpAddr> of;
  std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(of),
               [v4](const wire::IpAddr& addr) { return addr.is_v4() == v4; });
  return of;
}

}  // namespace

std::vector<wire::IpPrefix> shared_prefixes(const SharedConfig& config) {
  std::vector<wire::IpPrefix> prefixes;
  std::transform(config.addresses.begin(), config.addresses.end(), std::back_inserter(prefixes),
                 wire::host_prefix);
  return prefixes;
}

/// The group of one IP family.
class SharedGateway::Family final : private SharedGroupActions {
 public:
  Family(const SharedSurroundings& around, bool v4)
      : around_{around},
        v4_{v4},
        group{around.name, around.config, of_family(around.config.addresses, v4), *this,
              around.seed ^ (v4 ? 4U : 6U)} {}

  void join(TimePoint now) {
    if (!std::exchange(joined_, true)) around_.ip.add_group(vrrp_group(), now);
  }
  /// The link has left all its groups.
  void forget_join() { joined_ = false; }

 private:
  [[nodiscard]] wire::IpAddr vrrp_group() const {
    return v4_ ? wire::vrrp_group4() : wire::vrrp_group6();
  }
  /// An own address that is not shared: IPv4 in the network of the shared one, IPv6 the link-local one
  /// (RFC 5798 §5.1.1.1, §5.1.2.1).
  [[nodiscard]] std::optional<wire::IpAddr> source() const {
    if (v4_) {
      for (const wire::IpPrefix& own : around_.ip.addresses())
        if (!wire::is_host(own) && wire::contains(own, group.addresses().front())) return own.addr;
      return std::nullopt;
    }
    for (const AddressInfo& own : around_.ip.nd().list())
      if (own.state == AddressState::kReady && wire::is_link_local6(own.address.addr))
        return own.address.addr;
    return std::nullopt;
  }

  // SharedGroupActions.
  [[nodiscard]] wire::Gid gid() const override {
    return around_.medium.own_hw().datagram_addr().gid;
  }
  [[nodiscard]] bool hears() const override {
    return around_.ip.ready() && source() && around_.listens(vrrp_group());
  }
  bool advertise(std::uint8_t priority, TimePoint now) override {
    const auto from = source();
    if (!from || !around_.ip.ready()) return false;
    const auto interval = around_.config.interval / std::chrono::milliseconds(10);
    around_.medium.send_to_group(
        vrrp_group(),
        wire::build_vrrp({*from, around_.config.vrid, priority,
                          static_cast<std::uint16_t>(interval), group.addresses()}),
        now);
    return true;
  }
  void inform(const SharedHost& host, const wire::LinkAddr* server, TimePoint now) override {
    Medium& medium = around_.medium;
    wire::HwAddr hw = medium.own_hw_for(host.hw);
    if (server != nullptr) {
      // The nodes of a group have equal settings: connected mode, which the flags tell, is the same.
      wire::LinkAddr other = *server;
      other.flags = hw.link_addr().flags;
      hw = wire::HwAddr{other};
    }
    if (v4_) {
      const wire::Arp reply{wire::ArpOp::kReply, hw, host.key.shared.v4_host(), host.hw,
                            host.key.addr.v4_host()};
      medium.send(host.hw, wire::EtherType::kArp, wire::build_arp(reply, medium.format()), now);
      return;
    }
    wire::NdMessage m;
    m.type = wire::Icmp6Type::kNeighbourAdvertisement;
    m.src = host.key.shared;
    m.dst = host.key.addr;
    m.target = host.key.shared;
    m.router = around_.router;
    m.override_it = true;
    m.target_hw = hw;
    medium.send(host.hw, wire::EtherType::kIpv6, wire::build_nd(m, medium.format()), now);
  }

  const SharedSurroundings& around_;
  bool v4_;
  bool joined_ = false;

 public:
  SharedGroup group;
};

SharedGateway::SharedGateway(SharedSurroundings around) : around_{std::move(around)} {
  for (const wire::IpAddr& addr : around_.config.addresses)
    if (auto& family = families_[addr.is_v4() ? 0 : 1]; !family)
      family = std::make_unique<Family>(around_, addr.is_v4());
  around_.ip.share(*this);
}

SharedGateway::~SharedGateway() = default;

void SharedGateway::up(TimePoint now) {
  for (const auto& family : families_) {
    if (!family) continue;
    family->join(now);
    family->group.up(now);
  }
}

void SharedGateway::down() {
  for (const auto& family : families_)
    if (family) family->group.down();
}

void SharedGateway::leave(TimePoint now) {
  for (const auto& family : families_) {
    if (!family) continue;
    family->group.leave(now);
    family->forget_join();
  }
}

void SharedGateway::set_serving(bool serving, TimePoint now) {
  for (const auto& family : families_)
    if (family) family->group.set_serving(serving, now);
}

bool SharedGateway::has(const wire::IpAddr& addr) const {
  const auto& all = around_.config.addresses;
  return std::find(all.begin(), all.end(), addr) != all.end();
}

bool SharedGateway::answers(const wire::IpAddr& shared, const wire::IpAddr& host,
                            const std::optional<wire::HwAddr>& hw, TimePoint now) {
  return family_of(shared)->group.answers(shared, host, hw, source_, now);
}

bool SharedGateway::claimed(const wire::IpAddr& shared, const std::optional<wire::HwAddr>& hw,
                            TimePoint now) {
  return family_of(shared)->group.claimed(hw, now);
}

void SharedGateway::announce(TimePoint now) {
  for (const auto& family : families_)
    if (family) family->group.announce(now);
}

bool SharedGateway::on_packet(std::span<const std::byte> packet, const wire::Gid& from,
                              std::uint32_t src_qpn, TimePoint now) {
  if (wire::vrrp_router_of(packet) != around_.config.vrid) return false;
  const bool v4 = std::to_integer<unsigned>(packet.front()) >> 4 == 4;
  const auto& family = families_[v4 ? 0 : 1];
  if (!family) return false;
  if (const auto advertisement = wire::parse_vrrp(packet))
    family->group.on_advertisement(*advertisement, from, src_qpn, now);
  else
    family->group.refuse(SharedRefusal::kMalformed);
  return true;
}

void SharedGateway::on_out_of_service(const wire::Gid& gid, TimePoint now) {
  for (const auto& family : families_)
    if (family) family->group.on_out_of_service(gid, now);
}

void SharedGateway::tick(TimePoint now) {
  for (const auto& family : families_)
    if (family) family->group.tick(now);
}

std::optional<TimePoint> SharedGateway::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& family : families_)
    if (family) next = earlier(next, family->group.next_deadline());
  return next;
}

std::vector<SharedGroupInfo> SharedGateway::info(TimePoint now) const {
  std::vector<SharedGroupInfo> rows;
  for (const auto& family : families_)
    if (family) rows.push_back(family->group.info(now));
  return rows;
}

}  // namespace ipoib::link
