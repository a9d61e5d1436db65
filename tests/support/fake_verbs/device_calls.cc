// SPDX-License-Identifier: BSD-3-Clause
// The functions of libibverbs for devices, ports and events. Functions that only return names of
// constants come from the library.
#include <infiniband/verbs.h>

#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lib/wire/be.h"
#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

enum class Affiliation { kPort, kCq, kSrq, kQp };

Affiliation affiliation(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return Affiliation::kCq;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return Affiliation::kSrq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return Affiliation::kQp;
    default: return Affiliation::kPort;
  }
}

/// Returns the count of the object's events that were taken and are not acknowledged yet. Null for
/// events of ports.
unsigned* unacknowledged(const ibv_async_event& event) {
  switch (affiliation(event.event_type)) {
    case Affiliation::kCq: return &static_cast<Cq*>(event.element.cq)->unacknowledged;
    case Affiliation::kSrq: return &static_cast<Srq*>(event.element.srq)->unacknowledged;
    case Affiliation::kQp: return &of(event.element.qp).unacknowledged;
    case Affiliation::kPort: break;
  }
  return nullptr;
}

/// Removes the waiting events of an object. Unacknowledged events are a violation: libibverbs would
/// wait for them without end.
void forget(ibv_context* owner, Affiliation kind, const void* element, unsigned taken) {
  if (taken != 0) State::get().violation("an object ended with events that nobody acknowledged");
  Context& context = of(owner);
  const auto n = std::erase_if(context.events, [&](const ibv_async_event& event) {
    return affiliation(event.event_type) == kind && event.element.cq == element;
  });
  for (std::size_t i = 0; i < n; ++i) {
    char token = 0;
    (void)recv(owner->async_fd, &token, 1, MSG_DONTWAIT);
  }
}

int query_device(ibv_context* context, const ibv_query_device_ex_input* /*input*/,
                 ibv_device_attr_ex* attr, std::size_t size) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(context, Call::kQueryDevice); error != 0) return error;
  const Device& device = *of(context).device;
  ibv_device_attr_ex full = device.attr;
  full.orig_attr.phys_port_cnt = static_cast<std::uint8_t>(device.ports.size());
  full.phys_port_cnt_ex = static_cast<std::uint32_t>(device.ports.size());
  std::memcpy(attr, &full, std::min(size, sizeof(full)));
  return 0;
}

int query_port(ibv_context* context, std::uint8_t number, ibv_port_attr* attr, std::size_t size) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(context, Call::kQueryPort); error != 0) return error;
  const Port* port = of(context).device->port(number);
  if (port == nullptr) return EINVAL;
  ibv_port_attr full = port->attr;
  full.pkey_tbl_len = static_cast<std::uint16_t>(port->pkeys.size());
  full.gid_tbl_len = static_cast<int>(port->gids.size());
  std::memcpy(attr, &full, std::min(size, sizeof(full)));
  return 0;
}

Context& make_context(State& state, Device& device) {
  Context& context = state.make(Context{});
  context.device = &device;
  context.sz = sizeof(verbs_context);
  context.query_port = query_port;
  context.query_device_ex = query_device;
  context.create_qp_ex = create_qp;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.create_cq_ex = create_cq_ex;
  ibv_context& base = context.context;
  base.device = device.handles.back().get();
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  base.num_comp_vectors = 1;
  base.cmd_fd = -1;
  base.ops.poll_cq = poll_cq;
  base.ops.post_send = post_send;
  base.ops.post_recv = post_recv;
  base.ops.post_srq_recv = post_srq_recv;
  if (device.fast) set_fast(context);
  return context;
}

}  // namespace

void forget_events(const ibv_cq& cq) {
  forget(cq.context, Affiliation::kCq, &cq, static_cast<const Cq&>(cq).unacknowledged);
}
void forget_events(const ibv_srq& srq) {
  forget(srq.context, Affiliation::kSrq, &srq, static_cast<const Srq&>(srq).unacknowledged);
}
void forget_events(const ibv_qp& qp) {
  forget(qp.context, Affiliation::kQp, &qp, of(const_cast<ibv_qp*>(&qp)).unacknowledged);
}

}  // namespace ipoib::fake_verbs

// NOLINTBEGIN(readability-identifier-naming)
using namespace ipoib::fake_verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* n) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (n != nullptr) *n = 0;
  if (const int error = state.injected(Call::kGetDeviceList); error != 0) return refuse(error);
  auto** list =
      static_cast<ibv_device**>(std::calloc(state.devices.size() + 1, sizeof(ibv_device*)));
  int found = 0;
  for (const auto& device : state.devices)
    if (device->present) list[found++] = device->handles.back().get();
  if (n != nullptr) *n = found;
  ++state.open_lists;
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  State& state = State::get();
  const Lock lock{state.mutex};
  --state.open_lists;
  std::free(list);
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

__be64 ibv_get_device_guid(ibv_device* handle) {
  const Lock lock{State::get().mutex};
  return Fabric::get().device(handle->name).attr.orig_attr.node_guid;
}

ibv_context* ibv_open_device(ibv_device* handle) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (state.open_lists == 0) state.violation("a device is opened after its list was freed");
  if (const int error = state.injected(Call::kOpenDevice); error != 0) return refuse(error);
  Device& device = Fabric::get().device(handle->name);
  if (!device.present || device.handles.back().get() != handle) return refuse(ENODEV);
  Context& context = make_context(state, device);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, context.event_fd) != 0) return nullptr;
  context.context.async_fd = context.event_fd[0];
  context.live.contexts = 1;
  state.contexts.push_back(&context);
  return &context.context;
}

int ibv_close_device(ibv_context* context) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Context& own = of(context);
  if (own.live != Live{.contexts = 1}) state.violation("a device is closed with objects left");
  own.gone = true;
  for (int& fd : own.event_fd)
    if (fd >= 0) close(std::exchange(fd, -1));
  std::erase(state.contexts, &own);
  const auto of_context = [&](const auto& entry) { return &of(entry.second->context) == &own; };
  std::erase_if(state.qps, [&](const auto& entry) { return &entry.second->context() == &own; });
  std::erase_if(state.mrs, of_context);
  std::erase_if(state.posted_buffers, [&](const auto& entry) { return entry.second == &own; });
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  ibv_device_attr_ex full{};
  const int error = query_device(context, nullptr, &full, sizeof(full));
  if (error == 0) *attr = full.orig_attr;
  return error;
}

int(ibv_query_port)(ibv_context* context, std::uint8_t number, _compat_ibv_port_attr* attr) {
  // The struct of the first release ends before the second capability mask.
  return query_port(context, number, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_pkey(ibv_context* context, std::uint8_t number, int index, __be16* pkey) {
  const Lock lock{State::get().mutex};
  errno = obstacle(context, Call::kQueryPkey);
  if (errno != 0) return -1;
  const Port* port = of(context).device->port(number);
  if (port == nullptr || index < 0 || static_cast<std::size_t>(index) >= port->pkeys.size()) {
    errno = EINVAL;
    return -1;
  }
  const ipoib::wire::Be16 entry{port->pkeys[static_cast<std::size_t>(index)]};
  std::memcpy(pkey, &entry, sizeof(entry));
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t number, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(context, Call::kQueryGid); error != 0) return error;
  const Device& device = *of(context).device;
  const Port* port = device.port(number);
  if (port == nullptr || index >= port->gids.size() || flags != 0 || size < sizeof(*entry))
    return EINVAL;
  if (port->gids[index].is_zero()) return ENODATA;
  *entry = {};
  std::memcpy(entry->gid.raw, port->gids[index].bytes.data(), sizeof(entry->gid.raw));
  entry->gid_index = index;
  entry->port_num = number;
  const bool ib = port->attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
  entry->gid_type = ib ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  if (!ib) entry->ndev_ifindex = if_nametoindex("lo");
  return 0;
}

int ibv_query_gid(ibv_context* context, std::uint8_t number, int index, ibv_gid* gid) {
  ibv_gid_entry entry{};
  errno = _ibv_query_gid_ex(context, number, static_cast<std::uint32_t>(index), &entry, 0,
                            sizeof(entry));
  if (errno != 0 && errno != ENODATA) return -1;
  *gid = entry.gid;
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  for (;;) {
    char token = 0;
    const ssize_t n = read(context->async_fd, &token, 1);
    if (n == 0) errno = EIO;
    if (n != 1) return -1;
    const Lock lock{State::get().mutex};
    auto& events = of(context).events;
    if (events.empty()) continue;
    *event = events.front();
    events.pop_front();
    if (unsigned* taken = unacknowledged(*event)) ++*taken;
    return 0;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  const Lock lock{State::get().mutex};
  if (unsigned* taken = unacknowledged(*event)) --*taken;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
