// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/periodic.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ipoib::app {

Result<std::unique_ptr<Periodic>> Periodic::create(mgmt::EventLoop& events,
                                                   std::chrono::nanoseconds period,
                                                   std::function<void()> tick) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) return fail(Errc::kNoResources, "timerfd: {}", std::strerror(errno));
  std::unique_ptr<Periodic> timer{new Periodic{events, fd}};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const timespec interval{seconds.count(), (period - seconds).count()};
  const itimerspec times{interval, interval};
  if (timerfd_settime(fd, 0, &times, nullptr) != 0)
    return fail(Errc::kNoResources, "timerfd: {}", std::strerror(errno));
  auto watched = events.watch(fd, EPOLLIN, [fd, tick = std::move(tick)](std::uint32_t) {
    std::uint64_t expirations = 0;
    if (read(fd, &expirations, sizeof expirations) == sizeof expirations) tick();
  });
  if (!watched) return tl::make_unexpected(watched.error());
  return timer;
}

Periodic::~Periodic() {
  events_.unwatch(fd_);
  close(fd_);
}

}  // namespace ipoib::app
