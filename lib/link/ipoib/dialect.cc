// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/dialect.h"

#include <algorithm>
#include <utility>

#include "lib/link/ipoib/broadcast_groups.h"
#include "lib/link/ipoib/group_table.h"
#include "lib/link/ipoib/sidr_broadcast.h"
#include "lib/wire/ibarp.h"

namespace ipoib::link {
namespace {

/// RFC 4391.
class Rfc4391 final : public Dialect {
 public:
  [[nodiscard]] wire::LinkFormat format() const override { return wire::LinkKind::kInfiniband; }
  [[nodiscard]] wire::Encapsulation encapsulation() const override {
    return wire::Encapsulation::kTypeFirst;
  }
  [[nodiscard]] wire::EtherType type_of(wire::EtherType kind) const override { return kind; }
  [[nodiscard]] wire::HwAddr address(const AddressParts& parts) const override {
    return wire::LinkAddr{parts.flags, wire::Be24{parts.qpn}, parts.gid};
  }

  /// Source: RFC 4391 §9.1.2.
  [[nodiscard]] std::optional<std::uint8_t> path_tclass(std::uint8_t of_group) const override {
    return of_group;
  }
  [[nodiscard]] std::uint16_t mtu(unsigned ib_mtu) const override {
    return static_cast<std::uint16_t>(ib_mtu - sizeof(wire::IpoibHdr));
  }
  [[nodiscard]] std::uint64_t interface_id(const fabric::PortAttr& port,
                                           wire::InterfaceIdRule rule) const override {
    return wire::interface_id(port.guid, rule, port.lid);
  }

  [[nodiscard]] std::unique_ptr<BroadcastFinder> make_finder(const LinkConfig&, LinkActions&,
                                                             cm::Manager*,
                                                             LinkCounters&) const override {
    return nullptr;
  }
  [[nodiscard]] std::unique_ptr<BroadcastServer> make_server(const LinkConfig&, cm::Manager*,
                                                             LinkCounters&) const override {
    return nullptr;
  }
  [[nodiscard]] std::unique_ptr<LinkGroups> make_groups(GroupSurroundings around) const override {
    return std::make_unique<GroupTable>(around.config, around.actions, around.sink, around.receiver,
                                        around.sa, around.counters, around.seed);
  }
};

/// The default MTU of the draft. A path of 2048 octets carries 2044 of IP behind the encapsulation
/// header, so the default is reached on paths of 4096 only; a node that sent 2048 on the others
/// would lose its packets. Source: draft-pelissier-ipoib-encaparp-00 §3.2.
constexpr unsigned kMaxMtu2001 = 2048;

/// draft-pelissier-ipoib-encaparp-00.
class Ibarp2001 final : public Dialect {
 public:
  explicit Ibarp2001(const IbarpConfig& config) : config_{config} {}

  [[nodiscard]] wire::LinkFormat format() const override {
    wire::LinkFormat format = wire::LinkKind::kIbarp;
    format.arp_hardware = config_.arp_hardware;
    format.gid_word_twice = config_.gid_word_twice;
    format.reply_keeps_order = config_.reply_keeps_order;
    return format;
  }
  [[nodiscard]] wire::Encapsulation encapsulation() const override {
    return wire::Encapsulation::kTypeLast;
  }
  [[nodiscard]] wire::EtherType type_of(wire::EtherType kind) const override {
    return kind == wire::EtherType::kArp ? static_cast<wire::EtherType>(config_.arp_type) : kind;
  }
  /// The EUI-64 is that of the GID at index 0, which is the only one that this program uses.
  [[nodiscard]] wire::HwAddr address(const AddressParts& parts) const override {
    return wire::IbarpAddr{.eui64 = wire::Be64{parts.gid.guid()},
                           .reserved = 0,
                           .qpn = wire::Be24{parts.qpn},
                           .qkey = wire::Be32{parts.qkey},
                           .gid = parts.gid};
  }

  /// The SA's choice. Source: draft-pelissier-ipoib-encaparp-00 §6.4.
  [[nodiscard]] std::optional<std::uint8_t> path_tclass(std::uint8_t) const override {
    return std::nullopt;
  }
  [[nodiscard]] std::uint16_t mtu(unsigned ib_mtu) const override {
    return static_cast<std::uint16_t>(
        std::min<unsigned>(kMaxMtu2001, ib_mtu - unsigned{sizeof(wire::IbarpHdr)}));
  }
  /// Source: draft-pelissier-ipoib-encaparp-00 §4.
  [[nodiscard]] std::uint64_t interface_id(const fabric::PortAttr& port,
                                           wire::InterfaceIdRule) const override {
    return wire::interface_id(port.guid, wire::InterfaceIdRule::kEui64);
  }

  /// A link that serves others takes the group from P_Key and scope, as RFC 4391 does.
  [[nodiscard]] std::unique_ptr<BroadcastFinder> make_finder(
      const LinkConfig& config, LinkActions& actions, cm::Manager* manager,
      LinkCounters& counters) const override {
    if (config_.server || manager == nullptr) return nullptr;
    return std::make_unique<SidrFinder>(config, actions, *manager, counters);
  }
  [[nodiscard]] std::unique_ptr<BroadcastServer> make_server(
      const LinkConfig& config, cm::Manager* manager, LinkCounters& counters) const override {
    if (!config_.server || manager == nullptr) return nullptr;
    return std::make_unique<SidrServer>(config, *manager, counters);
  }
  [[nodiscard]] std::unique_ptr<LinkGroups> make_groups(GroupSurroundings around) const override {
    return std::make_unique<BroadcastGroups>(std::move(around));
  }

 private:
  IbarpConfig config_;
};

}  // namespace

std::unique_ptr<const Dialect> make_dialect(const LinkConfig& config) {
  if (config.ibarp) return std::make_unique<Ibarp2001>(*config.ibarp);
  return std::make_unique<Rfc4391>();
}

wire::Encapsulation encapsulation_of(const LinkConfig& config) {
  return make_dialect(config)->encapsulation();
}

}  // namespace ipoib::link
