// SPDX-License-Identifier: BSD-3-Clause
// Nodes that share an address, and hosts that use it, in virtual time. The wire between them loses and
// delays messages, and can be cut into islands. The seed determines everything.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/link/ipoib/shared/rendezvous.h"
#include "lib/link/ipoib/shared/shared_group.h"
#include "tests/support/addresses.h"
#include "tests/support/sim_time.h"

namespace ipoib::link {

using test::ip;

inline constexpr std::uint32_t kMemberQpn = 0x48;

struct SharedSimHost {
  wire::LinkAddr hw;
  wire::IpAddr addr;
  std::uint32_t lid = 0;
  int island = 0;
  std::optional<std::uint64_t> server;  ///< GUID of the node that it sends to.
  std::uint64_t answers = 0;            ///< To its latest request.
  std::uint64_t informed = 0;           ///< Messages that it did not ask for.

  [[nodiscard]] std::uint64_t guid() const { return hw.gid.guid(); }
};

class SharedSim : public test::SimTime {
 public:
  class Node final : public SharedGroupActions {
   public:
    Node(SharedSim& sim, std::uint64_t guid, std::uint64_t seed)
        : sim_{sim}, gid_{wire::Gid::of(wire::kDefaultGidPrefix, guid)}, seed_{seed} {
      restart();
    }
    [[nodiscard]] wire::Gid gid() const override { return gid_; }
    [[nodiscard]] bool hears() const override { return hearing; }
    bool advertise(std::uint8_t priority, TimePoint now) override {
      sim_.advertise(*this, priority, now);
      return true;
    }
    void inform(const SharedHost& host, const wire::LinkAddr* server, TimePoint now) override {
      sim_.inform(*this, host, server, now);
    }
    [[nodiscard]] std::uint64_t guid() const { return gid_.guid(); }
    /// A new process starts.
    void restart() {
      group = std::make_unique<SharedGroup>(sim_.name, sim_.config, sim_.config.addresses, *this,
                                            ++seed_);
      alive = true;
      ++life;
      group->up(sim_.now);
    }
    void kill() { alive = false; }

    std::unique_ptr<SharedGroup> group;
    bool alive = true;
    bool hearing = true;
    bool deaf = false;  ///< Advertisements do not arrive.
    unsigned life = 0;  ///< Messages to an earlier process are lost.
    int island = 0;

   private:
    SharedSim& sim_;
    wire::Gid gid_;
    std::uint64_t seed_;
  };

  SharedSim(std::uint64_t seed, std::size_t n_nodes, std::size_t n_hosts)
      : SimTime{TimePoint{std::chrono::seconds(100)}, seed} {
    config.addresses = {ip("10.0.0.100")};
    config.vrid = 7;
    for (std::size_t i = 0; i < n_nodes; ++i)
      nodes.push_back(std::make_unique<Node>(*this, 0x0002'c903'000b'0001 + i, random()));
    for (std::size_t i = 0; i < n_hosts; ++i) {
      SharedSimHost host;
      host.hw = {0, wire::Be24{static_cast<std::uint32_t>(0x100 + i)},
                 wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'000a'0001 + i * 16)};
      host.addr = wire::IpAddr::v4(0x0a00'0200 + static_cast<std::uint32_t>(i));
      host.lid = static_cast<std::uint32_t>(0x100 + i);
      hosts.push_back(host);
    }
  }

  /// The host asks all nodes.
  void ask(std::size_t i) {
    hosts[i].answers = 0;
    for (auto& node : nodes)
      if (node->island == hosts[i].island)
        deliver(*node, [this, &node, i] {
          SharedSimHost& host = hosts[i];
          if (node->group->answers(config.addresses[0], host.addr, host.hw, host.lid, now) &&
              !chance(loss)) {
            ++host.answers;
            host.server = node->guid();
          }
        });
  }
  void ask_all() {
    for (std::size_t i = 0; i < hosts.size(); ++i) ask(i);
  }
  /// The subnet manager reports that the node's port is out of service.
  void report(const Node& gone) {
    for (auto& node : nodes)
      if (node.get() != &gone)
        deliver(*node,
                [&node, gid = gone.gid(), this] { node->group->on_out_of_service(gid, now); });
  }
  void run_for(Duration d) {
    const auto next = [this] {
      std::optional<TimePoint> first;
      for (const auto& node : nodes)
        if (node->alive) first = earlier(first, node->group->next_deadline());
      return first;
    };
    const auto tick = [this] {
      for (const auto& node : nodes)
        if (node->alive) node->group->tick(now);
    };
    tick();
    run_to(now + d, next, tick);
    advance(now);
    tick();
  }
  /// Until all nodes that run are members and know each other.
  void settle() { run_for(Duration{std::chrono::seconds(12)}); }

  [[nodiscard]] std::vector<std::uint64_t> alive() const {
    std::vector<std::uint64_t> guids;
    for (const auto& node : nodes)
      if (node->alive) guids.push_back(node->guid());
    return guids;
  }
  [[nodiscard]] std::optional<std::uint64_t> winner(const SharedSimHost& host) const {
    return rendezvous_winner(host.guid(), alive());
  }
  [[nodiscard]] std::uint64_t informed() const {
    std::uint64_t n = 0;
    for (const auto& host : hosts) n += host.informed;
    return n;
  }
  void forget_informed() {
    for (auto& host : hosts) host.informed = 0;
  }

  const std::string name = "ib0";
  SharedConfig config;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<SharedSimHost> hosts;
  double loss = 0;
  std::uint64_t adverts = 0;
  TimePoint first_informed{}, last_informed{};

 private:
  template <class What>
  void deliver(Node& node, What what) {
    if (!node.alive || chance(loss)) return;
    at(now + std::chrono::microseconds(5 + pick(200)), [&node, life = node.life, what] {
      if (node.alive && node.life == life) what();
    });
  }
  void advertise(const Node& from, std::uint8_t priority, TimePoint) {
    ++adverts;
    const wire::VrrpAdvertisement a{
        ip("10.0.0.1"), config.vrid, priority,
        static_cast<std::uint16_t>(config.interval / std::chrono::milliseconds(10)),
        config.addresses};
    for (auto& node : nodes)
      if (node.get() != &from && node->island == from.island && !node->deaf)
        deliver(*node, [this, &node, a, gid = from.gid()] {
          node->group->on_advertisement(a, gid, kMemberQpn, now);
        });
  }
  void inform(const Node& from, const SharedHost& to, const wire::LinkAddr* server,
              TimePoint when) {
    if (last_informed == TimePoint{}) first_informed = when;
    last_informed = when;
    for (auto& host : hosts) {
      if (host.hw.gid != to.key.port || host.island != from.island || chance(loss)) continue;
      EXPECT_TRUE(server == nullptr || server->qpn.host() == kMemberQpn);
      host.server = server != nullptr ? server->gid.guid() : from.guid();
      ++host.informed;
    }
  }
};

}  // namespace ipoib::link
