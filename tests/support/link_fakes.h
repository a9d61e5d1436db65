// SPDX-License-Identifier: BSD-3-Clause
// The surroundings of an interface in tests. Each fake checks the obligations of its user: packets
// are returned exactly once, a handle that an installed neighbour uses is not destroyed, and
// nothing is left at the end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/link/ethernet_port.h"
#include "lib/link/interface.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/wire/arp.h"
#include "tests/support/addresses.h"

namespace ipoib::link {

/// The neighbour tables of one node, and its held packets.
class FakeNeighbourSink final : public NeighbourSink {
 public:
  explicit FakeNeighbourSink(std::size_t capacity = 1U << 20) : capacity_{capacity} {}

  Result<table::NeighbourIndex> allocate_index() override {
    if (indexes.size() >= capacity_) return fail(Errc::kNoResources, "tables full");
    while (indexes.count(next_) != 0) ++next_;
    indexes.insert(next_);
    return next_++;
  }
  void remove(table::NeighbourIndex index) override {
    EXPECT_EQ(indexes.erase(index), 1U) << "removed twice: " << index;
    if (const auto it = installed.find(index); it != installed.end()) {
      by_addr_.erase(it->second.addr);
      installed.erase(it);
    }
    used.erase(index);
  }
  void install(table::NeighbourIndex index, const table::Neighbour& n) override {
    EXPECT_EQ(indexes.count(index), 1U);
    if (n.state == table::NeighbourState::kValid && n.mode == table::NeighbourMode::kUd) {
      EXPECT_NE(n.ah, fabric::kNoAh);
      EXPECT_NE(n.mtu, 0);
    }
    installed[index] = n;
    by_addr_[n.addr] = index;
    ++installs;
  }
  [[nodiscard]] TimePoint last_used(table::NeighbourIndex index) const override {
    const auto it = used.find(index);
    return it == used.end() ? TimePoint{} : it->second;
  }
  void release(HeldPacket packet) override {
    settle(packet);
    released.push_back(packet);
    if (on_release) on_release(packet);
  }
  [[nodiscard]] wire::IpAddr source_of(HeldPacket packet) const override {
    const auto it = sources.find(packet);
    return it == sources.end() ? wire::IpAddr{} : it->second;
  }
  /// Without another entry, each address is at a link-layer address of its own.
  [[nodiscard]] PacketSender sender_of(HeldPacket packet) const override {
    const auto it = senders.find(packet);
    if (it != senders.end()) return it->second;
    const wire::IpAddr source = source_of(packet);
    return {source, source.is_v4() ? source.v4_host() : 0, false};
  }
  [[nodiscard]] Crowded crowded(HeldPacket packet) const override {
    if (greedy.count(source_of(packet)) != 0) return Crowded::kBySender;
    return open.size() > room ? Crowded::kByAll : Crowded::kNo;
  }
  void drop(HeldPacket packet, Drop reason, bool unreachable) override {
    settle(packet);
    ++drops[reason];
    if (unreachable) ++unreachables;
    dropped.emplace_back(packet, reason);
  }

  /// Returns a new packet, to be handed to the interface.
  HeldPacket new_packet() {
    const HeldPacket p = ++packets_;
    open.insert(p);
    return p;
  }
  [[nodiscard]] std::optional<table::NeighbourIndex> index_of(const wire::IpAddr& addr) const {
    const auto it = by_addr_.find(addr);
    if (it == by_addr_.end()) return std::nullopt;
    return it->second;
  }
  /// Returns the installed entry for the address, or null if there is none.
  [[nodiscard]] const table::Neighbour* find(const wire::IpAddr& addr) const {
    const auto index = index_of(addr);
    return index ? &installed.at(*index) : nullptr;
  }
  [[nodiscard]] bool valid(const wire::IpAddr& addr) const {
    const auto* n = find(addr);
    return n != nullptr && n->state == table::NeighbourState::kValid;
  }
  [[nodiscard]] static bool has_path(const table::Neighbour& n, fabric::AhIndex ah) {
    for (unsigned i = 0; n.mode == table::NeighbourMode::kUdPaths && i < n.kMaxPaths; ++i)
      if (n.handle_of(i) == ah) return true;
    return false;
  }
  [[nodiscard]] bool ah_in_use(fabric::AhIndex ah) const {
    for (const auto& [index, n] : installed)
      if (n.state == table::NeighbourState::kValid && (n.ah == ah || has_path(n, ah))) return true;
    return false;
  }

  std::set<table::NeighbourIndex> indexes;
  std::map<table::NeighbourIndex, table::Neighbour> installed;
  std::map<table::NeighbourIndex, TimePoint> used;
  std::map<HeldPacket, wire::IpAddr> sources;  ///< Empty addresses otherwise.
  std::map<HeldPacket, PacketSender> senders;
  std::set<wire::IpAddr> greedy;  ///< Senders that have more than their share.
  std::set<HeldPacket> open;      ///< Handed over and not returned.
  std::size_t room = SIZE_MAX;    ///< Most packets that may wait in the node.
  std::vector<HeldPacket> released;
  std::vector<std::pair<HeldPacket, Drop>> dropped;
  std::map<Drop, std::size_t> drops;
  std::size_t unreachables = 0;
  std::size_t installs = 0;
  std::function<void(HeldPacket)> on_release;

 private:
  void settle(HeldPacket packet) {
    EXPECT_EQ(open.erase(packet), 1U) << "given back twice: " << packet;
  }
  std::size_t capacity_;
  table::NeighbourIndex next_ = 0;
  HeldPacket packets_ = 0;
  std::map<wire::IpAddr, table::NeighbourIndex> by_addr_;  ///< Addresses of one interface.
};

/// Records the reports of a node's interfaces about their addresses.
class FakeAddressSink final : public AddressSink {
 public:
  void listen(table::InterfaceId iface, const wire::IpAddr& addr) override {
    EXPECT_TRUE(listening.emplace(iface, addr).second)
        << "listens twice: " << wire::to_string(addr);
  }
  void unlisten(table::InterfaceId iface, const wire::IpAddr& addr) override {
    EXPECT_EQ(listening.erase({iface, addr}), 1U) << "left twice: " << wire::to_string(addr);
  }
  Status address_assigned(table::InterfaceId iface, const wire::IpPrefix& address) override {
    if (refuse) return fail(Errc::kExists, "refused by the test");
    EXPECT_TRUE(assigned.emplace(iface, address).second)
        << "assigned twice: " << wire::to_string(address);
    return {};
  }
  void address_released(table::InterfaceId iface, const wire::IpPrefix& address) override {
    EXPECT_FALSE(ready.contains({iface, address})) << "in use: " << wire::to_string(address);
    released.emplace(iface, address);
    assigned.erase({iface, address});
  }
  void address_ready(table::InterfaceId iface, const wire::IpPrefix& address) override {
    EXPECT_TRUE(ready.emplace(iface, address).second)
        << "ready twice: " << wire::to_string(address);
  }
  void address_removed(table::InterfaceId iface, const wire::IpPrefix& address) override {
    EXPECT_EQ(ready.erase({iface, address}), 1U) << "gone twice: " << wire::to_string(address);
  }
  void address_duplicate(table::InterfaceId iface, const wire::IpPrefix& address) override {
    EXPECT_FALSE(ready.contains({iface, address})) << wire::to_string(address);
    duplicates.emplace(iface, address);
  }
  void redirect(table::InterfaceId iface, const wire::IpAddr& to,
                const wire::IpAddr& via) override {
    redirects.push_back({iface, to, via});
  }
  void neighbour_failed(table::InterfaceId iface, const wire::IpAddr& addr) override {
    failed.emplace(iface, addr);
  }
  bool host_located(table::InterfaceId iface, const wire::IpAddr& addr) override {
    hosts[addr] = iface;
    return hosts.size() <= max_hosts;
  }
  void host_lost(table::InterfaceId iface, const wire::IpAddr& addr) override {
    const auto it = hosts.find(addr);
    ASSERT_NE(it, hosts.end()) << "lost twice: " << wire::to_string(addr);
    EXPECT_EQ(it->second, iface);
    hosts.erase(it);
  }

  void default_router(table::InterfaceId, const wire::IpAddr& router, bool usable) override {
    if (usable)
      EXPECT_TRUE(routers.insert(router).second) << "found twice: " << wire::to_string(router);
    else
      EXPECT_EQ(routers.erase(router), 1U) << "lost twice: " << wire::to_string(router);
  }

  struct Redirect {
    table::InterfaceId iface;
    wire::IpAddr to;
    wire::IpAddr via;
    bool operator==(const Redirect&) const = default;
  };
  std::set<std::pair<table::InterfaceId, wire::IpAddr>> listening;
  bool refuse = false;                                               ///< No address is assigned.
  std::set<std::pair<table::InterfaceId, wire::IpPrefix>> assigned;  ///< At run time.
  std::set<std::pair<table::InterfaceId, wire::IpPrefix>> released;
  std::set<std::pair<table::InterfaceId, wire::IpPrefix>> ready;
  std::set<std::pair<table::InterfaceId, wire::IpPrefix>> duplicates;
  std::vector<Redirect> redirects;
  std::set<std::pair<table::InterfaceId, wire::IpAddr>> failed;
  std::set<wire::IpAddr> routers;
  std::size_t max_hosts = SIZE_MAX;
  std::map<wire::IpAddr, table::InterfaceId> hosts;  ///< Hosts of shared subnets.
};

struct SentFrame {
  fabric::AhAttr to;
  std::uint32_t qpn;
  std::vector<std::byte> bytes;

  [[nodiscard]] std::optional<wire::Arp> arp() const {
    return wire::parse_arp(wire::LinkKind::kInfiniband, std::span{bytes}.subspan(4));
  }
  [[nodiscard]] bool broadcast() const { return qpn == wire::kMulticastQpn; }
};

class FakeLinkActions final : public LinkActions {
 public:
  explicit FakeLinkActions(const FakeNeighbourSink& sink) : sink_{sink} {}

  [[nodiscard]] const fabric::PortAttr& port() const override { return attr; }
  [[nodiscard]] unsigned queue_pairs() const override { return own_queue_pairs; }
  [[nodiscard]] std::uint32_t qpn(unsigned queue_pair) const override {
    return queue_pair < made_queue_pairs ? own_qpn + queue_pair : 0;
  }
  [[nodiscard]] bool has_qpn(std::uint32_t number) const {
    return number - own_qpn < own_queue_pairs;
  }
  Status set_qkey(std::uint32_t key) override {
    qkey = key;
    return {};
  }
  Status attach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) override {
    EXPECT_NE(qpn(queue_pair), 0U) << "attached to a queue pair without hardware";
    for (const auto& [group, at] : attached)
      EXPECT_FALSE(group.first == mgid && at == queue_pair) << "the device knows only the MGID";
    if (nb_attached == max_attached) return fail(Errc::kNoResources, "no room for groups");
    ++nb_attached;
    const auto [at, first] = attached.emplace(std::pair{mgid, mlid}, queue_pair);
    if (first) return {};
    EXPECT_NE(at->second, queue_pair) << "attached twice";
    EXPECT_TRUE(moving.emplace(at->first, std::exchange(at->second, queue_pair)).second);
    return {};
  }
  void detach(unsigned queue_pair, const wire::Gid& mgid, std::uint16_t mlid) override {
    --nb_attached;
    auto& former = moving.contains({mgid, mlid}) ? moving : attached;
    const auto found = former.find({mgid, mlid});
    ASSERT_NE(found, former.end()) << "detached twice";
    EXPECT_EQ(found->second, queue_pair);
    former.erase(found);
  }
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& ah) override {
    EXPECT_TRUE(wire::is_unicast_lid(ah.dlid) || (wire::is_multicast_lid(ah.dlid) && ah.global))
        << "an address handle to LID " << ah.dlid;
    if (ahs.size() >= max_ahs) return fail(Errc::kNoResources, "no room for address handles");
    ahs.emplace(next_ah_, ah);
    return next_ah_++;
  }
  void destroy_ah(fabric::AhIndex ah) override {
    EXPECT_FALSE(sink_.ah_in_use(ah)) << "destroyed while a neighbour uses it: " << ah;
    EXPECT_EQ(ahs.erase(ah), 1U) << "destroyed twice: " << ah;
  }
  void send(fabric::AhIndex ah, std::uint32_t to_qpn, std::span<const std::byte> frame) override {
    const auto it = ahs.find(ah);
    ASSERT_NE(it, ahs.end()) << "sent through unknown handle " << ah;
    SentFrame sent{it->second, to_qpn, {frame.begin(), frame.end()}};
    if (on_send)
      on_send(sent);
    else
      frames.push_back(std::move(sent));
  }
  void state_changed(State state) override { states.push_back(state); }
  [[nodiscard]] PortUser port_user() const override { return other_user; }

  PortUser other_user = PortUser::kNone;
  fabric::PortAttr attr;
  std::uint32_t own_qpn = 0x48;  ///< The first; the others follow.
  unsigned own_queue_pairs = 1;
  unsigned made_queue_pairs = ~0U;  ///< The others have no hardware.
  std::uint32_t qkey = 0;
  std::size_t max_ahs = 1U << 20;
  /// MGID and MLID -> number of the queue pair.
  std::map<std::pair<wire::Gid, std::uint16_t>, unsigned> attached;
  /// Groups that are attached to a second queue pair too: the former one, which must be detached.
  std::map<std::pair<wire::Gid, std::uint16_t>, unsigned> moving;
  std::size_t nb_attached = 0;
  std::size_t max_attached = SIZE_MAX;
  std::map<fabric::AhIndex, fabric::AhAttr> ahs;
  std::vector<SentFrame> frames;
  std::vector<State> states;
  std::function<void(const SentFrame&)> on_send;

 private:
  const FakeNeighbourSink& sink_;
  fabric::AhIndex next_ah_ = 0;
};

class FakePortActions final : public PortActions {
 public:
  [[nodiscard]] wire::MacAddr mac() const override { return own_mac; }
  void send(std::span<const std::byte> frame) override {
    frames.emplace_back(frame.begin(), frame.end());
  }
  void join(const wire::MacAddr& group) override { joined.insert(group); }
  void leave(const wire::MacAddr& group) override {
    const auto it = joined.find(group);
    ASSERT_NE(it, joined.end());
    joined.erase(it);
  }
  void state_changed(State state) override { states.push_back(state); }

  [[nodiscard]] std::optional<wire::Arp> arp(std::size_t i) const {
    return wire::parse_arp(wire::LinkKind::kEthernet, std::span{frames.at(i)}.subspan(14));
  }
  [[nodiscard]] wire::MacAddr destination(std::size_t i) const {
    return *wire::read<wire::MacAddr>(frames.at(i));
  }

  wire::MacAddr own_mac{std::byte{2}, std::byte{0}, std::byte{0},
                        std::byte{0}, std::byte{0}, std::byte{1}};
  std::vector<std::vector<std::byte>> frames;
  std::vector<State> states;
  std::multiset<wire::MacAddr> joined;
};

/// Paths that are always ready, as those of an Ethernet port.
class FakeNeighbourPaths : public NeighbourPaths {
 protected:
  PathState acquire(const wire::IpAddr&, const wire::HwAddr&, TimePoint) override {
    return PathState::kReady;
  }
  void release(const wire::IpAddr&, const wire::HwAddr&) override {}
  void refresh(const wire::HwAddr&, TimePoint) override {}
  [[nodiscard]] PathState state(const wire::HwAddr&) const override { return PathState::kReady; }
  [[nodiscard]] table::NeighbourMode mode() const override {
    return table::NeighbourMode::kEthernet;
  }
  void describe(const wire::HwAddr&, table::Neighbour& out) const override { out.mtu = 2044; }
  void describe(const wire::HwAddr&, NeighbourInfo&) const override {}
};

using ipoib::test::ip;
using ipoib::test::prefix;

}  // namespace ipoib::link
