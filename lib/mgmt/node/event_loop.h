// SPDX-License-Identifier: BSD-3-Clause
// The only place where the management lcore may block: epoll over file descriptors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/base/result.h"

namespace ipoib::mgmt {

class EventLoop {
 public:
  /// Called with the epoll events that are ready.
  using Handler = std::function<void(std::uint32_t events)>;

  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Watches a descriptor (EPOLLIN, EPOLLOUT …), or replaces its events and handler.
  Status watch(int fd, std::uint32_t events, Handler handler);
  /// A handler may unwatch any descriptor, also its own. Unknown descriptors are ignored.
  void unwatch(int fd);

  /// Waits for events up to `timeout` and calls their handlers, after `woken`.
  void wait(
      Duration timeout, const std::function<void()>& woken = [] {});

 private:
  explicit EventLoop(int epoll_fd) : epoll_fd_{epoll_fd} {}

  int epoll_fd_;
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
};

}  // namespace ipoib::mgmt
