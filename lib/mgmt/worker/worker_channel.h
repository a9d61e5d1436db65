// SPDX-License-Identifier: BSD-3-Clause
// Management's end of the rings to and from one worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>

#include "lib/base/result.h"
#include "lib/msg/worker_messages.h"

struct rte_ring;

namespace ipoib::mgmt {

/// Messages down keep their order and are never lost: a backlog keeps those that the ring does not
/// accept.
class WorkerChannel {
 public:
  /// `prefix`: first part of the rings' names, which are EAL-wide.
  static Result<std::unique_ptr<WorkerChannel>> create(unsigned worker, int socket,
                                                       std::string_view prefix = "ipoib_");
  ~WorkerChannel();
  WorkerChannel(const WorkerChannel&) = delete;
  WorkerChannel& operator=(const WorkerChannel&) = delete;

  void send(const msg::Down& message);
  /// Messages given to send() so far; fwd::Worker::applied() follows it.
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  /// Retries the backlog; call once per turn of the loop.
  void flush();
  /// Messages that wait for room in the ring.
  [[nodiscard]] std::size_t waiting() const { return backlog_.size(); }

  /// Takes up to out.size() messages and returns their number.
  [[nodiscard]] std::size_t receive(std::span<msg::Up> out);
  [[nodiscard]] bool has_messages() const;

  /// Frees every mbuf still in the rings or the backlog. Precondition: the worker has stopped.
  void drain();

  [[nodiscard]] rte_ring* up() const { return up_; }
  [[nodiscard]] rte_ring* down() const { return down_; }

 private:
  WorkerChannel(rte_ring* up, rte_ring* down) : up_{up}, down_{down} {}

  rte_ring* up_;
  rte_ring* down_;
  std::deque<msg::Down> backlog_;
  std::uint64_t sent_ = 0;
};

}  // namespace ipoib::mgmt
