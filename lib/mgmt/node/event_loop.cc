// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::mgmt {

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return fail(Errc::kNoResources, "epoll_create1: {}", std::strerror(errno));
  return std::unique_ptr<EventLoop>{new EventLoop{fd}};
}

EventLoop::~EventLoop() {
  close(epoll_fd_);
}

Status EventLoop::watch(int fd, std::uint32_t events, Handler handler) {
  expects_management();
  epoll_event ev{};
  ev.events = events;
  ev.data.fd = fd;
  const int op = handlers_.contains(fd) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(epoll_fd_, op, fd, &ev) != 0)
    return fail(Errc::kNoResources, "cannot watch file descriptor {}: {}", fd,
                std::strerror(errno));
  handlers_[fd] = std::make_shared<Handler>(std::move(handler));
  return {};
}

void EventLoop::unwatch(int fd) {
  expects_management();
  if (handlers_.erase(fd) != 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::wait(Duration timeout, const std::function<void()>& woken) {
  expects_management();
  // Rounded up: waking a moment early would spin until the deadline.
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  std::array<epoll_event, 16> ready;
  const int n =
      epoll_wait(epoll_fd_, ready.data(), static_cast<int>(ready.size()), static_cast<int>(ms));
  woken();
  for (int i = 0; i < n; ++i) {
    const epoll_event& ev = ready[static_cast<std::size_t>(i)];
    const auto it = handlers_.find(ev.data.fd);
    if (it == handlers_.end()) continue;  // unwatched by an earlier handler of this round
    const std::shared_ptr<Handler> handler = it->second;  // survives its unwatch()
    (*handler)(ev.events);
  }
}

}  // namespace ipoib::mgmt
