// SPDX-License-Identifier: BSD-3-Clause
// Two software HCAs with connected queue pairs, in virtual time. The cable between them loses,
// repeats and reorders frames; a seed decides which.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/rc.h"
#include "tests/support/drops.h"
#include "tests/support/mbufs.h"
#include "tests/support/sim_tsc.h"
#include "tests/support/soft_frames.h"

namespace ipoib::soft {

using ipoib::test::sim_tsc;

using test::Bytes;
using test::bytes_of;

/// Faults of the cable in both directions, as probabilities.
struct Faults {
  double loss = 0;
  double repetition = 0;
  double reordering = 0;
};

/// One HCA and its half of a connection.
struct Peer {
  std::unique_ptr<SoftHca> hca;
  fabric::ReceiveQueue* rx = nullptr;
  fabric::ConnectedQueue* queue = nullptr;
  unsigned workers = 1;

  void poll(unsigned worker) const { hca->poll_function()(*hca, worker, soft::UdDatapath::kBurst); }
  /// One loop of each worker.
  void poll() const {
    for (unsigned worker = 0; worker < workers; ++worker) poll(worker);
  }
  [[nodiscard]] fabric::ConnectedQueueInfo info() const { return hca->info(*queue); }
  [[nodiscard]] std::uint64_t drops(Drop reason) const { return hca->drops().get(reason); }
  [[nodiscard]] std::uint64_t all_drops() const { return test::sum_of(hca->drops()); }
};

/// Parameters of a connection. Both ends have the same, except the PSNs.
struct Connection {
  fabric::Transport transport = fabric::Transport::kRc;
  fabric::ReceiveQueueConfig receive{};
  std::uint16_t send_depth = 128;
  std::uint8_t path_mtu = 4;
  std::uint8_t min_rnr_timer = 8;
  fabric::ReadyToSend send{.ack_timeout = 8};   ///< 1.05 ms
  std::uint32_t first_psn[2] = {0xff'fff0, 5};  ///< First PSN that each end sends.
  bool global = false;
};

/// The clock runs at 1 GHz, so one cycle is a nanosecond.
inline constexpr std::uint64_t kHz = 1'000'000'000;
inline constexpr std::uint64_t kStepTsc = 10'000;

/// The two HCAs and the cable. The fuzz target uses them without a test fixture.
class SimHcaPair {
 public:
  static constexpr unsigned kMbufs = 16'383;
  static constexpr unsigned kShares = 255;  ///< Mbufs of share_pool().
  static constexpr unsigned kCableLen = 1023;
  static constexpr unsigned kMaxWorkers = 3;
  static constexpr std::uint16_t kPeerLid[2] = {3, 2};
  static constexpr std::uint64_t kPeerGuid[2] = {0x0002'c903'00a1'b204, 0x0002'c903'00a1'b207};

  explicit SimHcaPair(std::uint64_t seed = 1);
  ~SimHcaPair();
  SimHcaPair(const SimHcaPair&) = delete;
  SimHcaPair& operator=(const SimHcaPair&) = delete;

  static rte_mempool* pool();
  static rte_mempool* share_pool();
  static SoftHcaConfig config(int side);
  /// Destroys the HCAs and empties the cable.
  void clear();
  void make_hcas();
  void make_hcas(unsigned workers);
  /// Gives each side one queue of worker Connection::receive.worker, ready to send to the other.
  void connect(const Connection& setup);
  fabric::ConnectedQueue* make_queue(int side, const Connection& setup);
  [[nodiscard]] fabric::ReadyToReceive receive_attr(int side, const Connection& setup) const;

  /// One loop of each worker, then the cable between them, then 10 us.
  void step();
  /// Steps until the condition holds. Returns false if it does not within `steps`.
  bool run(const std::function<bool()>& until, unsigned steps = 1'000'000);
  void run(unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) step();
  }
  /// Removes and returns the frames on the cable towards side `to`.
  std::vector<Bytes> cut(int to);
  /// Removes and returns the oldest frame that side `from` has sent and the cable has not carried.
  rte_mbuf* sent_frame(int from);
  /// Puts a frame on the cable towards a side. It passes no fault.
  void put(int to, std::span<const std::byte> frame);

  static rte_mbuf* message(std::span<const std::byte> octets, std::size_t segment = 2048) {
    return test::mbuf_of(pool(), octets, segment);
  }
  /// Sends a message, and polls. False: the queue pair has not taken it.
  bool send(int side, std::span<const std::byte> octets, std::size_t segment = 2048);
  /// Returns the messages that rx_burst delivers, and frees their mbufs.
  std::vector<Bytes> receive(int side);

  Peer peers[2];
  Faults faults;
  std::set<std::uint16_t> broken_lids;  ///< Frames to these LIDs are lost.
  std::mt19937_64 random;
  std::vector<Bytes>* seen = nullptr;  ///< If not null, every frame sent is appended.
  // Number of frames that reached a side.
  std::uint64_t delivered[2] = {0, 0};
  std::uint64_t delivered_acks[2] = {0, 0};  ///< Number of ACKs among them.

 private:
  struct Late {
    rte_mbuf* frame;
    unsigned steps;
  };
  bool happens(double probability);
  void carry(int from);
  void deliver(int to, rte_mbuf* frame);

  std::deque<Late> late_[2];
};

/// `len` octets that differ for each `number`.
[[nodiscard]] Bytes pattern(std::uint32_t number, std::size_t len);
/// The headers of a soft frame.
[[nodiscard]] wire::Bth bth_of(std::span<const std::byte> frame);
[[nodiscard]] wire::Aeth aeth_of(std::span<const std::byte> frame);
/// Changes the BTH of a frame and corrects its ICRC.
void edit(Bytes& frame, const std::function<void(wire::Bth&)>& change);

}  // namespace ipoib::soft
