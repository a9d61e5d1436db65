// SPDX-License-Identifier: BSD-3-Clause
// Any connected frames arrive at a port with open connections. Every frame ends in a message, as an
// ACK or under one counter, and every mbuf returns to its pool.
//
// Input: one octet of options, then steps of one octet each with their arguments; see Step.
#include <rte_mempool.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/eal.h"
#include "tests/support/sim_hca_pair.h"
#include "tests/support/vectors.h"

namespace ipoib::soft {
namespace {

using fabric::Transport;
using test::Input;
using test::require;

/// The low 3 bits of a step's octet.
enum class Step : unsigned {
  kFrame,  ///< A frame that the connection checks: options, opcode, PSN, AETH, length.
  kAck,    ///< An ACK that the connection checks: options, PSN, AETH, length.
  kRaw,    ///< A frame of the next octets: length. Bit 3: QPN and ICRC stay unchanged too.
  /// The port sends a message: length. Bit 3: in mbufs that hold a packet each, else in shorter
  /// ones; bit 4: the port is not polled behind it.
  kSend,
  kTake,      ///< The user of the port takes its messages.
  kTime,      ///< Time passes: power of two.
  kPeerSees,  ///< The peer receives the port's frames, and answers.
  kEnd,       ///< The connection is closed and made again.
};

/// Bits of the first octet.
enum Option : unsigned {
  kUnreliable = 1,
  kLargeMtu = 2,  ///< The path MTU is 2,048 instead of 256.
  kLast = 0xf8,  ///< If all are set, the HCAs are destroyed at the end with their open connections.
};

/// Side 0 is the port. Side 1 is an honest peer, in whose name the input sends frames too. The HCAs
/// stay for the next input, because the creation of two takes far longer than an input. Time and
/// counters go on.
class Harness : public SimHcaPair {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }

  void run(Input in) {
    const unsigned options = in.octet();
    setup_.path_mtu = (options & kLargeMtu) != 0 ? 4 : 1;
    mtu_ = wire::mtu_octets(setup_.path_mtu);
    begin((options & kUnreliable) == 0 ? Transport::kRc : Transport::kUc);
    for (unsigned steps = 0; !in.empty() && steps < 256; ++steps)
      if (step(in)) peers[0].poll();
    check_books();
    close_all((options & kLast) == kLast && destroys());
    require(rte_mempool_avail_count(pool()) == available_);
    require(rte_mempool_avail_count(share_pool()) == kShares);
  }

 private:
  Harness() {
    require(start_eal("fuzz"));
    available_ = rte_mempool_avail_count(pool());
    setup_.receive = {.depth = 4, .max_message = 10'000};
    setup_.send_depth = 8;
  }

  /// Begins each input at the same offset between two ticks of the timers.
  void begin(Transport transport) {
    constexpr std::uint64_t kManyTicks = std::uint64_t{1} << 20;
    sim_tsc = (sim_tsc / kManyTicks + 1) * kManyTicks;
    setup_.transport = transport;
    connect(setup_);
    for (int side : {0, 1}) delivered[side] = delivered_acks[side] = 0;
    frames_in_messages_ = raw_ = 0;
    losses_before_ = losses();
  }
  /// New HCAs take as long as ten inputs, so most inputs with kLast keep them. An input that is run
  /// alone, and each seed in a replay, destroys them.
  [[nodiscard]] bool destroys() { return ++endings_ <= 64 || endings_ % 16 == 0; }
  /// Removes everything of this input except the HCAs.
  void close_all(bool hcas_too) {
    if (hcas_too) return clear();
    close();
    for (int side : {0, 1}) (void)receive(side);
  }
  void close() {
    for (int side : {0, 1}) {
      (void)peers[side].hca->info(*peers[side].queue);
      peers[side].hca->destroy_connected_queue(*peers[side].queue);
    }
    // A full cable stops a port, and the frames that it still has to send may fill the cable again.
    for (int round = 0; round < 3; ++round) {
      for (int side : {0, 1}) peers[side].poll();
      (void)cut(1);
      (void)cut(0);
    }
    for (int side : {0, 1})
      while (peers[side].hca->next_queue_event()) {
      }
  }

  /// False: the port must not be polled now.
  bool step(Input& in) {
    const unsigned code = in.octet();
    switch (static_cast<Step>(code & 7)) {
      case Step::kFrame: give(in, code >> 3, std::nullopt); break;
      case Step::kAck: give(in, code >> 3, 0x11); break;
      case Step::kRaw: raw(in, code); break;
      case Step::kSend: return send_message(in, code);
      case Step::kTake: take(); break;
      case Step::kTime: sim_tsc += std::uint64_t{1} << (in.octet() & 31); break;
      case Step::kPeerSees: peer_sees(); break;
      case Step::kEnd: reopen(); break;
    }
    return true;
  }
  void raw(Input& in, unsigned code) {
    const auto octets = in.take(in.octet());
    if (octets.size() < kMinEthFrame) return;
    Bytes frame{octets.begin(), octets.end()};
    if ((code & 8) == 0) address(frame);
    put(0, frame);
    ++raw_;
  }
  bool send_message(Input& in, unsigned code) {
    const std::size_t segment = (code & 8) != 0 ? mtu_ : mtu_ - 9;
    rte_mbuf* m = message(pattern(code, in.number(2) % 12'000), segment);
    if (peers[0].queue->tx_burst(&m, 1) != 1) rte_pktmbuf_free(m);
    return (code & 16) == 0;
  }

  /// Addresses the frame to the port's queue pair, whose number differs each time, and corrects the
  /// ICRC.
  void address(Bytes& frame) const {
    wire::IbaFrame sound;
    if (wire::parse_iba(std::span{frame}.subspan(sizeof(EthHdr)), sound) != wire::FrameError::kNone)
      return;
    edit(frame, [this](wire::Bth& bth) { bth.dest_qp.set(peers[0].queue->qpn()); });
  }

  /// Gives the port a frame from the peer's LID and QPN. Options: bit 0: the ICRC is not computed,
  /// 1: a GRH, 2: the PSN is absolute instead of relative to the one that the port expects or has
  /// sent, 3 and 4: pad.
  void give(Input& in, unsigned options, std::optional<unsigned> opcode) {
    const unsigned operation = opcode.value_or(in.octet());
    const unsigned psn = (options & 4) != 0 ? in.number(3) : base_psn(operation) + in.octet() - 8;
    const unsigned extra = in.number(4);
    const std::size_t len = in.number(2) % (mtu_ + 44);
    Bytes frame = test::unhex("02494200000302494200000288b5");
    const bool global = (options & 2) != 0;
    const std::size_t body = 12 + (operation == 0x11 ? 4 : 0) + (len + 3) / 4 * 4 + 4;
    const std::size_t packet = 8 + (global ? 40 : 0) + body;
    const wire::Lrh lrh{.vl_lver = 0,
                        .sl_lnh = static_cast<std::uint8_t>(global ? 3 : 2),
                        .dlid = wire::Be16{kPeerLid[0]},
                        .resv_pktlen = wire::Be16{static_cast<std::uint16_t>(packet / 4)},
                        .slid = wire::Be16{kPeerLid[1]}};
    const wire::Bth bth{.opcode = static_cast<std::uint8_t>(operation),
                        .flags = static_cast<std::uint8_t>(0x40 | (options & 0x18) << 1),
                        .pkey = wire::Be16{0xffff},
                        .resv8a = 0,
                        .dest_qp = wire::Be24{peers[0].queue->qpn()},
                        .ack_resv = 0x80,
                        .psn = wire::Be24{psn}};
    append(frame, wire::bytes_of(lrh));
    if (global) {
      const auto prefix = wire::kDefaultGidPrefix;
      append(frame,
             wire::bytes_of(wire::Grh{.version_tclass_flow = wire::Grh::pack(0, 0),
                                      .pay_len = wire::Be16{static_cast<std::uint16_t>(body)},
                                      .next_header = wire::Grh::kNextHeaderIba,
                                      .hop_limit = 0,
                                      .sgid = wire::Gid::of(prefix, kPeerGuid[1]),
                                      .dgid = wire::Gid::of(prefix, kPeerGuid[0])}));
    }
    append(frame, wire::bytes_of(bth));
    if (operation == 0x11) append(frame, wire::bytes_of(wire::Be32{extra}));
    frame.resize(sizeof(EthHdr) + packet);
    if ((options & 1) == 0) seal(frame);
    frame.resize(std::max(frame.size(), kMinEthFrame));
    put(0, frame);
  }
  static void append(Bytes& to, std::span<const std::byte> octets) {
    to.insert(to.end(), octets.begin(), octets.end());
  }
  [[nodiscard]] unsigned base_psn(unsigned operation) const {
    const auto& q = static_cast<const SoftConnectedQueue&>(*peers[0].queue);
    return operation == 0x11 ? q.requester.una : q.responder.psn;
  }

  void take() {
    for (const Bytes& m : receive(0)) {
      require(m.size() <= setup_.receive.max_message);
      frames_in_messages_ += std::max<std::size_t>((m.size() + mtu_ - 1) / mtu_, 1);
    }
  }
  void peer_sees() {
    peers[0].poll();
    for (const Bytes& f : cut(1)) put(1, f);
    peers[1].poll();
    for (const Bytes& f : cut(0)) put(0, f);
    (void)receive(1);
  }
  void reopen() {
    close();
    connect(setup_);
  }

  /// Returns how many frames side 0 has dropped.
  [[nodiscard]] std::uint64_t losses() const {
    return peers[0].all_drops() - peers[0].drops(Drop::kIbTxFlushed) -
           peers[0].drops(Drop::kIbTxTooLong);
  }
  /// Checks the counters of side 0 after its last frame.
  void check_books() {
    for (int i = 0; i < 4; ++i) peers[0].poll();
    take();
    const auto& q = static_cast<const SoftConnectedQueue&>(*peers[0].queue);
    const rte_mbuf* const message = q.responder.first;
    const std::uint64_t begun = message != nullptr ? (message->pkt_len + mtu_ - 1) / mtu_ : 0;
    const std::uint64_t ended = frames_in_messages_ + begun + losses() - losses_before_;
    // The frames without a message or counter are good ACKs and MADs.
    require(ended <= delivered[0] && delivered[0] <= ended + delivered_acks[0] + raw_);
    const auto c = peers[0].info().counters;
    const std::uint32_t waiting = q.requester.tail - q.requester.head;
    require(c.tx_messages == c.tx_done + c.tx_flushed + waiting);
  }

  Connection setup_;
  unsigned mtu_ = 256;  ///< Path MTU, octets.
  std::uint64_t frames_in_messages_ = 0;
  std::uint64_t raw_ = 0;
  std::uint64_t losses_before_ = 0;
  unsigned available_ = 0;
  unsigned endings_ = 0;  ///< Inputs with kLast.
};

}  // namespace
}  // namespace ipoib::soft

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::soft::Harness::instance().run(ipoib::test::Input{ipoib::test::input(data, size)});
  return 0;
}
