// SPDX-License-Identifier: BSD-3-Clause
// The dialect of an IPoIB link: all that RFC 4391 and the draft of 2001 before it do differently.
// It is chosen when the link is made; the link asks it and does not distinguish dialects itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/cm/manager.h"
#include "lib/link/ipoib/broadcast_finder.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/ipoib/link_groups.h"
#include "lib/wire/hw_addr.h"

namespace ipoib::link {

/// Parts of an interface's link-layer address. Each dialect has some of them.
struct AddressParts {
  std::uint8_t flags = 0;  ///< Connected mode that the interface offers.
  std::uint32_t qpn = 0;
  std::uint32_t qkey = 0;
  wire::Gid gid;
};

class Dialect {
 public:
  virtual ~Dialect() = default;

  // --- On the wire ---
  [[nodiscard]] virtual wire::LinkFormat format() const = 0;
  [[nodiscard]] virtual wire::Encapsulation encapsulation() const = 0;
  /// The Ethertype of packets of this kind.
  [[nodiscard]] virtual wire::EtherType type_of(wire::EtherType kind) const = 0;
  [[nodiscard]] virtual wire::HwAddr address(const AddressParts& parts) const = 0;

  // --- Parameters ---
  /// Traffic class that paths to hosts must have, given that of the broadcast group; empty: any.
  [[nodiscard]] virtual std::optional<std::uint8_t> path_tclass(std::uint8_t of_group) const = 0;
  /// Largest IP packet on a path of this InfiniBand MTU, octets.
  [[nodiscard]] virtual std::uint16_t mtu(unsigned ib_mtu) const = 0;
  [[nodiscard]] virtual std::uint64_t interface_id(const fabric::PortAttr& port,
                                                   wire::InterfaceIdRule rule) const = 0;

  // --- Groups ---
  /// Null: the MGID of the broadcast group follows from P_Key and scope.
  [[nodiscard]] virtual std::unique_ptr<BroadcastFinder> make_finder(
      const LinkConfig& config, LinkActions& actions, cm::Manager* manager,
      LinkCounters& counters) const = 0;
  /// Null: the link runs no server.
  [[nodiscard]] virtual std::unique_ptr<BroadcastServer> make_server(
      const LinkConfig& config, cm::Manager* manager, LinkCounters& counters) const = 0;
  [[nodiscard]] virtual std::unique_ptr<LinkGroups> make_groups(GroupSurroundings around) const = 0;
};

[[nodiscard]] std::unique_ptr<const Dialect> make_dialect(const LinkConfig& config);
/// The encapsulation of a link with this configuration, for the data plane.
[[nodiscard]] wire::Encapsulation encapsulation_of(const LinkConfig& config);

}  // namespace ipoib::link
