// SPDX-License-Identifier: BSD-3-Clause
// A whole node under frames and packets from every interface, MADs, time, devices that come and go,
// and requests of its operator. The node never crashes. At the end it has no mbuf, neighbour or
// connection left, and every packet is under exactly one counter (mgmt::PacketBalance).
//
// Input: steps of one octet each with their arguments; see Step. node_seeds.py writes some inputs.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/cli/cli.h"
#include "drivers/soft/soft_frame.h"
#include "lib/wire/frame.h"
#include "lib/wire/icmpv6.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/sim_nodes.h"

namespace ipoib::mgmt::test {
namespace {

using ipoib::test::Input;
using ipoib::test::require;
using namespace std::chrono_literals;

/// The low 7 bits of a step's octet, modulo kCount. Bit 7 selects the node.
enum class Step : unsigned {
  kEthernet,  ///< A frame to a port: options, length, octets.
  kIp,        ///< An IP packet between two of kAddresses; see ip().
  kDatagram,  ///< An IPoIB packet to a link: options, type, length, octets.
  kMad,       ///< A MAD to QP1: sender, class, method, attribute, length, data; see mad().
  kAgain,     ///< A former frame of the cable with changes: index, options, offsets and octets.
  kTime,      ///< Time passes: power of two, in ns.
  kDeadline,  ///< Time passes until the next timer is due.
  kCable,     ///< The next frames between the nodes have a fault: kind and count, damage.
  kDevice,    ///< Carrier, port, removal of a device, settings of a subnet manager.
  kRequest,   ///< A request of an operator.
  kHosts,     ///< Hosts stop answering, or start again.
  kWorker,    ///< One loop of one worker alone.
  kTurn,      ///< One turn of management alone.
  kHold,      ///< The next steps follow each other without a round in between: count.
  kLine,      ///< A line of the CLI: length, text.
  kCount
};

Bytes taken(Input& in, std::size_t n) {
  const auto octets = in.take(n);
  return {octets.begin(), octets.end()};
}
/// Reads two octets, the more significant one first.
std::uint16_t word(Input& in) {
  return static_cast<std::uint16_t>(in.number(2));
}

/// An IPv4 address and the IPv6 address with the same role. There are addresses of both nodes, of
/// hosts, absent ones and invalid ones.
struct Pair {
  std::string_view v4, v6;
};
constexpr std::array<Pair, 32> kAddresses = {{
    {"192.168.1.10", "fd00:1::10"},
    {"192.168.2.10", "fd00:2::10"},
    {"10.0.0.1", "fd00:a::1"},
    {"10.0.0.2", "fd00:a::2"},
    {"192.168.1.1", "fd00:1::1"},
    {"192.168.2.1", "fd00:2::1"},
    {"10.1.0.1", "fd00:b::1"},
    {"10.1.0.2", "fd00:b::2"},
    {"192.168.1.200", "fd00:1::c8"},
    {"192.168.2.200", "fd00:2::c8"},
    {"10.0.0.77", "fd00:a::77"},
    {"10.1.0.77", "fd00:b::77"},
    {"8.8.8.8", "2001:db8::1"},
    {"10.9.0.1", "fd00:9::1"},
    {"10.8.0.1", "fd00:8::1"},
    {"10.8.0.2", "fd00:8::2"},
    {"10.7.0.1", "fd00:7::1"},
    {"239.1.2.3", "ff0e::123"},
    {"239.1.2.4", "ff05::124"},
    {"224.0.0.1", "ff02::1"},
    {"224.0.0.2", "ff02::2"},
    {"224.0.0.22", "ff02::16"},
    {"224.0.0.251", "ff02::1:ff00:1"},
    {"255.255.255.255", "ff0f::1"},
    {"192.168.1.255", "fe80::1"},
    {"10.0.0.255", "fe80::2:c903:a:b01"},
    {"0.0.0.0", "::"},
    {"127.0.0.1", "::1"},
    {"240.0.0.1", "fec0::1"},
    {"169.254.1.1", "fe80::2:c903:a:b02"},
    {"192.168.1.0", "fe80::aaff:fe00:a"},
    {"10.0.0.0", "fd00:a::"},
}};

wire::IpAddr address(unsigned n, bool v6) {
  const Pair& pair = kAddresses[n % kAddresses.size()];
  return *wire::parse_ip(v6 ? pair.v6 : pair.v4);
}

constexpr std::string_view kInterfaces[] = {"ib0", "eth0", "ib1", "ib7"};
constexpr std::string_view kPrefixes[] = {"10.8.0.0/16", "192.168.2.0/24", "10.6.0.0/15",
                                          "0.0.0.0/0",   "fd00:2::/64",    "fd00:6::/32"};

/// The fields of a UD packet in the format of the software fabric.
struct UdFrame {
  std::uint16_t dlid = 0, slid = 0, pkey = 0xffff;
  std::uint32_t qpn = 1, src_qpn = 1, qkey = 0x8001'0000;
  std::optional<wire::Gid> dgid{};  ///< None: no GRH.
  wire::Gid sgid{};

  [[nodiscard]] Bytes octets(std::span<const std::byte> payload) const;
};

Bytes UdFrame::octets(std::span<const std::byte> payload) const {
  const std::size_t pad = (4 - payload.size() % 4) % 4;
  const std::size_t body =
      sizeof(wire::Bth) + sizeof(wire::Deth) + payload.size() + pad + wire::kIcrcLen;
  const std::size_t packet = sizeof(wire::Lrh) + (dgid ? sizeof(wire::Grh) : 0) + body;
  Bytes frame(sizeof(soft::EthHdr) + packet);
  std::size_t at = 0;
  const auto put = [&](std::span<const std::byte> part) {
    std::copy(part.begin(), part.end(), frame.begin() + static_cast<std::ptrdiff_t>(at));
    at += part.size();
  };
  const auto words = static_cast<std::uint16_t>(packet / 4);
  const auto lnh = static_cast<std::uint8_t>(dgid ? wire::Lnh::kGlobal : wire::Lnh::kLocal);
  put(wire::bytes_of(soft::EthHdr{{std::byte{2}}, {}, wire::Be16{soft::kEtherTypeIba}}));
  put(wire::bytes_of(wire::Lrh{0, lnh, wire::Be16{dlid}, wire::Be16{words}, wire::Be16{slid}}));
  if (dgid)
    put(wire::bytes_of(wire::Grh{wire::Grh::pack(0, 0),
                                 wire::Be16{static_cast<std::uint16_t>(body)},
                                 wire::Grh::kNextHeaderIba, 1, sgid, *dgid}));
  put(wire::bytes_of(wire::Bth{static_cast<std::uint8_t>(wire::Opcode::kUdSendOnly),
                               static_cast<std::uint8_t>(pad << 4), wire::Be16{pkey}, 0,
                               wire::Be24{qpn}, 0, wire::Be24{0}}));
  put(wire::bytes_of(wire::Deth{wire::Be32{qkey}, 0, wire::Be24{src_qpn}}));
  put(payload);
  mend_frame(frame);
  return frame;
}

Bytes ip4_packet(const wire::IpAddr& from, const wire::IpAddr& to, unsigned protocol, unsigned ttl,
                 std::uint16_t fragment, const Bytes& payload) {
  wire::Ipv4Hdr h{};
  h.version_ihl = 0x45;
  h.total_len.set(static_cast<std::uint16_t>(sizeof h + payload.size()));
  h.flags_offset.set(fragment);
  h.ttl = static_cast<std::uint8_t>(ttl);
  h.protocol = static_cast<std::uint8_t>(protocol);
  h.src.set(from.v4_host());
  h.dst.set(to.v4_host());
  h.checksum.set(wire::internet_checksum(wire::bytes_of(h)));
  Bytes packet(sizeof h + payload.size());
  std::memcpy(packet.data(), &h, sizeof h);
  std::copy(payload.begin(), payload.end(), packet.begin() + sizeof h);
  return packet;
}

Bytes ip6_packet(const wire::IpAddr& from, const wire::IpAddr& to, unsigned protocol,
                 unsigned hop_limit, const Bytes& payload) {
  wire::Ipv6Hdr h{};
  h.version_class_flow.set(wire::Ipv6Hdr::kVersion6);
  h.payload_len.set(static_cast<std::uint16_t>(payload.size()));
  h.next_header = static_cast<std::uint8_t>(protocol);
  h.hop_limit = static_cast<std::uint8_t>(hop_limit);
  h.src = from;
  h.dst = to;
  Bytes packet(sizeof h + payload.size());
  std::memcpy(packet.data(), &h, sizeof h);
  std::copy(payload.begin(), payload.end(), packet.begin() + sizeof h);
  return packet;
}

/// Reads a payload: its length in units of 8 octets, the number of octets in the input, and these
/// octets. The rest is zero. Checksums of ICMP and IGMP are correct.
Bytes ip_payload(unsigned protocol, const wire::IpAddr& from, const wire::IpAddr& to, Input& in) {
  const std::size_t len = std::size_t{in.octet()} * 8;
  Bytes payload = taken(in, in.octet());
  payload.resize(std::max(len, payload.size()));
  if (payload.size() < 8 || (protocol != 1 && protocol != 2 && protocol != 58)) return payload;
  payload[2] = payload[3] = std::byte{0};
  const wire::Be16 checksum{protocol == 58 ? wire::icmp6_checksum(from, to, payload)
                                           : wire::internet_checksum(payload)};
  std::memcpy(&payload[2], &checksum, 2);
  return payload;
}

class Harness {
 public:
  static void run_once(std::span<const std::byte> octets) {
    static auto* const harness = new Harness;
    harness->run(Input{octets});
  }

 private:
  /// Strangers create state that the administrator never forgets, so new nodes replace the old ones
  /// after this many inputs.
  static constexpr unsigned kInputsPerSim = 2'000;
  static constexpr unsigned kMaxSteps = 64;
  static constexpr unsigned kMany = 40;
  /// This octet of a device step removes the node's cable, the next one its Ethernet port.
  static constexpr unsigned kRemoval = 0x7e;
  /// After this octet of a device step, or the next one, nodes with several paths take the place of
  /// the others until the end of the input.
  static constexpr unsigned kSeveralPaths = 0x7c;
  static constexpr unsigned kNewNodes = 100;  ///< From the start; a replay of seeds needs them.
  static constexpr unsigned kInputsPerNewNodes =
      500;  ///< Inputs for each further new pair of nodes.

  void run(Input in) {
    ++inputs_;
    if (sim_ == nullptr || sim_->spent() || sim_->has_several_paths() ||
        inputs_ % kInputsPerSim == 0)
      make_nodes(false);
    hold_ = 0;
    for (unsigned steps = 0; !in.empty() && steps < kMaxSteps; ++steps) {
      step(in);
      if (hold_ == 0)
        sim_->round();
      else
        --hold_;
    }
    require(all_rests() ? sim_->come_to_full_rest() : sim_->come_to_rest());
  }

  void make_nodes(bool several_paths) {
    sim_.reset();
    sim_ = std::make_unique<SimNodes>(several_paths);
    for (unsigned side : {0U, 1U}) clis_[side].emplace(sim_->sides[side].node());
  }

  /// Returns whether run() waits for the expiry of all temporary state, which takes long. It does so
  /// only after some inputs, among them each input that is run alone, and never after the removal of a
  /// cable, because nodes without one ask the SA forever.
  [[nodiscard]] bool all_rests() {
    if (sim_->without_cable()) return false;
    if (!sim_->spent() && !sim_->has_several_paths()) return inputs_ < 16 || inputs_ % 64 == 0;
    ++rare_;
    return rare_ <= 4 || rare_ % 16 == 0;
  }

  void step(Input& in) {
    const unsigned code = in.octet();
    const unsigned side = code >> 7;
    SimNode& s = sim_->sides[side];
    switch (static_cast<Step>((code & 0x7f) % static_cast<unsigned>(Step::kCount))) {
      case Step::kEthernet: return ethernet(side, in);
      case Step::kIp: return ip(side, in);
      case Step::kDatagram: return datagram(side, in);
      case Step::kMad: return mad(side, in);
      case Step::kAgain: return again(side, in);
      case Step::kTime: return SimNodes::pass(Duration{std::int64_t{1} << in.octet() % 42});
      case Step::kDeadline: return sim_->pass_to_deadline(10s);
      case Step::kCable: return cable(in);
      case Step::kDevice: return device(s, in);
      case Step::kRequest: return request(s, in);
      case Step::kHosts: sim_->hosts_answer = (in.octet() & 1) != 0; return;
      case Step::kWorker: s.stepped->iterate(in.octet() % s.workers); return;
      case Step::kTurn: s.asked = true; return static_cast<void>(s.run_once());
      case Step::kHold: hold_ = in.octet() % 16 + 1; return;
      case Step::kLine: return line(side, in);
      case Step::kCount: return;
    }
  }

  /// Options: bit 0: to the port's own address, 1: from a host, 2: in a block of the frame's size.
  void ethernet(unsigned side, Input& in) {
    const unsigned options = in.octet();
    Bytes frame = taken(in, std::size_t{in.octet()} * 8);
    if (frame.size() < 14) frame.resize(14);
    put_macs(side, options, frame);
    sim_->sides[side].port->give(frame, (options & 4) != 0);
  }
  void put_macs(unsigned side, unsigned options, Bytes& frame) const {
    const wire::MacAddr& own = sim_->sides[side].mac;
    const wire::MacAddr host = SimNodes::host_mac(side, 10);
    if ((options & 1) != 0) std::copy(own.begin(), own.end(), frame.begin());
    if ((options & 2) != 0) std::copy(host.begin(), host.end(), frame.begin() + 6);
  }

  /// Options: bit 0: IPv6, 1 and 2: by eth0, ib0, ib1, or ib0 from a stranger, 3: a word of flags
  /// and offset follows, 4 and 5: options of to_port() and to_link(), 6: enough copies for a burst.
  void ip(unsigned side, Input& in) {
    const unsigned options = in.octet();
    const bool v6 = (options & 1) != 0;
    const unsigned way = options >> 1 & 3;
    const wire::IpAddr from = address(in.octet(), v6), to = address(in.octet(), v6);
    const unsigned protocol = in.octet(), hops = in.octet();
    const std::uint16_t fragment = (options & 8) != 0 ? word(in) : std::uint16_t{0};
    const Bytes payload = ip_payload(protocol, from, to, in);
    const Bytes packet = v6 ? ip6_packet(from, to, protocol, hops, payload)
                            : ip4_packet(from, to, protocol, hops, fragment, payload);
    const auto type = v6 ? wire::EtherType::kIpv6 : wire::EtherType::kIpv4;
    const unsigned copies = (options & 0x40) != 0 ? kMany : 1;
    if (way == 0)
      to_port(side, options >> 4, type, packet, copies);
    else
      to_link(side, way == 2, options >> 4 & 3, way == 3, type, packet, copies);
  }
  void to_port(unsigned side, unsigned options, wire::EtherType type, const Bytes& packet,
               unsigned copies) {
    Bytes frame(14 + packet.size());
    put_macs(side, 3, frame);
    const wire::Be16 ether_type{static_cast<std::uint16_t>(type)};
    std::memcpy(&frame[12], &ether_type, 2);
    std::copy(packet.begin(), packet.end(), frame.begin() + 14);
    for (unsigned i = 0; i < copies; ++i) sim_->sides[side].port->give(frame, (options & 1) != 0);
  }

  /// Options: those of to_link(); bit 3: by ib1, 4: from a stranger.
  void datagram(unsigned side, Input& in) {
    const unsigned options = in.octet();
    const auto type = wire::EtherType{word(in)};
    const Bytes packet = taken(in, std::size_t{in.octet()} * 8);
    to_link(side, (options & 8) != 0, options, (options & 0x10) != 0, type, packet, 1);
  }
  /// Options: bit 0: to the link's broadcast group, 1: with a GRH, 2: with a wrong Q_Key.
  void to_link(unsigned side, bool second, unsigned options, bool stranger, wire::EtherType type,
               const Bytes& packet, unsigned copies) {
    const wire::Be32 header = wire::encapsulation_header(
        second ? wire::Encapsulation::kTypeLast : wire::Encapsulation::kTypeFirst, type);
    Bytes payload(sizeof header + packet.size());
    std::memcpy(payload.data(), &header, sizeof header);
    std::copy(packet.begin(), packet.end(), payload.begin() + sizeof header);
    const LinkInfo link = sim_->sides[side].node().view.links()[second ? 1 : 0];
    UdFrame ud;
    ud.slid = stranger ? std::uint16_t{9} : sim_->lid(1 - side);
    ud.dlid = sim_->lid(side);
    ud.pkey = second ? 0x8001 : 0xffff;
    ud.qpn = link.qpn;
    ud.src_qpn = 0x48;
    ud.qkey = (options & 4) != 0 ? 1 : link.parameters.qkey;
    ud.sgid = wire::Gid::of(wire::kDefaultGidPrefix,
                            0x0002'c903'000a'0b00 + (stranger ? 9 : SimNodes::kNumber[1 - side]));
    if ((options & 1) != 0) {
      ud.dlid = link.parameters.broadcast_mlid;
      ud.qpn = 0xff'ffff;
      ud.dgid = wire::broadcast_mgid(ud.pkey, 2);
    } else if ((options & 2) != 0) {
      ud.dgid = link.gid;
    }
    const Bytes frame = ud.octets(payload);
    for (unsigned i = 0; i < copies; ++i) sim_->sides[side].cable->give(frame);
  }

  /// Sender: its LID; bit 7: in the partition of ib1.
  void mad(unsigned side, Input& in) {
    UdFrame ud;
    const unsigned from = in.octet();
    ud.slid = static_cast<std::uint16_t>((from & 0x7f) % 12);
    ud.pkey = (from & 0x80) != 0 ? 0x8001 : 0xffff;
    ud.dlid = sim_->lid(side);
    Bytes payload(256);
    payload[0] = std::byte{1};
    payload[1] = static_cast<std::byte>(in.octet());
    payload[2] = std::byte{2};
    payload[3] = static_cast<std::byte>(in.octet());
    payload[17] = static_cast<std::byte>(in.octet());
    const auto rest = in.take(std::min(in.octet(), 232U));
    std::copy(rest.begin(), rest.end(), payload.begin() + 24);
    sim_->sides[side].cable->give(ud.octets(payload));
  }

  /// Options: bit 0: the ICRC stays wrong, 2 to 4: number of changed octets, 5: a frame that the
  /// cable kept, unchanged, 6: in a block of the frame's size.
  void again(unsigned side, Input& in) {
    auto& frames = sim_->remembered;
    const std::size_t which = in.octet();
    const unsigned options = in.octet();
    FarEnd& cable = *sim_->sides[side].cable;
    if (!sim_->kept.empty() && (options & 0x20) != 0) {
      cable.give(sim_->kept.front());
      sim_->kept.pop_front();
      return;
    }
    if (frames.empty()) return;
    Bytes frame = frames[frames.size() - 1 - which % frames.size()];
    for (unsigned n = options >> 2 & 7; n > 0; --n) {
      const std::size_t at = word(in) % frame.size();
      frame[at] = static_cast<std::byte>(in.octet());
    }
    if ((options & 1) == 0) mend_frame(frame);
    cable.give(frame, (options & 0x40) != 0);
  }

  void cable(Input& in) {
    const unsigned what = in.octet();
    sim_->fault = CableFault{
        static_cast<std::uint8_t>((what & 15) % static_cast<unsigned>(CableFault::kCount))};
    sim_->faulty_frames = (what >> 4) + 1;
    if (sim_->fault != CableFault::kChange) return;
    const std::uint32_t where = word(in);
    sim_->damage = where << 8 | in.octet();
  }

  void device(SimNode& s, Input& in) {
    s.asked = true;
    const unsigned what = in.octet();
    const bool on = (what & 0x80) != 0;
    if ((what & 0x7e) == kRemoval) return pull_out((what & 1) == 0 ? *s.cable : *s.port);
    if ((what & 0x7e) == kSeveralPaths) return take_several_paths();
    s.change((what & 7) == 1 || (what & 7) == 2 ? Change::kPort : Change::kHca);
    fabric::PortChange change;
    switch (what & 7) {
      case 0: return s.cable->set_carrier(on);
      case 1: return s.port->set_carrier(on);
      case 2: static_cast<void>(s.node().control.set_port_started("eth0", on)); return;
      case 3: change.up = on; break;
      case 4: change.reregister = true; break;
      case 5: change.sm_lid = static_cast<std::uint16_t>(in.octet() % 4); break;
      case 6: change.pkeys = pkeys(in.octet()); break;
      default:
        change.lid = static_cast<std::uint16_t>(in.octet() % 16);
        if (on) change.gid_prefix = 0xfec0'0000'0000'0000 + in.octet();
    }
    static_cast<void>(s.node().control.change_hca("soft0", change));
  }
  void pull_out(FarEnd& device) {
    if (may_make_nodes()) device.pull_out();
  }
  void take_several_paths() {
    if (sim_->spent() || sim_->has_several_paths() || !may_make_nodes()) return;
    require(sim_->come_to_rest());
    make_nodes(true);
  }
  /// The number of new nodes is limited, because they take as long as thirty inputs.
  bool may_make_nodes() {
    if (made_ >= kNewNodes + inputs_ / kInputsPerNewNodes) return false;
    ++made_;
    return true;
  }
  static std::vector<std::uint16_t> pkeys(unsigned which) {
    switch (which % 5) {
      case 0: return {0xffff, 0x8001};
      case 1: return {0xffff};
      case 2: return {0x8001, 0xffff};
      case 3: return {0x7fff, 0x0001};
      default: return {};
    }
  }

  static std::optional<Change> changed_by(unsigned request) {
    switch (request) {
      case 0:
      case 1: return Change::kInterfaces;
      case 2:
      case 3:
      case 4:
      case 14: return Change::kForwarding;
      case 5: return Change::kRoutes;
      case 6: return Change::kNeighbours;
      case 7: return Change::kGroups;
      case 8: return Change::kMulticastRoutes;
      default: return std::nullopt;
    }
  }
  static void request(SimNode& s, Input& in) {
    const NodeFaces& node = s.node();
    s.asked = true;
    const unsigned what = in.octet();
    const bool v6 = (what & 0x40) != 0;
    const bool on = (what & 0x80) != 0;
    const std::string iface{in.one_of(kInterfaces)};
    if ((what & 0x10) != 0) return own_address(s, iface, on, v6, in);
    if (const auto change = changed_by(what & 15)) s.change(*change);
    switch (what & 15) {
      case 0: static_cast<void>(node.control.set_interface_up(iface, on)); return;
      case 1:
        static_cast<void>(node.control.set_mtu(iface, static_cast<std::uint16_t>(in.octet() * 16)));
        return;
      case 2: return node.control.set_forwarding(on);
      case 3: return node.traffic.set_burst(in.octet() % 64 + 1);
      case 4:
        return node.traffic.set_forward_mode(
            static_cast<ForwardMode>(in.octet() % fwd::kForwardModeNames.size()));
      case 5: return route(node, on, v6, in);
      case 6: return static_neighbour(node, iface, on, address(in.octet(), v6), in);
      case 7: return group(s, iface, on, address(in.octet(), v6));
      case 8: return multicast_route(node, iface, on, v6, in);
      case 9: static_cast<void>(node.control.flush_neighbours(on ? iface : "")); return;
      case 10: return close_connection(node, in);
      case 11: return node.stats.clear_stats();
      case 12: static_cast<void>(node.control.set_promiscuous("eth0", on)); return;
      case 13: return ask(node);
      case 14: return generator(node, v6, in);
      default: return node.traffic.send_first(in.octet() % 4);
    }
  }
  static void generator(const NodeFaces& node, bool v6, Input& in) {
    GeneratorConfig g;
    g.ip = {address(in.octet(), v6), address(in.octet(), v6)};
    const unsigned options = in.octet();
    g.sizes = {word(in), static_cast<std::uint16_t>(options * 8)};
    g.multi_flow = (options & 1) != 0;
    g.flows = in.octet() * 300;
    g.neighbours = options >> 4;
    g.rate = {static_cast<double>(in.octet()),
              fwd::PacketRate::Unit{static_cast<std::uint8_t>(options >> 1 & 1)}};
    static_cast<void>(node.traffic.set_generator(g));
  }
  /// An interface gets or loses an address, which may be another interface's, a neighbour's or none.
  static void own_address(SimNode& s, const std::string& iface, bool on, bool v6, Input& in) {
    constexpr std::array<std::uint8_t, 4> kLens = {24, 32, 16, 31}, kLens6 = {64, 128, 48, 127};
    const wire::IpAddr addr = address(in.octet(), v6);
    const unsigned len = in.octet() % kLens.size();
    const wire::IpPrefix own{addr, v6 ? kLens6[len] : kLens[len]};
    NodeControl& control = s.node().control;
    const bool changed = on ? control.add_address(iface, own).has_value()
                            : control.remove_address(iface, own).has_value();
    if (changed) s.change(Change::kAddresses);
  }
  static void route(const NodeFaces& node, bool on, bool v6, Input& in) {
    const auto to = *wire::parse_prefix(in.one_of(kPrefixes));
    RouteConfig r{to, {}};
    const unsigned n = on ? in.octet() % 4 : 0;
    for (unsigned i = 0; i < n; ++i) r.via.push_back(address(in.octet(), v6));
    r.blackhole = n == 0;
    static_cast<void>(on ? node.control.add_route(r) : node.control.remove_route(to));
  }
  static void static_neighbour(const NodeFaces& node, const std::string& iface, bool on,
                               const wire::IpAddr& addr, Input& in) {
    if (!on) return static_cast<void>(node.control.remove_neighbour(iface, addr));
    NeighbourEntryConfig entry{iface, addr, {}};
    if (iface == "eth0") {
      entry.lladdr = wire::to_string(SimNodes::host_mac(0, in.octet()));
    } else {
      const auto flags = static_cast<std::uint8_t>(in.octet());
      const wire::Be24 qpn{word(in)};
      entry.lid = static_cast<std::uint16_t>(in.octet() % 4);
      const auto gid = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'000a'0b00 + entry.lid);
      if (iface == "ib1")
        entry.lladdr = wire::to_string(wire::IbarpAddr{.eui64 = wire::Be64{gid.guid()},
                                                       .reserved = 0,
                                                       .qpn = qpn,
                                                       .qkey = wire::Be32{flags},
                                                       .gid = gid});
      else
        entry.lladdr = wire::to_string(wire::LinkAddr{flags, qpn, gid});
    }
    static_cast<void>(node.control.add_neighbour(entry));
  }
  static void group(SimNode& s, const std::string& iface, bool on, const wire::IpAddr& group) {
    const std::pair entry{iface, group};
    if (on) {
      if (s.node().control.join_group(iface, group)) s.joined.push_back(entry);
      return;
    }
    const auto found = std::find(s.joined.begin(), s.joined.end(), entry);
    if (found == s.joined.end()) return;
    require(s.node().control.leave_group(iface, group).has_value());
    s.joined.erase(found);
  }
  static void multicast_route(const NodeFaces& node, const std::string& iface, bool on, bool v6,
                              Input& in) {
    MulticastRouteConfig r{
        {address(in.octet(), v6), static_cast<std::uint8_t>(v6 ? 128 : 32)}, {}, iface, {}};
    if (const unsigned source = in.octet(); source < kAddresses.size())
      r.source = address(source, v6);
    r.out = {std::string{in.one_of(kInterfaces)}};
    static_cast<void>(on ? node.control.add_multicast_route(r)
                         : node.control.remove_multicast_route(r));
  }
  static void close_connection(const NodeFaces& node, Input& in) {
    const auto all = node.view.connections("");
    if (!all.empty())
      static_cast<void>(node.control.close_connection("ib0", all[in.octet() % all.size()].handle));
  }
  /// Reads everything that `show` commands and exporters read.
  static void ask(const NodeFaces& node) {
    static_cast<void>(node.view.links());
    static_cast<void>(node.view.ports());
    static_cast<void>(node.view.hcas());
    for (const NeighbourKey& key : node.view.neighbour_keys(""))
      require(node.view.neighbour(key).has_value());
    static_cast<void>(node.view.routes({}, 1000));
    static_cast<void>(node.view.groups(""));
    static_cast<void>(node.view.multicast_routes());
    static_cast<void>(node.view.subnet_administration());
    static_cast<void>(node.stats.port_stats());
    static_cast<void>(node.stats.forward_stats());
    static_cast<void>(node.stats.xstats("soft0"));
    static_cast<void>(node.stats.drops());
  }

  /// The node gets a line like those of a client of the CLI socket, except commands that end the
  /// program, write a file, or join and leave groups.
  void line(unsigned side, Input& in) {
    const auto octets = in.take(in.octet());
    const std::string text{reinterpret_cast<const char*>(octets.data()), octets.size()};
    const auto words = app::split_words(text);
    if (!words || words->empty()) return;
    for (const char* not_here : {"quit", "capture", "group", "log", "verbose"})
      if (words->front() != "show" &&
          std::find(words->begin(), words->end(), not_here) != words->end())
        return;
    SimNode& s = sim_->sides[side];
    if (words->front() != "show") {
      s.asked = true;
      s.changed.set();
    }
    const std::string answer = clis_[side]->execute(text);
    require(answer.empty() || answer.back() == '\n');
  }

  std::unique_ptr<SimNodes> sim_;
  std::array<std::optional<app::Cli>, 2> clis_;
  unsigned inputs_ = 0;
  unsigned made_ = 0;  ///< Pairs of nodes that inputs asked for.
  unsigned rare_ = 0;  ///< Inputs that removed an Ethernet port or had nodes with several paths.
  unsigned hold_ = 0;
};

}  // namespace
}  // namespace ipoib::mgmt::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::mgmt::test::Harness::run_once(ipoib::test::input(data, size));
  return 0;
}
