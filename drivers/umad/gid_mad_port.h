// SPDX-License-Identifier: BSD-3-Clause
// QP1 of a port of Ethernet link layer, which has no subnet management and no LID. MADs to the
// node's own LID are received by the node itself, for its own subnet administrator; messages of
// connections go to a GID through libibumad.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "drivers/umad/channel.h"
#include "drivers/umad/umad.h"
#include "lib/base/clock.h"
#include "lib/base/counters.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/qp1.h"

namespace ipoib::umad {

struct GidMadConfig {
  std::string device;            ///< "mlx5_0", "rxe0".
  unsigned port = 0;             ///< 0: the first.
  std::uint8_t gid_index = 0;    ///< Index of the port's GID in its table.
  Doorbell* doorbell = nullptr;  ///< Rung on arrivals and changes. Null: the caller polls.
  Duration first_retry = std::chrono::milliseconds(500);  ///< Retry of opening the device; doubles
  Duration max_retry = std::chrono::seconds(5);           ///< up to this.
  std::size_t max_queued = 4096;  ///< Limit of each queue: arrived, local, to send.
};

struct GidMadCounters {
  std::uint64_t received = 0;
  std::uint64_t local = 0;          ///< MADs of the node to itself.
  std::uint64_t undeliverable = 0;  ///< Sent MADs that were returned.
  std::uint64_t malformed = 0;      ///< MADs of invalid length, or without a GRH.
  std::uint64_t unserved = 0;       ///< Requests that this node does not serve; refused.
};

/// Management lcore only. A thread passes MADs to other nodes to the kernel, because resolving a
/// GID may take a second.
class GidMadPort final : public fabric::MadPort {
 public:
  /// Never fails because of a device: a missing device is retried. `library` null: libibumad.
  explicit GidMadPort(GidMadConfig config, std::unique_ptr<Umad> library = nullptr);
  ~GidMadPort() override;

  /// MADs to fabric::kOwnLid are received here, MADs to fabric::kElsewhereLid go to the GID of the
  /// address. kUnavailable while the device is not open, or if the queue is full; a MAD that the
  /// device rejects later is only counted. kInvalidArgument for an invalid address, or a partition
  /// other than the default one.
  Status send(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) override;
  /// MADs from the wire come from fabric::kElsewhereLid and a GID.
  std::optional<fabric::ReceivedMad> receive() override;
  [[nodiscard]] bool polled() const override { return config_.doorbell == nullptr; }
  [[nodiscard]] bool pending() const override { return !received_.empty() || channel_.pending(); }
  [[nodiscard]] fabric::NamedCounters counters() const override;
  [[nodiscard]] std::string problem() const override { return channel_.problem(); }

 private:
  struct Outgoing {
    Peer to;
    fabric::MadBytes mad;
    std::uint32_t answer_ms;
  };
  void take(const Arrived& arrived);
  Status post(const Peer& to, std::span<const std::byte, wire::kMadLen> mad,
              std::uint32_t answer_ms);
  void run_sender();
  Status send_to_self(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad);

  GidMadConfig config_;
  std::unique_ptr<Umad> library_;
  GidMadCounters counters_;
  std::deque<fabric::ReceivedMad> received_;
  Channel channel_;
  Counter sent_, send_failed_;  ///< Written by the sender thread.
  std::mutex mutex_;            ///< Protects outgoing_ and stop_.
  std::condition_variable changed_;
  std::deque<Outgoing> outgoing_;
  bool stop_ = false;
  std::thread sender_;  ///< Last member, because it uses the others.
};

}  // namespace ipoib::umad
