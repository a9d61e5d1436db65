// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/device_events.h"

#include <infiniband/verbs.h>

#include <fcntl.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "drivers/common/verbs_event.h"
#include "lib/base/contract.h"
#include "lib/base/log.h"

namespace ipoib::umad {
namespace {

struct ListDeleter {
  void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
};
struct ContextDeleter {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextDeleter>;

Context open_device(const std::string& name) {
  int n = 0;
  const std::unique_ptr<ibv_device*, ListDeleter> list{ibv_get_device_list(&n)};
  if (list == nullptr) return nullptr;
  const std::span devices{list.get(), static_cast<std::size_t>(n)};
  const auto found = std::find_if(devices.begin(), devices.end(), [&](ibv_device* device) {
    return name == ibv_get_device_name(device);
  });
  return Context{found == devices.end() ? nullptr : ibv_open_device(*found)};
}

class VerbsEvents final : public DeviceEvents {
 public:
  void open(const std::string& device) override {
    expects_management();
    context_ = open_device(device);
    if (context_ == nullptr) return;
    const int flags = fcntl(context_->async_fd, F_GETFL);
    if (flags >= 0 && fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) == 0) return;
    log(LogArea::kFabric, LogLevel::kWarning, "{}: cannot set the event descriptor to non-blocking",
        device);
    context_.reset();
  }

  void close() override {
    expects_management();
    context_.reset();
  }

  std::optional<DeviceEvent> next() override {
    expects_management();
    ibv_async_event event{};
    while (context_ != nullptr && ibv_get_async_event(context_.get(), &event) == 0) {
      const auto kind = drivers::port_event_of(event.event_type);
      const int port = event.element.port_num;
      ibv_ack_async_event(&event);
      if (!kind) continue;
      const bool whole = *kind == fabric::PortEvent::kFatal;
      return DeviceEvent{*kind, static_cast<std::uint8_t>(whole ? 0 : port)};
    }
    return std::nullopt;
  }

 private:
  Context context_;
};

}  // namespace

std::unique_ptr<DeviceEvents> make_device_events() {
  return std::make_unique<VerbsEvents>();
}

}  // namespace ipoib::umad
