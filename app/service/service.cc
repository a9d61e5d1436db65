// SPDX-License-Identifier: BSD-3-Clause
#include "app/service/service.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "lib/base/log.h"
#include "lib/mgmt/management_loop.h"
#include "lib/mgmt/node_stats.h"

namespace ipoib::app {
namespace {

constexpr std::chrono::seconds kStatusPeriod{1};
/// Down interfaces that the status line names at most; people read it.
constexpr std::size_t kNamedDown = 3;

/// Replaces control characters: a line break would start another assignment of sd_notify(3).
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return text;
}

void notify(const std::string& state) {
  if (const int error = sd_notify(0, state.c_str()); error < 0)
    log(LogArea::kApp, LogLevel::kWarning, "cannot notify the service manager of \"{}\": {}", state,
        std::strerror(-error));
}

/// Returns the number of rows and of those that are up; appends the others to `down`.
template <class Row>
std::string count_up(const std::vector<Row>& rows, std::string_view kind,
                     std::vector<std::string>& down) {
  std::size_t up = 0;
  for (const Row& row : rows) {
    if (row.state == "up") {
      ++up;
      continue;
    }
    std::string text = fmt::format("{} {}", row.name, row.state);
    if constexpr (requires { row.reason; })
      if (!row.reason.empty()) text += ": " + row.reason;
    down.push_back(std::move(text));
  }
  return fmt::format("{} of {} {} up", up, rows.size(), kind);
}

}  // namespace

bool Watchdog::due(const std::vector<std::uint64_t>& loops) {
  reported_.resize(loops.size());
  if (++checks_ < kChecks / 2) return false;
  for (std::size_t i = 0; i < loops.size(); ++i)
    if (loops[i] == reported_[i]) return false;
  reported_ = loops;
  checks_ = 0;
  return true;
}

std::string service_status(const mgmt::NodeView& view) {
  std::vector<std::string> down;
  std::string text = count_up(view.links(), "links", down);
  text += ", " + count_up(view.ports(), "ports", down);
  if (!view.forward_info().forwarding) text += ", forwarding stopped";
  for (std::size_t i = 0; i < std::min(down.size(), kNamedDown); ++i) text += "; " + down[i];
  if (down.size() > kNamedDown) text += fmt::format("; and {} more", down.size() - kNamedDown);
  return one_line(std::move(text));
}

void notify_service_manager(std::string_view status) {
  notify("STATUS=" + one_line(std::string{status}));
}

Result<std::unique_ptr<Service>> Service::create(const mgmt::NodeFaces& node) {
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return nullptr;
  std::unique_ptr<Service> service{new Service{node}};
  auto status_timer = Periodic::create(node.loop.events(), kStatusPeriod,
                                       [s = service.get()] { s->update_status(); });
  if (!status_timer) return tl::make_unexpected(status_timer.error());
  service->status_timer_ = std::move(*status_timer);

  std::uint64_t limit_us = 0;
  if (const int wanted = sd_watchdog_enabled(0, &limit_us); wanted < 0)
    return fail(Errc::kInvalidArgument, "WATCHDOG_USEC or WATCHDOG_PID: {}",
                std::strerror(-wanted));
  else if (wanted > 0) {
    const std::chrono::microseconds limit{limit_us};
    auto timer =
        Periodic::create(node.loop.events(), std::chrono::nanoseconds{limit} / Watchdog::kChecks,
                         [s = service.get()] { s->keep_alive(); });
    if (!timer) return tl::make_unexpected(timer.error());
    service->watchdog_timer_ = std::move(*timer);
  }
  node.loop.on_stop([s = service.get()] { s->stopping(); });
  service->status_ = service_status(node.view);
  notify("READY=1\nSTATUS=" + service->status_);
  return service;
}

void Service::update_status() {
  std::string status = service_status(node_.view);
  if (status == status_) return;
  status_ = std::move(status);
  notify("STATUS=" + status_);
}

void Service::keep_alive() {
  if (watchdog_.due(node_.stats.worker_loops())) notify("WATCHDOG=1");
}

void Service::stopping() {
  status_timer_.reset();
  notify("STOPPING=1\nSTATUS=leaving every multicast group");
}

}  // namespace ipoib::app
