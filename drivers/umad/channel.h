// SPDX-License-Identifier: BSD-3-Clause
// A umad device with its agents: opened when it is present, reopened when it was lost. One thread
// opens, waits and receives; received MADs are stored in a bounded queue.
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

/// Agents for all classes that a port may receive. The fabric simulator terminates a process that
/// receives a class it has not registered.
[[nodiscard]] std::span<const AgentClass> all_agents();
/// Agents for a port without subnet management: connections only.
[[nodiscard]] std::span<const AgentClass> connection_agents();

struct ChannelConfig {
  std::string device;
  unsigned port = 0;  ///< 0: the first.
  std::span<const AgentClass> agents = all_agents();
  Umad* umad = nullptr;          ///< Must outlive the channel.
  Doorbell* doorbell = nullptr;  ///< Rung on arrivals and changes; null: the caller polls.
  Duration first_retry = std::chrono::milliseconds(500);  ///< Retry of opening; doubles every time.
  Duration max_retry = std::chrono::seconds(5);           ///< Limit of the retry interval.
  std::size_t max_queued = 4096;                          ///< Limit of received MADs not taken yet.
};

/// Written by the channel's thread.
struct ChannelCounters {
  Counter opened;      ///< Times the device was opened with its agents.
  Counter lost;        ///< Times it failed after that.
  Counter overflowed;  ///< MADs dropped because the queue was full.
};

/// Management lcore, except send(), session() and problem() (any thread) and the thread inside.
class Channel {
 public:
  explicit Channel(ChannelConfig config);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  /// kUnavailable: not open, or the device rejected the MAD (the text says why). A send to a GID
  /// may block for a second, because the kernel resolves the GID first. The other calls do not wait
  /// for that.
  Status send(const Peer& to, std::span<const std::byte> mad, std::uint32_t answer_ms);
  std::optional<Arrived> take();
  [[nodiscard]] bool pending() const { return queued_.load(std::memory_order_acquire) != 0; }

  /// A new number each time the device is opened; 0 while it is not open.
  [[nodiscard]] std::uint64_t session() const;
  /// Reason why the device is not open; empty if it is open.
  [[nodiscard]] std::string problem() const;
  /// Closes the device, which is no longer usable, and opens it again.
  void reopen() {
    expects_management();
    reopen_.store(true, std::memory_order_relaxed);
  }

  [[nodiscard]] const ChannelCounters& counters() const { return counters_; }

 private:
  struct Device {
    int fd = -1;
    std::map<std::uint8_t, int> agents;  ///< Indexed by management class.
  };

  void run();
  Result<Device> open();
  void close(const Device& device);
  Duration use(const Device& device);
  void receive(int fd);
  void fail_session(const std::string& why);
  void report(const std::string& problem);
  void ring();
  [[nodiscard]] bool pause(Duration duration);

  ChannelConfig config_;
  ChannelCounters counters_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> reopen_{false};
  std::atomic<std::size_t> queued_{0};
  std::mutex device_mutex_;  ///< Locked before mutex_; held while a MAD is sent.
  Device device_;
  mutable std::mutex mutex_;  ///< Protects the members from here to queue_.
  std::condition_variable stopping_;
  bool open_ = false;
  std::uint64_t session_ = 0;
  std::string problem_ = "not opened yet";
  std::deque<Arrived> queue_;
  std::string reported_;  ///< Used by the thread only.
  std::thread thread_;    ///< Last member, because it uses the others.
};

}  // namespace ipoib::umad
