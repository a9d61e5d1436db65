// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/device.h"

#include <numa.h>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "drivers/common/verbs_event.h"
#include "lib/base/contract.h"

namespace ipoib::verbs {
namespace {

struct FreeList {
  void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
};

/// Returns the error that keeps this process from all devices.
tl::unexpected<Error> no_devices(const std::string& name, int error) {
  if (error == EPERM || error == EACCES)
    return fail(Errc::kRefused,
                "device {}: permission denied on /dev/infiniband/uverbs*: run as root, or as a "
                "member of the group that owns them",
                name);
  return fail(Errc::kUnavailable,
              "device {}: the kernel does not support user verbs ({}): load ib_uverbs and the "
              "driver of the HCA",
              name, std::strerror(error));
}

Result<ContextPtr> open_context(const std::string& name) {
  int n = 0;
  errno = 0;
  const std::unique_ptr<ibv_device*, FreeList> list{ibv_get_device_list(&n)};
  if (list == nullptr) return no_devices(name, errno);
  const std::span devices{list.get(), static_cast<std::size_t>(n)};
  const auto found = std::find_if(devices.begin(), devices.end(), [&](ibv_device* device) {
    return name == ibv_get_device_name(device);
  });
  if (found == devices.end()) {
    std::vector<std::string> names;
    for (ibv_device* device : devices) names.emplace_back(ibv_get_device_name(device));
    return fail(Errc::kNotFound, "no device {}; {}", name,
                names.empty()
                    ? std::string{"no RDMA device found: check that the driver of the HCA is "
                                  "loaded and its provider (package ibverbs-providers) installed"}
                    : fmt::format("available: {}", fmt::join(names, ", ")));
  }
  errno = 0;
  ContextPtr context{ibv_open_device(*found)};
  if (context != nullptr) return context;
  if (errno == EPERM || errno == EACCES) return no_devices(name, errno);
  return fail(Errc::kUnavailable, "cannot open device {}: {}", name,
              errno != 0 ? std::strerror(errno) : "no error reported by its driver");
}

/// A failed completion queue or SRQ makes all queue pairs that use it unusable, so it amounts to a
/// failure of the device. It is reported as kQueueFailed of QPN 0, which no queue pair has.
std::optional<VerbsEvent> event_of(const ibv_async_event& event, std::uint8_t port) {
  using Kind = VerbsEvent::Kind;
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
      return VerbsEvent{.kind = Kind::kQueueFailed, .qpn = event.element.qp->qp_num};
    case IBV_EVENT_COMM_EST:
      return VerbsEvent{.kind = Kind::kQueueEstablished, .qpn = event.element.qp->qp_num};
    case IBV_EVENT_PATH_MIG:
      return VerbsEvent{.kind = Kind::kQueueMigrated, .qpn = event.element.qp->qp_num};
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR: return VerbsEvent{.kind = Kind::kQueueFailed};
    default: break;
  }
  const auto kind = drivers::port_event_of(event.event_type);
  if (!kind || (*kind != fabric::PortEvent::kFatal && event.element.port_num != port))
    return std::nullopt;
  return VerbsEvent{.kind = Kind::kPort, .port_event = *kind};
}

/// Reads the node from sysfs; a device without a bus has none.
int read_numa_node(const ibv_device* device) {
  std::ifstream file{std::string{device->ibdev_path} + "/device/numa_node"};
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace

Device::Device(std::string name, std::uint8_t port, ContextPtr context)
    : name_{std::move(name)}, port_{port}, context_{std::move(context)} {}

Result<std::unique_ptr<Device>> Device::open(const std::string& name, std::uint8_t port) {
  expects_management();
  auto context = open_context(name);
  if (!context) return tl::make_unexpected(context.error());
  std::unique_ptr<Device> device{new Device{name, port, std::move(*context)}};

  if (const int error = ibv_query_device(device->context(), &device->attr_); error != 0)
    return fail(Errc::kUnavailable, "cannot query device {}: {}", name, std::strerror(error));
  if (port == 0 || port > device->attr_.phys_port_cnt)
    return fail(Errc::kNotFound, "device {} has no port {}, allowed: 1-{}", name, port,
                device->attr_.phys_port_cnt);
  ibv_port_attr port_attr{};
  if (const int error = ibv_query_port(device->context(), port, &port_attr); error != 0)
    return fail(Errc::kUnavailable, "device {}: cannot query port {}: {}", name, port,
                std::strerror(error));
  device->ethernet_ = port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;

  const int fd = device->context_->async_fd;
  if (const int flags = fcntl(fd, F_GETFL);
      flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail(Errc::kUnavailable,
                "device {}: cannot set the event descriptor to non-blocking: {}", name,
                std::strerror(errno));
  device->numa_node_ = read_numa_node(device->context_->device);
  const PreferNode near{device->numa_node_};
  device->pd_.reset(ibv_alloc_pd(device->context()));
  if (device->pd_ == nullptr)
    return fail(Errc::kNoResources, "device {}: cannot allocate a protection domain: {}", name,
                std::strerror(errno));
  return device;
}

Device::ThreadDomain Device::make_thread_domain() const {
  ThreadDomain made;
  ibv_td_init_attr thread{};
  made.td.reset(ibv_alloc_td(context(), &thread));
  if (made.td == nullptr) return {};
  ibv_parent_domain_init_attr domain{};
  domain.pd = pd_.get();
  domain.td = made.td.get();
  made.parent.reset(ibv_alloc_parent_domain(context(), &domain));
  return made.parent != nullptr ? std::move(made) : ThreadDomain{};
}

ibv_pd* Device::queue_pd(unsigned worker) {
  expects_management();
  while (thread_domains_.size() <= worker) thread_domains_.push_back(make_thread_domain());
  ibv_pd* const parent = thread_domains_[worker].parent.get();
  return parent != nullptr ? parent : pd_.get();
}

bool Device::present() const {
  return access(context_->device->dev_path, F_OK) == 0;
}

std::optional<VerbsEvent> Device::next_event() {
  expects_management();
  ibv_async_event event{};
  while (ibv_get_async_event(context_.get(), &event) == 0) {
    const auto reported = event_of(event, port_);
    ibv_ack_async_event(&event);
    if (reported) return reported;
  }
  return std::nullopt;
}

PreferNode::PreferNode(int node) {
  if (node < 0 || numa_available() < 0 || node > numa_max_node()) return;
  before_ = numa_preferred();
  numa_set_preferred(node);
  changed_ = true;
}

PreferNode::~PreferNode() {
  if (changed_) numa_set_preferred(before_);
}

}  // namespace ipoib::verbs
