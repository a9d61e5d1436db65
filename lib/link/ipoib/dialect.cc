// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/dialect.h"

#include "lib/link/ipoib/group_table.h"

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
  [[nodiscard]] std::optional<wire::HwAddr> parse_address(std::string_view text) const override {
    return wire::parse_link_addr(text);
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

}  // namespace

std::unique_ptr<const Dialect> make_dialect(const LinkConfig&) {
  return std::make_unique<Rfc4391>();
}

wire::Encapsulation encapsulation_of(const LinkConfig& config) {
  return make_dialect(config)->encapsulation();
}

}  // namespace ipoib::link
