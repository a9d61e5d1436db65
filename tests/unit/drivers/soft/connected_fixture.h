// SPDX-License-Identifier: BSD-3-Clause
// Two software HCAs on a cable that loses, repeats and reorders frames from a seed, in virtual
// time, with connected queue pairs between them.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "drivers/soft/soft_hca.h"
#include "lib/fabric/packet_meta.h"
#include "lib/wire/rc.h"
#include "tests/unit/drivers/soft/frames.h"

namespace ipoib::soft {

using test::Bytes;

/// What befalls the frames of both directions; probabilities.
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

  void poll() const { hca->poll_function()(*hca, soft::Datapath::kBurst); }
  [[nodiscard]] fabric::ConnectedQueueInfo info() const { return hca->info(*queue); }
  [[nodiscard]] std::uint64_t drops(Drop reason) const { return hca->drops().get(reason); }
  [[nodiscard]] std::uint64_t all_drops() const;
};

/// How a connection is made; both ends alike but for the PSNs.
struct Connection {
  fabric::Transport transport = fabric::Transport::kRc;
  fabric::ReceiveQueueConfig receive{};
  std::uint16_t send_depth = 128;
  std::uint8_t path_mtu = 4;
  std::uint8_t min_rnr_timer = 8;
  fabric::ReadyToSend send{.ack_timeout = 8};   ///< 1.05 ms.
  std::uint32_t first_psn[2] = {0xff'fff0, 5};  ///< What each end sends from.
  bool global = false;
};

/// A clock of 1 GHz: one cycle is a nanosecond.
inline constexpr std::uint64_t kHz = 1'000'000'000;
inline constexpr std::uint64_t kStepTsc = 10'000;

/// The world of these tests; also of the fuzz target, which has no test around it.
class ConnectedWorld {
 public:
  static constexpr unsigned kMbufs = 16'383;
  static constexpr unsigned kCableLen = 1023;
  static constexpr std::uint16_t kPeerLid[2] = {3, 2};
  static constexpr std::uint64_t kPeerGuid[2] = {0x0002'c903'00a1'b204, 0x0002'c903'00a1'b207};

  explicit ConnectedWorld(std::uint64_t seed = 1);
  ~ConnectedWorld();
  ConnectedWorld(const ConnectedWorld&) = delete;
  ConnectedWorld& operator=(const ConnectedWorld&) = delete;

  static rte_mempool* pool();
  static SoftHcaConfig config(int side);
  /// No HCA, and nothing on the cable.
  void clear();
  void make_hcas();
  /// One queue each, ready to send to each other.
  void connect(const Connection& setup);
  fabric::ConnectedQueue* make_queue(int side, const Connection& setup);
  [[nodiscard]] fabric::ReadyToReceive receive_attr(int side, const Connection& setup) const;

  /// One loop of both workers, the cable between, and 10 us.
  void step();
  /// Until it holds; false: not within `steps`.
  bool run(const std::function<bool()>& until, unsigned steps = 1'000'000);
  void run(unsigned steps) {
    for (unsigned i = 0; i < steps; ++i) step();
  }
  /// Takes everything that side `to` was sent and has not seen.
  std::vector<Bytes> cut(int to);
  /// Puts a frame on the cable towards a side, behind all faults.
  void put(int to, std::span<const std::byte> frame);

  /// The message in mbufs of at most `segment` octets.
  static rte_mbuf* message(std::span<const std::byte> octets, std::size_t segment = 2048);
  static Bytes bytes_of(const rte_mbuf* m);
  bool send(int side, std::span<const std::byte> octets, std::size_t segment = 2048);
  /// What came, by rx_burst; mbufs are freed.
  std::vector<Bytes> receive(int side);

  Peer peers[2];
  Faults faults;
  std::mt19937_64 random;
  std::vector<Bytes>* seen = nullptr;  ///< Not null: every frame sent is added.
  // Frames that reached a side.
  std::uint64_t delivered[2] = {0, 0};
  std::uint64_t delivered_acks[2] = {0, 0};  ///< Those of them.

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

/// Cycles of the world.
extern std::uint64_t world_tsc;

/// `len` octets that are different for each `number`.
[[nodiscard]] Bytes pattern(std::uint32_t number, std::size_t len);
/// Of a soft frame.
[[nodiscard]] wire::Bth bth_of(std::span<const std::byte> frame);
[[nodiscard]] wire::Aeth aeth_of(std::span<const std::byte> frame);
/// Changes the BTH of a frame and makes its ICRC right again.
void edit(Bytes& frame, const std::function<void(wire::Bth&)>& change);

}  // namespace ipoib::soft
