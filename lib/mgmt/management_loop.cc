// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/management_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ipoib::mgmt {

Result<std::unique_ptr<ManagementLoop>> ManagementLoop::create() {
  auto events = EventLoop::create();
  if (!events) return tl::make_unexpected(events.error());
  std::unique_ptr<ManagementLoop> loop{new ManagementLoop{std::move(*events)}};
  const int fd = loop->doorbell_.eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return fail(Errc::kNoResources, "eventfd: {}", std::strerror(errno));
  auto watched = loop->events_->watch(fd, EPOLLIN, [fd](std::uint32_t) {
    eventfd_t rung;
    eventfd_read(fd, &rung);
  });
  if (!watched) return tl::make_unexpected(watched.error());
  return loop;
}

ManagementLoop::~ManagementLoop() {
  if (doorbell_.eventfd < 0) return;
  events_->unwatch(doorbell_.eventfd);
  close(doorbell_.eventfd);
}

void ManagementLoop::request_stop() {
  stop_requests_.fetch_add(1, std::memory_order_relaxed);
  eventfd_write(doorbell_.eventfd, 1);
}

void ManagementLoop::post(std::function<void()> task) {
  {
    const std::lock_guard lock{tasks_mutex_};
    tasks_.push_back(std::move(task));
  }
  eventfd_write(doorbell_.eventfd, 1);
}

bool ManagementLoop::has_tasks() {
  const std::lock_guard lock{tasks_mutex_};
  return !tasks_.empty();
}

void ManagementLoop::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock{tasks_mutex_};
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void ManagementLoop::announce_stop() {
  if (stop_hook_) stop_hook_();
}

}  // namespace ipoib::mgmt
