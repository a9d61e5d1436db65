// SPDX-License-Identifier: BSD-3-Clause
// Any frames arrive at the cable of a software HCA with several UD queue pairs, while its keys,
// groups and port change. Each packet reaches, unchanged, exactly the queue pairs that a second
// reading of its octets (lib/wire/frame.h) finds, or it is under exactly one counter. Every mbuf
// returns to its pool.
//
// Input: steps of one octet each with their arguments; see Step.
#include <rte_mempool.h>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "lib/wire/frame.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/eal.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using test::Input;
using test::require;

/// The low 3 bits of a step's octet.
enum class Step : unsigned {
  kUnicast,  ///< A frame to a queue pair or QP1: LID, queue pair, arguments of add_frame().
  kGroup,    ///< A frame to a group: index, arguments of add_frame().
  kRaw,      ///< A frame of the next octets unchanged: length.
  kAgain,    ///< The last frame again: count.
  kPoll,     ///< The HCA reads all frames of the cable.
  kKey,      ///< A queue pair gets another Q_Key, or the port another P_Key table.
  kPort,     ///< The port gets a LID, and goes down or up.
  kMember,   ///< A queue pair is attached to a group or detached.
};

/// The other bits of a frame's step.
enum Option : unsigned {
  kGlobal = 8,      ///< A unicast packet has a GRH; a packet to a group has a wrong MGID.
  kUnsealed = 16,   ///< The ICRC is not corrected after the changes.
  kSegments = 32,   ///< The frame has two mbufs.
  kImmediate = 64,  ///< The packet is a SEND with immediate data.
  kPadded = 128,    ///< The frame has Ethernet padding, or more octets behind it than allowed.
};

constexpr std::size_t kQueues = 4;
constexpr std::size_t kMtu = 2048;
constexpr std::uint16_t kPartitions[kQueues] = {0xffff, 0xffff, 0x8001, 0x0002};
constexpr std::uint16_t kPkeys[] = {0xffff, 0x7fff, 0x8001, 0x0001, 0x8002, 0x0002, 0x8003, 0};
constexpr std::uint32_t kQkeys[] = {kQkey, 0x0b1c, wire::kGsiQkey, 0};
constexpr std::uint16_t kLids[] = {kLid[0], 9};
constexpr std::uint16_t kMlids[] = {kMlid, kMlid, 0xc123};  ///< MLIDs of the groups.
constexpr std::size_t kGroups = std::size(kMlids);

wire::Gid group_gid(std::size_t i) {
  static const wire::Gid first = broadcast_mgid();
  wire::Gid gid = first;
  gid.bytes[15] = static_cast<std::byte>(i);
  return gid;
}
wire::Gid port_gid(int side) {
  return wire::Gid::of(wire::kDefaultGidPrefix, kGuid[side]);
}

/// The payload and metadata of one packet that a queue pair, or QP1, must receive.
struct Arrival {
  Bytes payload;
  std::uint32_t src_qpn;
  std::uint16_t slid;
  std::uint8_t sl;
  bool multicast;
  bool global;
};
/// Expected packets of each queue pair; the last entry is QP1.
using Arrivals = std::array<std::vector<Arrival>, kQueues + 1>;

/// The headers and the payload of a UD SEND, with or without immediate data.
struct Packet {
  wire::UdFrame ud;
  wire::Gid dgid{};
  Bytes payload;

  /// Returns false if the frame itself is invalid.
  bool read(const Bytes& frame) {
    const auto eth = wire::read<EthHdr>(frame);
    if (!eth || eth->ether_type.host() != kEtherTypeIba) return false;
    const auto iba = std::span{frame}.subspan(sizeof(EthHdr));
    if (wire::parse_iba(iba, ud.iba) != wire::FrameError::kNone) return false;
    const auto opcode = static_cast<wire::Opcode>(ud.iba.bth.opcode);
    const bool immediate = opcode == wire::Opcode::kUdSendOnlyImm;
    if (opcode != wire::Opcode::kUdSendOnly && !immediate) return false;
    const std::size_t headers = sizeof(wire::Deth) + (immediate ? 4 : 0);
    if (ud.iba.body_len < headers) return false;
    ud.deth = *wire::read<wire::Deth>(iba, ud.iba.body);
    const auto octets = iba.subspan(ud.iba.body + headers, ud.iba.body_len - headers);
    payload.assign(octets.begin(), octets.end());
    if (ud.iba.global) dgid = wire::grh_of(iba).dgid;
    return wire::icrc_is_good(iba.first(ud.iba.packet_len));
  }
  [[nodiscard]] Arrival arrival() const {
    return {payload,
            ud.deth.src_qp.host(),
            ud.iba.lrh.slid.host(),
            ud.iba.lrh.sl(),
            wire::is_multicast_lid(ud.iba.lrh.dlid.host()),
            ud.iba.global};
  }
};

/// A model of the port: finds the receivers of a packet by the rules of the specification, without
/// the driver.
struct Port {
  bool up = true;
  std::uint16_t lid = kLid[0];
  std::vector<std::uint16_t> pkeys;
  std::array<std::uint32_t, kQueues> qkeys{};
  std::array<std::uint32_t, kQueues> qpns{};
  bool member[kGroups][kQueues]{};

  /// Returns the table's P_Key of the queue pair's partition, a full member's if it has both.
  [[nodiscard]] std::uint16_t pkey(std::size_t queue) const {
    std::uint16_t found = 0;
    for (const std::uint16_t p : pkeys)
      if ((p & 0x7fff) == (kPartitions[queue] & 0x7fff)) found = std::max(found, p);
    return found;
  }
  [[nodiscard]] bool takes(std::size_t queue, const Packet& p) const {
    return wire::pkeys_match(pkey(queue), p.ud.iba.bth.pkey.host()) &&
           qkeys[queue] == p.ud.deth.qkey.host() && p.payload.size() <= kMtu;
  }
  [[nodiscard]] bool qp1_takes(const Packet& p) const {
    return p.ud.deth.qkey.host() == wire::kGsiQkey && p.payload.size() == wire::kMadLen &&
           std::any_of(pkeys.begin(), pkeys.end(), [&](std::uint16_t own) {
             return wire::pkeys_match(own, p.ud.iba.bth.pkey.host());
           });
  }
  /// Returns the indexes of the queue pairs that receive a packet; kQueues is QP1.
  [[nodiscard]] std::vector<std::size_t> receivers(const Packet& p) const {
    const std::uint16_t dlid = p.ud.iba.lrh.dlid.host();
    const std::uint32_t qpn = p.ud.iba.bth.dest_qp.host();
    std::vector<std::size_t> out;
    if (wire::is_multicast_lid(dlid)) {
      if (!p.ud.iba.global || qpn != wire::kMulticastQpn) return out;
      for (std::size_t g = 0; g < kGroups; ++g)
        for (std::size_t q = 0; q < kQueues; ++q)
          if (kMlids[g] == dlid && group_gid(g) == p.dgid && member[g][q] && takes(q, p))
            out.push_back(q);
      return out;
    }
    if (dlid != lid || (p.ud.iba.global && p.dgid != port_gid(0))) return out;
    for (std::size_t q = 0; q < kQueues; ++q)
      if (qpns[q] == qpn && takes(q, p)) out.push_back(q);
    if (qpn == 1 && qp1_takes(p)) out.push_back(kQueues);
    return out;
  }
};

class Harness final : public SoftFixture {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }

  void run(Input in) {
    for (unsigned steps = 0; !in.empty() && steps < 128; ++steps) step(in);
    poll();
    reset();
    require(mbufs_in_use() == 0);
  }

 private:
  Harness() {
    require(start_eal("fuzz"));
    SoftHcaConfig c = config(0);
    c.port_id = WideCable::get().port;
    c.workers = 2;
    c.attr.pkeys.assign(std::begin(kPartitions), std::end(kPartitions));
    all_pkeys_ = c.attr.pkeys;
    hca_ = SoftHca::create(c).value();
    for (std::size_t i = 0; i < kQueues; ++i) {
      // Worker 0 reads the cable; half of the queue pairs are worker 1's.
      const unsigned worker = i % 2;
      queues_[i] = hca_->create_ud_queue({.pkey = kPartitions[i], .worker = worker}).value();
      port_.qpns[i] = queues_[i]->qpn();
    }
    reset();
  }
  void TestBody() override {}

  /// Puts everything back: the second queue pair has its own Q_Key, all are members of the first
  /// group, and one is a member of each other group.
  void reset() {
    fabric::PortChange change;
    change.lid = kLid[0];
    change.pkeys = all_pkeys_;
    change.up = true;
    set_port(change);
    for (std::size_t q = 0; q < kQueues; ++q) set_qkey(q, q == 1 ? kQkeys[1] : kQkeys[0]);
    for (std::size_t g = 0; g < kGroups; ++g)
      for (std::size_t q = 0; q < kQueues; ++q) set_member(g, q, g == 0 || q == g);
    last_ = Bytes(kMinEthFrame);
  }
  void set_port(const fabric::PortChange& change) {
    if (!hca_->change_port(change)) return;
    port_.lid = change.lid.value_or(port_.lid);
    port_.pkeys = change.pkeys.value_or(port_.pkeys);
    port_.up = change.up.value_or(port_.up);
  }
  void set_qkey(std::size_t queue, std::uint32_t qkey) {
    require(hca_->set_qkey(*queues_[queue], qkey).has_value());
    port_.qkeys[queue] = qkey;
  }
  void set_member(std::size_t group, std::size_t queue, bool member) {
    const bool changes = port_.member[group][queue] != member;
    const wire::Gid gid = group_gid(group);
    const Status done = member ? hca_->attach(*queues_[queue], gid, kMlids[group])
                               : hca_->detach(*queues_[queue], gid, kMlids[group]);
    require(done.has_value() == changes);
    port_.member[group][queue] = member;
  }

  void step(Input& in) {
    const unsigned code = in.octet();
    switch (static_cast<Step>(code & 7)) {
      case Step::kUnicast: return add_frame(in, code, to_queue(in, code));
      case Step::kGroup: return add_frame(in, code, to_group(in, code));
      case Step::kRaw: {
        const auto octets = in.take(in.octet());
        return put({octets.begin(), octets.end()}, code);
      }
      case Step::kAgain:
        for (unsigned n = in.octet() % 80; n > 0; --n) put(last_, code);
        return;
      case Step::kPoll: return poll();
      case Step::kKey: return change_key(in, code);
      case Step::kPort: {
        fabric::PortChange change;
        // The LID changes seldom, because each change builds a new table of 4 MiB.
        change.lid = kLids[(code & 0x68) == 0x68 ? 1 : 0];
        change.up = (code & 16) == 0;
        return set_port(change);
      }
      case Step::kMember:
        return set_member((code >> 3) % kGroups, in.octet() % kQueues, (code & 128) != 0);
    }
  }
  void change_key(Input& in, unsigned code) {
    if ((code & 8) != 0) {
      const std::size_t queue = in.octet() % kQueues;
      return set_qkey(queue, in.one_of(kQkeys));
    }
    fabric::PortChange change;
    change.pkeys.emplace();
    const unsigned chosen = in.octet();
    for (std::size_t i = 0; i < std::size(kPkeys); ++i)
      if ((chosen >> i & 1) != 0) change.pkeys->push_back(kPkeys[i]);
    set_port(change);
  }

  static wire::GrhSpec grh(const wire::Gid& dgid) {
    wire::GrhSpec spec;
    spec.sgid = port_gid(1);
    spec.dgid = dgid;
    return spec;
  }
  [[nodiscard]] wire::UdSpec to_queue(Input& in, unsigned code) const {
    wire::UdSpec spec;
    spec.sl = 5;
    spec.dlid = in.one_of(kLids);
    const std::size_t queue = in.octet() % (kQueues + 2);
    spec.dest_qp = queue < kQueues ? port_.qpns[queue] : queue == kQueues ? 1 : in.number(3);
    if ((code & kGlobal) != 0) spec.grh = grh(port_gid(0));
    return spec;
  }
  static wire::UdSpec to_group(Input& in, unsigned code) {
    const std::size_t group = in.octet() % kGroups;
    wire::UdSpec spec;
    spec.dlid = kMlids[group];
    spec.dest_qp = wire::kMulticastQpn;
    spec.grh = grh(group_gid((code & kGlobal) != 0 ? group + 1 : group));
    return spec;
  }

  /// Most payloads are short, because the time of an input grows with its octets.
  static std::size_t payload_len(unsigned number) {
    return number < 0xe000 ? number % 300 : number % 2100;
  }

  /// Arguments: P_Key, Q_Key, length of the payload (2), number of changed octets; for each of
  /// them, the offset (2) and the octet to add.
  void add_frame(Input& in, unsigned code, wire::UdSpec spec) {
    spec.slid = kLid[1];
    spec.src_qp = 0x49;
    spec.pkey = in.one_of(kPkeys);
    spec.qkey = in.one_of(kQkeys);
    const Bytes payload = counting(payload_len(in.number(2)));
    Bytes iba(wire::kMaxUdPacketLen);
    iba.resize(wire::build_ud_packet(spec, payload, iba));
    Bytes frame = soft_frame(iba);
    frame.resize(sizeof(EthHdr) + iba.size());  // Removes the padding.
    const std::size_t head = spec.grh ? kGlobalHeadLen : kLocalHeadLen;
    if ((code & kImmediate) != 0)
      frame[head] = static_cast<std::byte>(wire::Opcode::kUdSendOnlyImm);
    for (unsigned n = in.octet() & 3; n > 0; --n) {
      std::byte& octet = frame[in.number(2) % frame.size()];
      octet = static_cast<std::byte>(std::to_integer<unsigned>(octet) + in.octet());
    }
    wire::IbaFrame sound;
    if ((code & kUnsealed) == 0 &&
        wire::parse_iba(std::span{frame}.subspan(sizeof(EthHdr)), sound) == wire::FrameError::kNone)
      seal(frame);
    if ((code & kPadded) != 0) frame.resize(std::max(frame.size() + 4, kMinEthFrame));
    last_ = frame;
    put(frame, code);
  }

  void put(const Bytes& frame, unsigned code) {
    if (on_cable_.size() == Cable::kCableLen) poll();
    rte_mbuf* const m = packet(frame, fabric::kNoAh, 0);
    if ((code & kSegments) != 0) split(m, frame.size() / 3);
    require(rte_ring_enqueue(WideCable::get().in[0], m) == 0);
    on_cable_.push_back(frame);
  }
  /// Moves the octets behind the first `at` into a second segment.
  static void split(rte_mbuf* m, std::size_t at) {
    const std::size_t rest = rte_pktmbuf_data_len(m) - at;
    rte_mbuf* const tail = rte_pktmbuf_alloc(Cable::get().pool);
    require(tail != nullptr);
    char* const to = rte_pktmbuf_append(tail, static_cast<std::uint16_t>(rest));
    std::copy_n(rte_pktmbuf_mtod_offset(m, const char*, at), rest, to);
    m->data_len = static_cast<std::uint16_t>(at);
    m->pkt_len = m->data_len;
    require(rte_pktmbuf_chain(m, tail) == 0);
  }

  /// Reads the cable until it is empty, and checks the result of each burst.
  void poll() {
    while (!on_cable_.empty()) {
      Arrivals expected;
      std::uint64_t lost = 0;
      for (std::size_t n = 0; n < UdDatapath::kBurst && !on_cable_.empty(); ++n) {
        if (!expect(on_cable_.front(), expected)) ++lost;
        on_cable_.pop_front();
      }
      const std::uint64_t before = drops();
      for (const unsigned worker : {0U, 1U})
        hca_->poll_function()(*hca_, worker, UdDatapath::kBurst);
      for (std::size_t q = 0; q < kQueues; ++q) compare_queue(*queues_[q], expected[q]);
      compare_mads(expected[kQueues]);
      require(drops() - before == lost);
    }
  }
  /// Adds the packet to those expected. Returns false if it has no receiver.
  bool expect(const Bytes& frame, Arrivals& expected) const {
    Packet p;
    if (!port_.up || !p.read(frame)) return false;
    const auto receivers = port_.receivers(p);
    for (const std::size_t q : receivers) expected[q].push_back(p.arrival());
    return !receivers.empty();
  }
  static void compare_queue(fabric::UdQueue& queue, const std::vector<Arrival>& expected) {
    std::array<rte_mbuf*, SoftUdQueue::kRxRingSize> pkts;
    const std::uint16_t n = queue.rx_burst(pkts.data(), SoftUdQueue::kRxRingSize);
    require(n == expected.size());
    for (std::size_t i = 0; i < n; ++i) {
      const fabric::PacketMeta::Rx& rx = fabric::meta_of(pkts[i]).rx;
      const Arrival& e = expected[i];
      require(pkts[i]->nb_segs == 1 && bytes_of(pkts[i]) == e.payload);
      require(rx.src_qpn == e.src_qpn && rx.slid == e.slid && rx.sl == e.sl);
      require(rx.multicast == e.multicast && (rx.grh_offset != 0) == e.global);
      require(rx.transport == fabric::Transport::kUd);
      rte_pktmbuf_free(pkts[i]);
    }
  }
  void compare_mads(const std::vector<Arrival>& expected) {
    for (const Arrival& e : expected) {
      const auto mad = hca_->mad_port().receive();
      require(mad.has_value() &&
              std::equal(e.payload.begin(), e.payload.end(), mad->bytes.begin(), mad->bytes.end()));
      require(mad->from.lid == e.slid && mad->from.qpn == e.src_qpn && mad->from.sl == e.sl);
    }
    require(!hca_->mad_port().receive().has_value());
  }
  [[nodiscard]] std::uint64_t drops() const { return test::sum_of(hca_->drops()); }

  std::unique_ptr<SoftHca> hca_;
  std::array<fabric::UdQueue*, kQueues> queues_{};
  std::vector<std::uint16_t> all_pkeys_;
  Port port_;
  std::deque<Bytes> on_cable_;
  Bytes last_;
};

}  // namespace
}  // namespace ipoib::soft

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::soft::Harness::instance().run(ipoib::test::Input{ipoib::test::input(data, size)});
  return 0;
}
