#include "app/periodic_stats.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ipoib::app {

Result<std::unique_ptr<PeriodicStats>> PeriodicStats::create(
    Cli& cli, mgmt::EventLoop& events, unsigned period_s,
    std::function<void(std::string_view)> print) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) return fail(Errc::kNoResources, "timerfd: {}", std::strerror(errno));
  std::unique_ptr<PeriodicStats> stats{new PeriodicStats{events, fd}};
  const timespec period{static_cast<time_t>(period_s), 0};
  const itimerspec timer{period, period};
  timerfd_settime(fd, 0, &timer, nullptr);
  auto watched = events.watch(fd, EPOLLIN, [fd, &cli, print = std::move(print)](std::uint32_t) {
    std::uint64_t expirations = 0;
    if (read(fd, &expirations, sizeof expirations) != sizeof expirations) return;
    print(cli.execute("show link"));
    print(cli.execute("show port"));
    print(cli.execute("show drops"));
  });
  if (!watched) return tl::make_unexpected(watched.error());
  return stats;
}

PeriodicStats::~PeriodicStats() {
  events_.unwatch(fd_);
  close(fd_);
}

}  // namespace ipoib::app
