// SPDX-License-Identifier: BSD-3-Clause
// QP1 of a port of Ethernet link layer. There is no subnet management there, and no LID: what goes
// to the node's own one comes right back, for its own subnet administrator; messages of connections
// go through libibumad to a GID.
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

namespace ipoib::umad {

struct GidMadConfig {
  std::string device;            ///< "mlx5_0", "rxe0".
  unsigned port = 0;             ///< 0: the first.
  std::uint8_t gid_index = 0;    ///< Of the port's GID in its table.
  Doorbell* doorbell = nullptr;  ///< Rung when MADs came. Null: receive() is called now and then.
  Duration first_retry = std::chrono::milliseconds(500);  ///< Of opening the device; doubles
  Duration most_retry = std::chrono::seconds(5);          ///< up to this.
  std::size_t most_queued = 4096;  ///< MADs that nobody has taken, of the wire, and own ones.
};

struct GidMadCounters {
  std::uint64_t received = 0;
  std::uint64_t local = 0;          ///< Of the node to itself.
  std::uint64_t undeliverable = 0;  ///< Of ours, returned.
  std::uint64_t malformed = 0;      ///< Of a length no MAD has, or without a GRH.
  std::uint64_t unserved = 0;       ///< Requests for what nobody here does; told so.
};

/// Management lcore only; MADs to others are given to the kernel by a thread, as it may take a
/// second to find out where a GID is.
class GidMadPort final : public fabric::MadPort {
 public:
  /// Never fails for the sake of a device: one that is not there is tried again. `library` null:
  /// libibumad.
  explicit GidMadPort(GidMadConfig config, std::unique_ptr<Umad> library = nullptr);
  ~GidMadPort() override;

  /// To fabric::kOwnLid: received here. To fabric::kElsewhereLid: by the address's GID.
  /// kUnavailable while the device is not open, or too many wait; what it then does not take is
  /// counted. kInvalidArgument for an address that cannot be, a partition other than the default
  /// one.
  Status send(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) override;
  /// Those of the wire come from fabric::kElsewhereLid and a GID.
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
  Counter sent_, send_failed_;  ///< Of the thread.
  std::mutex mutex_;            ///< Of what follows.
  std::condition_variable changed_;
  std::deque<Outgoing> outgoing_;
  bool stop_ = false;
  std::thread sender_;  ///< Last: it uses the others.
};

}  // namespace ipoib::umad
