// SPDX-License-Identifier: BSD-3-Clause
// An open umad device with its agents: opened when it is there, opened again when it is lost. One
// thread opens, waits and receives; what arrived lies in a bounded queue.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "drivers/umad/umad.h"
#include "lib/base/clock.h"
#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/base/doorbell.h"

namespace ipoib::umad {

/// For all that anybody may send a port. The fabric simulator ends a process that is sent a class
/// it has not registered.
[[nodiscard]] std::span<const AgentClass> all_agents();
/// For a port that has no subnet management: connections alone.
[[nodiscard]] std::span<const AgentClass> connection_agents();

struct ChannelConfig {
  std::string device;
  unsigned port = 0;  ///< 0: the first.
  std::span<const AgentClass> agents = all_agents();
  Umad* umad = nullptr;          ///< Outlives the channel.
  Doorbell* doorbell = nullptr;  ///< Rung when something arrived or changed; null: nobody sleeps.
  Duration first_retry = std::chrono::milliseconds(500);  ///< Of opening; doubles up to the most.
  Duration most_retry = std::chrono::seconds(5);
  std::size_t most_queued = 4096;  ///< MADs that arrived and were not taken.
};

/// Of the channel's thread.
struct ChannelCounters {
  Counter opened;      ///< Times the device was opened, agents and all.
  Counter lost;        ///< Times it failed after that.
  Counter overflowed;  ///< MADs that found the queue full.
};

/// Everything but the thread inside: management lcore; send(), session() and problem() any thread.
class Channel {
 public:
  explicit Channel(ChannelConfig config);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  /// kUnavailable: not open, or the device did not take it (then the text says why). To a GID it
  /// may last a second: the kernel resolves it first. The other calls do not wait for that.
  Status send(const Peer& to, std::span<const std::byte> mad, std::uint32_t answer_ms);
  std::optional<Arrived> take();
  [[nodiscard]] bool pending() const { return queued_.load(std::memory_order_acquire) != 0; }

  /// Another number each time the device was opened; 0 while it is not open.
  [[nodiscard]] std::uint64_t session() const;
  /// Why the device is not open; empty when it is.
  [[nodiscard]] std::string problem() const;
  /// Closes the device, which is of no use any more, and opens it again.
  void reopen() {
    expects_management();
    reopen_.store(true, std::memory_order_relaxed);
  }

  [[nodiscard]] const ChannelCounters& counters() const { return counters_; }

 private:
  struct Device {
    int fd = -1;
    std::map<std::uint8_t, int> agents;  ///< By management class.
  };

  void run();
  Result<Device> open();
  void close(const Device& device);
  Duration use(const Device& device);
  void receive(int fd);
  void give_up(const std::string& why);
  void report(const std::string& problem);
  void ring();
  [[nodiscard]] bool pause(Duration duration);

  ChannelConfig config_;
  ChannelCounters counters_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> reopen_{false};
  std::atomic<std::size_t> queued_{0};
  std::mutex device_mutex_;  ///< Taken before the other one; held as long as a MAD takes to leave.
  Device device_;
  mutable std::mutex mutex_;  ///< Of what follows, up to the queue.
  std::condition_variable stopping_;
  bool open_ = false;
  std::uint64_t session_ = 0;
  std::string problem_ = "not opened yet";
  std::deque<Arrived> queue_;
  std::string reported_;  ///< The thread's own.
  std::thread thread_;    ///< Last: it uses the others.
};

}  // namespace ipoib::umad
