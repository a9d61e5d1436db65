// SPDX-License-Identifier: BSD-3-Clause
// Neighbours of an Ethernet port under any sequence of ARP and neighbour discovery messages,
// packets to neighbours, commands and time. An established neighbour keeps its MAC unless a message
// that names it contradicts, and then changes it at most once a second. Static neighbours never
// change. The table is bounded. Packets wait for a bounded time, and all are returned.
// Input: one octet of options, then steps of one octet each with their arguments; see Step.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "lib/base/log_level.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/nd.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/link_fakes.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using test::Input;
using test::require;

constexpr std::size_t kMaxEntries = 8;
constexpr std::size_t kMaxHeld = 6;
constexpr std::size_t kMaxHeldByOne = 2;
constexpr Duration kMaxHeldAge = 3s;
/// Upper limit of the frames that one message or command causes.
constexpr std::size_t kMaxFrames = 64;
/// Upper limit of the timers that expire within one step of time, which is 33 seconds at most.
constexpr unsigned kMaxTurns = 10'000;

/// The low 4 bits of a step's octet.
enum class Step : unsigned {
  kArp,         ///< Operation, sender's MAC, sender, target.
  kArpOctets,   ///< An ARP record of the next octets unchanged: length.
  kSolicit,     ///< Neighbour solicitation: source, destination, target, MAC.
  kAdvertise,   ///< Neighbour advertisement: as for a solicitation.
  kRouter,      ///< Router solicitation or advertisement.
  kRedirect,    ///< Source, destination, target.
  kNdOctets,    ///< An ICMPv6 message with the next octets: source, destination, length.
  kWant,        ///< A packet for a neighbour.
  kUse,         ///< Packets leave to a neighbour that workers know.
  kTime,        ///< Time passes: power of two, ms.
  kStatic,      ///< A static neighbour: address, MAC.
  kRemove,      ///< An operator removes one, or all learned ones.
  kGateway,     ///< A route starts or stops using a neighbour as its gateway.
  kCarrier,     ///< The carrier is lost or returns.
  kRepeat,      ///< Repeats the last message.
  kRedirectBy,  ///< The node sends a redirect to a better hop.
};

const std::vector<wire::IpAddr>& addresses() {
  static const std::vector<wire::IpAddr> list = [] {
    std::vector<wire::IpAddr> out;
    for (const char* text : {"192.168.1.1",     "192.168.1.10",    "192.168.1.11", "192.168.1.12",
                             "192.168.1.13",    "192.168.1.14",    "192.168.1.15", "192.168.1.16",
                             "192.168.1.17",    "192.168.1.255",   "10.9.9.9",     "239.1.2.3",
                             "0.0.0.0",         "255.255.255.255", "127.0.0.1",    "fd00:1::1",
                             "fd00:1::10",      "fd00:1::11",      "fd00:1::12",   "fe80::10",
                             "fe80::11",        "fe80::ff:fe00:1", "ff02::1",      "ff02::2",
                             "ff02::1:ff00:10", "ff0e::1",         "::",           "2001:db8::1"})
      out.push_back(ip(text));
    return out;
  }();
  return list;
}

/// A zero address, the broadcast address, a group address, or one of a few hosts.
wire::MacAddr mac(unsigned n) {
  wire::MacAddr out{};
  n %= 16;
  if (n == 1) out.fill(std::byte{0xff});
  if (n == 2) out[0] = std::byte{1};
  if (n > 2) {
    out[0] = std::byte{2};
    out[5] = static_cast<std::byte>(n - 2);
  }
  return out;
}

EthernetPortConfig config(unsigned options) {
  EthernetPortConfig c;
  c.name = "eth0";
  c.id = 1;
  c.addresses = {prefix("192.168.1.1/24"), prefix("fd00:1::1/64")};
  c.neighbour.max_entries = kMaxEntries;
  c.neighbour.max_held = kMaxHeld;
  c.neighbour.max_held_per_neighbour = kMaxHeldByOne;
  c.neighbour.max_held_age = kMaxHeldAge;
  c.ip6.routing = (options & 1) == 0;
  c.ip6.accept_ra = (options & 2) != 0;
  c.ip6.router_advertisement = (options & 4) != 0;
  c.ip6.dad_transmits = options >> 3 & 1;
  return c;
}

class Harness {
 public:
  Harness(unsigned options, std::uint64_t seed)
      : port_{config(options), actions_, sink_, seed, receiver_} {}

  void run(Input in) {
    port_.start(now_);
    for (unsigned steps = 0; !in.empty() && steps < 256; ++steps) {
      before_ = established();
      evicted_ = port_.counters().neighbours.evicted;
      changes_anything_ = false;
      named_.clear();
      actions_.frames.clear();
      step(in);
      check();
    }
    port_.stop(now_);
    for (const auto& [addr, n] : gateways_)
      for (unsigned i = 0; i < n; ++i) port_.forget_gateway(addr);
    require(sink_.open.empty() && sink_.indexes.empty() && sink_.installed.empty());
    require(receiver_.listening.empty() && receiver_.ready.empty() && receiver_.routers.empty());
  }

 private:
  using Established = std::map<wire::IpAddr, wire::MacAddr>;
  using Message = wire::NdMessage;

  static const wire::IpAddr& address(Input& in) {
    return addresses()[in.octet() % addresses().size()];
  }

  void step(Input& in) {
    const unsigned code = in.octet();
    const unsigned option = code >> 4;
    switch (static_cast<Step>(code & 15)) {
      case Step::kArp: return arp(in, option);
      case Step::kArpOctets: {
        const auto octets = in.take(in.octet() % 64);
        return hear_arp({octets.begin(), octets.end()});
      }
      case Step::kSolicit:
      case Step::kAdvertise: return neighbour_message(in, code);
      case Step::kRouter: return router_message(in, option);
      case Step::kRedirect: return redirect_message(in, option);
      case Step::kNdOctets: return nd_octets(in, option);
      case Step::kWant: return want(address(in));
      case Step::kUse: return use(address(in));
      case Step::kTime: return pass(std::chrono::milliseconds{1U << (in.octet() & 15)});
      case Step::kStatic: {
        const wire::IpAddr& addr = address(in);
        return add_static(addr, mac(in.octet()));
      }
      case Step::kRemove: return remove(option, address(in));
      case Step::kGateway: return gateway(option, address(in));
      case Step::kCarrier:
        changes_anything_ = true;
        statics_.clear();
        return port_.set_carrier((option & 1) != 0, now_);
      case Step::kRepeat:
        if (!last_.empty()) (last_is_arp_ ? hear_arp(last_) : hear_nd(last_));
        return;
      case Step::kRedirectBy: return send_redirect(in);
    }
  }

  void arp(Input& in, unsigned option) {
    const auto op = static_cast<wire::ArpOp>(in.octet() % 5);
    const wire::MacAddr from = mac(in.octet());
    const std::uint32_t sender = address(in).v4_host();
    hear_arp(wire::build_arp({op, from, sender, mac(option), address(in).v4_host()}));
  }
  void neighbour_message(Input& in, unsigned code) {
    const bool solicits = static_cast<Step>(code & 15) == Step::kSolicit;
    Message m;
    m.type = solicits ? wire::Icmp6Type::kNeighbourSolicitation
                      : wire::Icmp6Type::kNeighbourAdvertisement;
    m.src = address(in);
    m.dst = address(in);
    m.target = address(in);
    m.router = (code & 16) != 0;
    m.solicited = (code & 32) != 0;
    m.override_it = (code & 64) != 0;
    const wire::MacAddr hw = mac(in.octet());
    if ((code & 128) == 0) (solicits ? m.source_hw : m.target_hw) = hw;
    hear_nd(wire::build_nd(m));
  }
  void router_message(Input& in, unsigned option) {
    Message m;
    m.type = (option & 1) != 0 ? wire::Icmp6Type::kRouterAdvertisement
                               : wire::Icmp6Type::kRouterSolicitation;
    m.src = address(in);
    m.dst = address(in);
    if ((option & 2) != 0) m.source_hw = mac(in.octet());
    if (m.type == wire::Icmp6Type::kRouterAdvertisement) {
      m.lifetime_s = static_cast<std::uint16_t>(in.number(2));
      m.reachable_ms = in.number(2);
      m.retransmit_ms = in.number(2);
      if ((option & 4) != 0) m.mtu = in.number(4);
      if ((option & 8) != 0) {
        wire::NdPrefix p;
        p.prefix.addr = address(in);
        p.prefix.len = static_cast<std::uint8_t>(in.octet() % 129);
        p.on_link = p.autonomous = true;
        p.valid_s = in.number(4);
        p.preferred_s = in.number(4);
        m.prefixes = {p};
      }
    }
    hear_nd(wire::build_nd(m));
  }
  void redirect_message(Input& in, unsigned option) {
    Message m;
    m.type = wire::Icmp6Type::kRedirect;
    m.src = address(in);
    m.destination = address(in);
    m.target = address(in);
    m.dst = ip("fd00:1::1");
    if ((option & 1) != 0) m.target_hw = mac(in.octet());
    hear_nd(wire::build_nd(m));
  }
  /// The length is right. The checksum is right too, unless the option is set.
  void nd_octets(Input& in, unsigned option) {
    Message m;
    m.src = address(in);
    m.dst = address(in);
    const auto body = in.take(in.octet());
    auto packet = wire::build_nd(m);
    packet.resize(sizeof(wire::Ipv6Hdr));
    packet.insert(packet.end(), body.begin(), body.end());
    packet[4] = std::byte{0};
    packet[5] = static_cast<std::byte>(body.size());
    if (body.size() >= 4 && (option & 1) == 0) {
      packet[42] = packet[43] = std::byte{0};
      const wire::Be16 sum{
          wire::icmp6_checksum(m.src, m.dst, std::span{packet}.subspan(sizeof(wire::Ipv6Hdr)))};
      const auto octets = wire::bytes_of(sum);
      std::copy(octets.begin(), octets.end(), packet.begin() + 42);
    }
    hear_nd(packet);
  }
  void send_redirect(Input& in) {
    std::vector<std::byte> packet(sizeof(wire::Ipv6Hdr) + in.octet() % 64);
    packet[0] = std::byte{0x60};
    const wire::IpAddr src = address(in), dst = address(in);
    std::copy(src.bytes.begin(), src.bytes.end(), packet.begin() + 8);
    std::copy(dst.bytes.begin(), dst.bytes.end(), packet.begin() + 24);
    port_.send_redirect(packet, address(in), now_);
  }

  void hear_arp(const std::vector<std::byte>& octets) {
    if (const auto record = wire::parse_arp(wire::LinkKind::kEthernet, octets))
      named_.insert(wire::IpAddr::v4(record->sender_ip));
    last_ = octets;
    last_is_arp_ = true;
    port_.on_arp(octets, 0, 0, now_);
  }
  void hear_nd(const std::vector<std::byte>& packet) {
    if (const auto m = wire::parse_nd(wire::LinkKind::kEthernet, packet))
      named_.insert({m->src, m->target, m->destination});
    last_ = packet;
    last_is_arp_ = false;
    port_.on_nd(packet, 0, now_);
  }

  void want(const wire::IpAddr& addr) {
    const HeldPacket packet = sink_.new_packet();
    waits_since_[packet] = now_;
    const std::size_t dropped = sink_.dropped.size();
    port_.on_neighbour_wanted(addr, packet, now_);
    // Without carrier the packet is dropped, and does not count as use.
    if (sink_.dropped.size() == dropped) touched_[addr] = now_;
  }
  void use(const wire::IpAddr& addr) {
    const auto index = sink_.index_of(addr);
    if (!index || !sink_.valid(addr)) return;
    sink_.used[*index] = now_;
    touched_[addr] = now_;
  }
  void add_static(const wire::IpAddr& addr, const wire::MacAddr& hw) {
    changes_anything_ = true;
    if (port_.add_static(addr, wire::to_string(hw), 0, 0, now_)) statics_[addr] = hw;
  }
  void remove(unsigned option, const wire::IpAddr& addr) {
    changes_anything_ = true;
    // A removed neighbour that other hosts speak of again has not been used since.
    if ((option & 1) != 0) {
      touched_.clear();
      return port_.flush();
    }
    touched_.erase(addr);
    if (port_.remove_neighbour(addr)) statics_.erase(addr);
  }
  void gateway(unsigned option, const wire::IpAddr& addr) {
    changes_anything_ = true;
    if ((option & 1) != 0) {
      if (port_.use_gateway(addr, now_)) ++gateways_[addr];
    } else if (const auto it = gateways_.find(addr); it != gateways_.end()) {
      port_.forget_gateway(addr);
      if (--it->second == 0) gateways_.erase(it);
    }
  }

  void pass(Duration d) {
    changes_anything_ = true;
    const TimePoint end = now_ + d;
    unsigned turns = 0;
    for (auto next = port_.next_deadline(); next && *next <= end; next = port_.next_deadline()) {
      now_ = std::max(now_, *next);
      port_.tick(now_);
      require(++turns < kMaxTurns);
    }
    now_ = end;
    actions_.frames.clear();
  }

  [[nodiscard]] Established established() const {
    Established out;
    for (const auto& [index, n] : sink_.installed)
      if (n.state == table::NeighbourState::kValid) out.emplace(n.addr, n.mac);
    return out;
  }

  void check() {
    require(actions_.frames.size() <= kMaxFrames);
    require(sink_.indexes.size() <= kMaxEntries);
    require(sink_.open.size() <= kMaxHeld);
    for (const HeldPacket packet : sink_.open) require(now_ - waits_since_[packet] <= kMaxHeldAge);
    for (const wire::IpAddr& addr : port_.neighbour_addresses()) {
      const auto row = port_.neighbour(addr, now_);
      require(row.has_value() && row->held <= kMaxHeldByOne);
    }
    const Established after = established();
    for (const auto& [addr, hw] : statics_) {
      const auto it = after.find(addr);
      require(it != after.end() && it->second == hw);
    }
    for (const auto& [addr, n] : gateways_) require(sink_.index_of(addr).has_value());
    for (const auto& [addr, hw] : before_) check_stays(addr, hw, after);
  }
  /// A neighbour that was established before this step.
  void check_stays(const wire::IpAddr& addr, const wire::MacAddr& hw, const Established& after) {
    const auto it = after.find(addr);
    if (it == after.end()) {
      moved_.erase(addr);
      if (changes_anything_) return;
      // It is only evicted to make room, and not while it is in use.
      require(port_.counters().neighbours.evicted > evicted_);
      const auto last = touched_.find(addr);
      require(last == touched_.end() || now_ - last->second >= 2s);
    } else if (it->second != hw && !changes_anything_) {
      require(named_.contains(addr));
      const auto last = moved_.find(addr);
      require(last == moved_.end() || now_ - last->second >= 1s);
      moved_[addr] = now_;
    }
  }

  TimePoint now_{100s};
  FakeNeighbourSink sink_;
  FakePortActions actions_;
  FakeAddressSink receiver_;
  EthernetPort port_;
  std::map<HeldPacket, TimePoint> waits_since_;
  std::map<wire::IpAddr, wire::MacAddr> statics_;
  std::map<wire::IpAddr, unsigned> gateways_;
  std::map<wire::IpAddr, TimePoint> touched_, moved_;
  std::vector<std::byte> last_;
  bool last_is_arp_ = false;
  // State of the step in progress:
  Established before_;
  std::uint64_t evicted_ = 0;
  std::set<wire::IpAddr> named_;  ///< Addresses that the message names.
  bool changes_anything_ = false;
};

}  // namespace
}  // namespace ipoib::link

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  GTEST_FLAG_SET(break_on_failure, true);  // Failures of the fakes end the program too.
  ipoib::set_log_level(ipoib::LogArea::kLink, std::nullopt);
  ipoib::test::Input in{ipoib::test::input(data, size)};
  const unsigned options = in.octet();
  ipoib::link::Harness{options, options}.run(in);
  return 0;
}
