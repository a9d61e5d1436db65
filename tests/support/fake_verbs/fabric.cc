// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/fake_verbs/fabric.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "lib/wire/be.h"
#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

void announce(Device& device) {
  auto handle = std::make_unique<ibv_device>();
  handle->node_type = IBV_NODE_CA;
  handle->transport_type = device.transport;
  std::snprintf(handle->name, sizeof(handle->name), "%s", device.name.c_str());
  std::snprintf(handle->dev_path, sizeof(handle->dev_path), "/dev/null");  // This path exists.
  device.handles.push_back(std::move(handle));
}

void hang_up(Context& context) {
  if (context.event_fd[1] < 0) return;
  ::close(context.event_fd[1]);
  context.event_fd[1] = -1;
}

Qp& qp_of(State& state, std::uint32_t qpn) {
  const auto found = state.qps.find(qpn);
  if (found == state.qps.end()) throw std::runtime_error(fmt::format("no QPN {:#x}", qpn));
  return *found->second;
}

}  // namespace

State& State::get() {
  static State state;
  return state;
}

int State::injected(Call call) {
  const auto found = failures.find(call);
  if (found == failures.end()) return 0;
  Failure& failure = found->second;
  if (failure.skip > 0) {
    --failure.skip;
    return 0;
  }
  const int error = failure.error;
  if (failure.times != Fabric::kAlways && --failure.times == 0) failures.erase(found);
  return error;
}

std::optional<ibv_wc_status> State::injected(Side side) {
  auto& waiting = failing[side];
  if (waiting.empty() || waiting.front().skip-- > 0) return std::nullopt;
  const ibv_wc_status status = waiting.front().status;
  waiting.pop_front();
  return status;
}

void push_event(Context& context, ibv_event_type type, ibv_async_event event) {
  if (context.event_fd[1] < 0) return;
  event.event_type = type;
  context.events.push_back(event);
  const char token = 0;
  if (send(context.event_fd[1], &token, 1, MSG_NOSIGNAL) != 1)
    State::get().violation("nobody takes events any more");
}

DeviceSetup make_setup(std::string name, std::uint16_t lid, std::uint64_t guid) {
  DeviceSetup setup;
  setup.name = std::move(name);
  Port port;
  port.gids.push_back(wire::Gid::of(wire::kDefaultGidPrefix, guid));
  port.attr.state = IBV_PORT_ACTIVE;
  port.attr.max_mtu = IBV_MTU_4096;
  port.attr.active_mtu = IBV_MTU_2048;
  port.attr.max_msg_sz = 1U << 30;
  port.attr.lid = lid;
  port.attr.sm_lid = 1;
  port.attr.active_width = 2;   // 4x
  port.attr.active_speed = 32;  // 25 Gb/s per lane
  port.attr.phys_state = 5;     // link up
  port.attr.max_vl_num = 4;
  port.attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  setup.ports.push_back(std::move(port));

  ibv_device_attr& attr = setup.attr.orig_attr;
  const wire::Be64 wire_guid{guid};
  std::memcpy(&attr.node_guid, &wire_guid, sizeof(wire_guid));
  attr.sys_image_guid = attr.node_guid;
  std::snprintf(attr.fw_ver, sizeof(attr.fw_ver), "1.0.0");
  attr.max_mr_size = SIZE_MAX;
  attr.page_size_cap = 0xffff'f000;
  attr.max_qp = 1 << 16;
  attr.max_qp_wr = 1 << 15;
  attr.device_cap_flags = IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_CURR_QP_STATE_MOD;
  attr.max_sge = 30;
  attr.max_cq = 1 << 16;
  attr.max_cqe = 1 << 22;
  attr.max_mr = 1 << 20;
  attr.max_pd = 1 << 16;
  attr.max_qp_rd_atom = 16;
  attr.max_qp_init_rd_atom = 16;
  attr.max_mcast_grp = 8192;
  attr.max_mcast_qp_attach = 56;
  attr.max_ah = 1 << 20;
  attr.max_srq = 1 << 16;
  attr.max_srq_wr = 1 << 15;
  attr.max_srq_sge = 30;
  attr.max_pkeys = 128;
  return setup;
}

Fabric& Fabric::get() {
  static Fabric fabric;
  return fabric;
}

void Fabric::reset() {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (!state.contexts.empty()) throw std::runtime_error("a device is still open");
  state.devices.clear();
  state.objects.clear();
  state.qps.clear();
  state.mrs.clear();
  state.posted_buffers.clear();
  state.failures.clear();
  state.failing.clear();
  state.lost.clear();
  state.violations.clear();
  state.sent.clear();
  state.tap = false;
  state.cut_lids.clear();
  state.open_lists = 0;
  state.send_counts = {};
  state.before_destroy_qp = {};
}

Device& Fabric::add_device(DeviceSetup setup) {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.devices.push_back(std::make_unique<Device>(std::move(setup)));
  Device& device = *state.devices.back();
  announce(device);
  return device;
}

Device& Fabric::device(const std::string& name) {
  State& state = State::get();
  const Lock lock{state.mutex};
  const auto found = std::find_if(state.devices.begin(), state.devices.end(),
                                  [&](const auto& device) { return device->name == name; });
  if (found == state.devices.end()) throw std::runtime_error("no device " + name);
  return **found;
}

void Fabric::remove(Device& device, const Removal& how) {
  State& state = State::get();
  const Lock lock{state.mutex};
  device.present = false;
  device.registered = 0;
  if (how.path_gone) device.handles.back()->dev_path[0] = '\0';
  for (Context* context : state.contexts) {
    if (context->device != &device || context->gone) continue;
    if (how.fatal_event) push_event(*context, IBV_EVENT_DEVICE_FATAL, {});
    context->gone = true;
    context->removal = how;
    context->live = {.contexts = 1};
    hang_up(*context);
  }
  std::erase_if(state.qps, [](const auto& entry) { return entry.second->context().gone; });
  std::erase_if(state.mrs, [](const auto& entry) { return of(entry.second->context).gone; });
  std::erase_if(state.posted_buffers, [](const auto& entry) { return entry.second->gone; });
}

void Fabric::restore(Device& device) {
  const Lock lock{State::get().mutex};
  device.present = true;
  announce(device);
}

void Fabric::fail(Call call, int error, unsigned times, unsigned skip) {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.failures[call] = {error, skip, times};
}

void Fabric::clear_failures() {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.failures.clear();
  state.failing.clear();
}

void Fabric::fail_send(ibv_wc_status status, unsigned skip) {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.failing[Side::kSend].push_back({status, skip});
}

void Fabric::fail_receive(ibv_wc_status status, unsigned skip) {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.failing[Side::kReceive].push_back({status, skip});
}

void Fabric::raise(Device& device, ibv_event_type type, int port) {
  State& state = State::get();
  const Lock lock{state.mutex};
  ibv_async_event event{};
  event.element.port_num = port;
  for (Context* context : state.contexts)
    if (context->device == &device) push_event(*context, type, event);
}

void Fabric::break_qp(std::uint32_t qpn, ibv_event_type type) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Qp& qp = qp_of(state, qpn);
  ibv_async_event event{};
  event.element.qp = &qp.qp_base;
  push_event(qp.context(), type, event);
  enter_error(qp);
}

void Fabric::break_cq(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  fake_verbs::break_cq(qp_of(state, qpn).recv_cq());
}

void Fabric::before_destroy_qp(std::function<void()> action) {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.before_destroy_qp = std::move(action);
}

void Fabric::hold_sends(Device& device, bool hold) {
  const Lock lock{State::get().mutex};
  device.holds_sends = hold;
  progress();
}

void Fabric::time_passes(unsigned n) {
  State& state = State::get();
  const Lock lock{state.mutex};
  for (; n > 0; --n) {
    for (const auto& [qpn, qp] : state.qps) {
      const auto waiting = std::find_if(qp->sends.begin(), qp->sends.end(),
                                        [](const Send& send) { return !send.done; });
      if (waiting != qp->sends.end()) ++waiting->tries;
    }
    progress();
  }
}

void Fabric::cut(std::uint16_t dlid, bool broken) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (broken)
    state.cut_lids.insert(dlid);
  else
    state.cut_lids.erase(dlid);
}

void Fabric::inject(const Message& message) {
  const Lock lock{State::get().mutex};
  deliver(message);
}

std::vector<Message> Fabric::take_sent() {
  State& state = State::get();
  const Lock lock{state.mutex};
  return std::exchange(state.sent, {});
}

void Fabric::tap(bool on) {
  State& state = State::get();
  const Lock lock{state.mutex};
  state.tap = on;
}

Live Fabric::live() {
  State& state = State::get();
  const Lock lock{state.mutex};
  Live sum;
  for (const Context* context : state.contexts) {
    const Live& live = context->live;
    sum = {.contexts = sum.contexts + live.contexts,
           .pds = sum.pds + live.pds,
           .tds = sum.tds + live.tds,
           .mrs = sum.mrs + live.mrs,
           .cqs = sum.cqs + live.cqs,
           .srqs = sum.srqs + live.srqs,
           .qps = sum.qps + live.qps,
           .ahs = sum.ahs + live.ahs,
           .attachments = sum.attachments + live.attachments};
  }
  return sum;
}

std::uint64_t Fabric::lost(Lost reason) {
  State& state = State::get();
  const Lock lock{state.mutex};
  return state.lost[reason];
}

ibv_qp_state Fabric::state_of(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  return qp_of(state, qpn).state;
}

std::size_t Fabric::posted_receives(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  return qp_of(state, qpn).receives().posted.size();
}

std::size_t Fabric::outstanding_sends(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  return qp_of(state, qpn).sends.size();
}

bool Fabric::lockless(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  const Qp& qp = *state.qps.at(qpn);
  const auto of_thread = [](const ibv_pd* pd) { return static_cast<const Pd*>(pd)->td != nullptr; };
  return of_thread(qp.qp_base.pd) && qp.send_cq().single_threaded && qp.recv_cq().single_threaded &&
         (qp.srq() == nullptr ||
          static_cast<const Pd*>(qp.srq()->pd)->td == static_cast<const Pd*>(qp.qp_base.pd)->td);
}

const void* Fabric::thread_of(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  return static_cast<const Pd*>(state.qps.at(qpn)->qp_base.pd)->td;
}

ibv_qp_attr Fabric::attr_of(std::uint32_t qpn) {
  State& state = State::get();
  const Lock lock{state.mutex};
  return qp_of(state, qpn).attr;
}

std::vector<std::uint32_t> Fabric::qpns(ibv_qp_type type) {
  State& state = State::get();
  const Lock lock{state.mutex};
  std::vector<std::uint32_t> found;
  for (const auto& [qpn, qp] : state.qps)
    if (qp->qp_base.qp_type == type) found.push_back(qpn);
  return found;
}

std::vector<std::string> Fabric::take_violations() {
  State& state = State::get();
  const Lock lock{state.mutex};
  return std::exchange(state.violations, {});
}

SendCounts Fabric::send_counts() {
  State& state = State::get();
  const Lock lock{state.mutex};
  return state.send_counts;
}

}  // namespace ipoib::fake_verbs
