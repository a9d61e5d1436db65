// SPDX-License-Identifier: BSD-3-Clause
// The interfaces between the neighbour cache and the medium below it, so that InfiniBand and
// Ethernet share one state machine. `Hw` is the link-layer address: wire::LinkAddr or
// wire::MacAddr.
#pragma once

#include <cstddef>
#include <span>

#include "lib/base/clock.h"
#include "lib/link/interface.h"
#include "lib/table/neighbour.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {

/// Sends requests for the link-layer address of a neighbour.
template <class Hw>
class Solicitor {
 public:
  virtual ~Solicitor() = default;
  /// Sends a request to all hosts.
  virtual void request(const wire::IpAddr& addr, TimePoint now) = 0;
  /// Sends a request to the neighbour only, at its last known address.
  virtual void probe(const wire::IpAddr& addr, const Hw& hw, TimePoint now) = 0;
  /// The neighbour did not answer, or has no path: it is assumed to be gone.
  virtual void failed(const wire::IpAddr& addr, TimePoint now) {
    static_cast<void>(addr), static_cast<void>(now);
  }
};

/// ARP for IPv4, neighbour discovery for IPv6.
template <class Hw>
class FamilySolicitor final : public Solicitor<Hw> {
 public:
  FamilySolicitor(Solicitor<Hw>& v4, Solicitor<Hw>& v6) : v4_{v4}, v6_{v6} {}
  void request(const wire::IpAddr& addr, TimePoint now) override { of(addr).request(addr, now); }
  void probe(const wire::IpAddr& addr, const Hw& hw, TimePoint now) override {
    of(addr).probe(addr, hw, now);
  }
  void failed(const wire::IpAddr& addr, TimePoint now) override { of(addr).failed(addr, now); }

 private:
  Solicitor<Hw>& of(const wire::IpAddr& addr) { return addr.is_v4() ? v4_ : v6_; }
  Solicitor<Hw>& v4_;
  Solicitor<Hw>& v6_;
};

enum class PathState : std::uint8_t { kReady, kPending, kFailed };

/// The paths that sending needs in addition to the link-layer address. Users are neighbours, named
/// by their address. NeighbourCache::on_path reports the outcome to a user that got kPending, and
/// every later change.
template <class Hw>
class NeighbourPaths {
 public:
  virtual ~NeighbourPaths() = default;
  virtual PathState acquire(const wire::IpAddr& user, const Hw& hw, TimePoint now) = 0;
  /// `user` has the path, and its link-layer address is now another interface at the same port.
  virtual void moved(const wire::IpAddr& user, const Hw& from, const Hw& to, TimePoint now) {
    static_cast<void>(user), static_cast<void>(from), static_cast<void>(to), static_cast<void>(now);
  }
  /// Precondition: no installed entry of `user` uses the path any more.
  virtual void release(const wire::IpAddr& user, const Hw& hw) = 0;
  /// The path may have changed; the known values stay in use until the answer arrives.
  virtual void refresh(const Hw& hw, TimePoint now) = 0;
  [[nodiscard]] virtual PathState state(const Hw& hw) const = 0;
  [[nodiscard]] virtual table::NeighbourMode mode() const = 0;
  /// Fills in the values that sending needs (MTU and addresses). Precondition: the path is kReady.
  virtual void describe(const Hw& hw, table::Neighbour& out) const = 0;
  virtual void describe(const Hw& hw, NeighbourInfo& out) const = 0;
};

/// Sends ARP records. The medium prepends its headers.
template <class Hw>
class ArpTransport {
 public:
  virtual ~ArpTransport() = default;
  [[nodiscard]] virtual Hw own_hw() const = 0;
  virtual void broadcast_arp(std::span<const std::byte> arp) = 0;
  virtual void unicast_arp(const Hw& to, std::span<const std::byte> arp, TimePoint now) = 0;
};

/// Sends IPv6 packets of neighbour discovery, octets from the IPv6 header on. Losing them is
/// allowed, as on any wire.
template <class Hw>
class NdTransport {
 public:
  virtual ~NdTransport() = default;
  [[nodiscard]] virtual Hw own_hw() const = 0;
  /// Sends to a group. The medium resolves the group; the packet waits for that or is lost. Returns
  /// true if all members have been sent the packet by now.
  virtual bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                             TimePoint now) = 0;
  virtual void send_to(const Hw& to, std::span<const std::byte> packet, TimePoint now) = 0;
};

[[nodiscard]] inline bool same_interface(const wire::LinkAddr& a, const wire::LinkAddr& b) {
  return a.same_interface(b);
}
[[nodiscard]] inline bool same_interface(const wire::MacAddr& a, const wire::MacAddr& b) {
  return a == b;
}

/// True if both are reached over the same path.
[[nodiscard]] inline bool same_path(const wire::LinkAddr& a, const wire::LinkAddr& b) {
  return a.gid == b.gid;
}
[[nodiscard]] inline bool same_path(const wire::MacAddr&, const wire::MacAddr&) {
  return true;
}

/// True if a single interface can have this address. QPNs 0 and 1 are the management queue pairs.
[[nodiscard]] inline bool is_plausible(const wire::LinkAddr& a) {
  const auto qpn = a.qpn.host();
  return qpn > 1 && qpn != wire::kMulticastQpn && !a.gid.is_multicast() && !a.gid.is_zero();
}
[[nodiscard]] inline bool is_plausible(const wire::MacAddr& a) {
  return (a[0] & std::byte{1}) == std::byte{0} && a != wire::MacAddr{};
}

}  // namespace ipoib::link
