// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/rc_floods.h"

#include <memory>
#include <utility>

#include "lib/wire/rc.h"
#include "tests/flood/rc_hosts.h"

namespace ipoib::flood {
namespace {

constexpr std::uint32_t kFirstId = 0x2'0000;
constexpr std::uint8_t kMtu256 = 1;
/// 0.64 ms, the usual time.
constexpr std::uint8_t kRnrTimer = 12;
constexpr std::uint8_t kForEver = 7;

struct HalfMessages {
  static constexpr unsigned kConnections = 4096;
  static constexpr std::uint32_t kPackets = 250;  ///< In a message of at most 65,520 octets.

  FloodNode& node;
  RcConnections connections;
  const Bytes payload = Bytes(256);
  std::size_t at = 0;

  HalfMessages(FloodNode& of, SimHosts& hosts)
      : node{of}, connections{of, hosts, {.first_id = kFirstId, .mtu = kMtu256}} {
    for (unsigned i = 0; i < kConnections; ++i)
      connections.add(i % Participants::kEstablished, i / Participants::kEstablished);
    connections.settle();
  }
  void send() {
    connections.renew();
    auto& all = connections.all();
    RcConnections::Connection& c = all[at++ % all.size()];
    if (!c.stands || c.sent == kPackets) return;
    const auto opcode = c.sent == 0 ? wire::Opcode::kRcSendFirst : wire::Opcode::kRcSendMiddle;
    const Host host{Side::kCable, c.number};
    node.give(Side::kCable,
              rc_frame(host.port().lid, c.qpn, opcode, wire::psn_add(c.psn, c.sent++), payload));
  }
};

struct NeverReady {
  static constexpr unsigned kConnections = 256;

  FloodNode& node;
  SimHosts& hosts;
  RcConnections connections;
  std::size_t at = 0;

  NeverReady(FloodNode& of, SimHosts& with)
      : node{of},
        hosts{with},
        connections{of, with, {.first_id = kFirstId, .rnr_retry = kForEver}} {
    for (unsigned i = 0; i < kConnections; ++i) {
      const Host host = hosts.add_connected();
      hosts.ask_to_join(host);  // So that the administrator knows its port.
      connections.add(host.number, 0);
    }
    connections.settle();
    hosts.on_rc = [this, rest = std::move(hosts.on_rc)](const wire::IbaFrame& packet,
                                                        std::span<const std::byte> body) {
      on_rc(packet);
      rest(packet, body);
    };
  }
  void on_rc(const wire::IbaFrame& packet) {
    const RcConnections::Connection* const c = connections.find(packet);
    if (c == nullptr || packet.bth.psn.host() != c->expected) return;
    const Host host{Side::kCable, c->number};
    constexpr std::uint8_t kSyndrome = wire::Aeth::kRnrNak | kRnrTimer;
    node.give(Side::kCable, rc_answer(host.port().lid, c->qpn, kSyndrome, c->expected));
  }
  void send() {
    connections.renew();
    auto& all = connections.all();
    const Host to{Side::kCable, all[at++ % all.size()].number};
    const Host from{Side::kEthernet, to.number % Participants::kEstablished};
    hosts.send(from, marked(from.ip(), to.ip(), 0x726e72, to.number, 0, 1000));
  }
};

template <class T>
Flood flood_of(FloodNode& node, SimHosts& hosts) {
  return [flood = std::make_shared<T>(node, hosts)] { flood->send(); };
}

}  // namespace

Flood half_messages(FloodNode& node, SimHosts& hosts) {
  return flood_of<HalfMessages>(node, hosts);
}
Flood never_ready(FloodNode& node, SimHosts& hosts) {
  return flood_of<NeverReady>(node, hosts);
}

}  // namespace ipoib::flood
