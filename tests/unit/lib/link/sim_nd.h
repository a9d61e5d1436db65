// SPDX-License-Identifier: BSD-3-Clause
// Agents of neighbour discovery on one wire, in virtual time. Members of a group receive its
// packets; the wire loses, delays and reflects packets as its seed determines.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "lib/link/ip/nd_agent.h"
#include "tests/support/link_fakes.h"
#include "tests/support/sim_time.h"

namespace ipoib::link {

inline wire::HwAddr nd_hw(wire::LinkKind kind, unsigned n) {
  if (kind == wire::LinkKind::kInfiniband)
    return wire::LinkAddr{0, wire::Be24{0x40 + n},
                          wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'0000'0000 + n)};
  if (kind == wire::LinkKind::kIbarp)
    return wire::IbarpAddr{wire::Be64{0x0002'c903'0000'0000U + n}, 0, wire::Be24{0x40 + n},
                           wire::Be32{0x1000 + n},
                           wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'0000'0000 + n)};
  return wire::MacAddr{std::byte{2}, {}, {}, {}, {}, std::byte(n)};
}

class SimNd;

class SimNdHost final : private Medium, private FakeNeighbourPaths {
  SimNd& sim_;
  unsigned n_;  ///< Seed of the following members.

 public:
  SimNdHost(SimNd& sim, unsigned n, const Ip6Config& config, std::vector<wire::IpPrefix> prefixes);

  void up(std::uint16_t mtu = 2044);
  void down();
  HeldPacket want(const wire::IpAddr& addr);
  /// Records that a packet was just sent through the entry.
  void use(const wire::IpAddr& addr);
  void receive(const wire::NdMessage& m);
  [[nodiscard]] wire::IpAddr local() const { return wire::link_local(n_); }
  [[nodiscard]] NeighbourPhase phase(const wire::IpAddr& addr) const;
  [[nodiscard]] bool is_ready(const wire::IpAddr& addr) const {
    for (const auto& row : agent.list())
      if (row.address.addr == addr) return row.state == AddressState::kReady;
    return false;
  }

  wire::HwAddr hw;
  std::optional<wire::HwAddr> told;  ///< Address in messages to single peers; empty: `hw`.
  bool plugged = true;               ///< If false, it receives nothing.
  Ip6Config ip6;
  std::vector<wire::IpPrefix> configured;
  std::string name = "if0";
  std::map<wire::IpAddr, unsigned> joined;
  FakeNeighbourSink sink;
  FakeAddressSink addresses;
  OwnGroups groups{*this};
  NdAgent agent{{name, 1, ip6, groups, addresses}, *this, cache, n_};
  NeighbourCache cache{NeighbourConfig{}, 1, sink, agent, *this, n_};

 private:
  // Medium.
  [[nodiscard]] wire::HwAddr own_hw() const override { return hw; }
  [[nodiscard]] wire::HwAddr own_hw_for(const wire::HwAddr& /*peer*/) const override {
    return told.value_or(hw);
  }
  [[nodiscard]] bool has_several_addresses() const override { return told.has_value(); }
  [[nodiscard]] wire::HwAddr broadcast_hw() const override { return hw; }
  void broadcast(wire::EtherType, std::span<const std::byte>) override {
    ADD_FAILURE() << "neighbour discovery does not broadcast";
  }
  void send(const wire::HwAddr& to, wire::EtherType type, std::span<const std::byte> packet,
            TimePoint now) override;
  bool send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                     TimePoint now) override;
  Status join_group(const wire::IpAddr& group, TimePoint) override {
    ++joined[group];
    return {};
  }
  Status leave_group(const wire::IpAddr& group, TimePoint) override {
    EXPECT_GT(joined[group], 0U);
    if (--joined[group] == 0) joined.erase(group);
    return {};
  }
};

class SimNd : public test::SimTime {
 public:
  struct Sent {
    TimePoint at;
    const SimNdHost* by;
    bool group;
    wire::NdMessage message;
  };

  explicit SimNd(wire::LinkKind medium, std::uint64_t seed = 1, double lost = 0)
      : SimTime{TimePoint{std::chrono::seconds(100)}, seed}, kind{medium}, loss{lost} {}

  SimNdHost& add(std::vector<wire::IpPrefix> prefixes = {}, const Ip6Config& config = {}) {
    hosts.push_back(std::make_unique<SimNdHost>(*this, static_cast<unsigned>(hosts.size() + 1),
                                                config, std::move(prefixes)));
    return *hosts.back();
  }

  void run_for(Duration d) {
    const auto next_deadline = [this] {
      std::optional<TimePoint> next;
      for (const auto& h : hosts)
        next = earlier(next, earlier(h->agent.next_deadline(), h->cache.next_deadline()));
      return next;
    };
    run_to(now + d, next_deadline, [this] {
      for (const auto& h : hosts) {
        h->agent.tick(now);
        h->cache.tick(now);
      }
    });
  }

  void send(const SimNdHost& from, const wire::IpAddr* group, const wire::HwAddr* to,
            std::span<const std::byte> packet) {
    const auto m = wire::parse_nd(kind, packet);
    ASSERT_TRUE(m) << to_string(m.error());
    sent.push_back({now, &from, group != nullptr, *m});
    for (const auto& h : hosts) {
      if (group != nullptr && (h->joined.count(*group) == 0 || (h.get() == &from && !reflects)))
        continue;
      if (to != nullptr && !h->hw.same_interface(*to)) continue;
      if (chance(loss)) continue;
      const auto delay = std::chrono::microseconds(5 + pick(2000));
      at(now + delay, [h = h.get(), this, copy = std::vector(packet.begin(), packet.end())] {
        if (h->plugged) h->agent.on_nd(copy, now);
      });
    }
  }

  [[nodiscard]] std::size_t count(wire::Icmp6Type type, const SimNdHost* by = nullptr) const {
    return static_cast<std::size_t>(std::count_if(sent.begin(), sent.end(), [&](const Sent& s) {
      return s.message.type == type && (by == nullptr || s.by == by);
    }));
  }

  wire::LinkKind kind;
  double loss;
  bool reflects = false;  ///< Senders receive their own packets to groups.
  std::vector<std::unique_ptr<SimNdHost>> hosts;
  std::vector<Sent> sent;
};

inline SimNdHost::SimNdHost(SimNd& sim, unsigned n, const Ip6Config& config,
                            std::vector<wire::IpPrefix> prefixes)
    : sim_{sim}, n_{n}, hw{nd_hw(sim.kind, n)}, ip6{config}, configured{std::move(prefixes)} {}

inline void SimNdHost::up(std::uint16_t mtu) {
  agent.up(configured, n_, mtu, sim_.now);
}
inline void SimNdHost::down() {
  agent.down(sim_.now);
}
inline HeldPacket SimNdHost::want(const wire::IpAddr& addr) {
  const auto p = sink.new_packet();
  cache.request_neighbour(addr, p, sim_.now);
  return p;
}
inline void SimNdHost::use(const wire::IpAddr& addr) {
  sink.used[sink.index_of(addr).value()] = sim_.now;
}
inline void SimNdHost::receive(const wire::NdMessage& m) {
  agent.on_nd(wire::build_nd(m), sim_.now);
}
inline NeighbourPhase SimNdHost::phase(const wire::IpAddr& addr) const {
  const auto row = cache.info(addr, sim_.now);
  return row ? row->phase : NeighbourPhase::kFailed;
}
inline void SimNdHost::send(const wire::HwAddr& to, wire::EtherType type,
                            std::span<const std::byte> packet, TimePoint) {
  EXPECT_EQ(type, wire::EtherType::kIpv6);
  sim_.send(*this, nullptr, &to, packet);
}
inline bool SimNdHost::send_to_group(const wire::IpAddr& group, std::span<const std::byte> packet,
                                     TimePoint) {
  sim_.send(*this, &group, nullptr, packet);
  return true;
}

}  // namespace ipoib::link
