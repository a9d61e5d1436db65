// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/verbs/ud_hardware.h"

#include <rte_mempool.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::verbs {
namespace {

constexpr std::uint32_t kMaxUdSegments = 8;  ///< Most mbufs of a packet to send.

}  // namespace

Result<std::unique_ptr<UdHardware>> UdHardware::create(Device& device, const PortShared& shared,
                                                       std::uint8_t port,
                                                       std::uint32_t max_received, unsigned worker,
                                                       UdKeys keys) {
  const std::uint32_t room = rte_pktmbuf_data_room_size(shared.pool) - RTE_PKTMBUF_HEADROOM;
  if (room < max_received)
    return fail(
        Errc::kInvalidArgument,
        "{}: packets of {} octets (MTU of the port) do not fit into mbufs of {}: raise --mbuf-size",
        shared.name, max_received, room);
  std::unique_ptr<UdHardware> hw{new UdHardware{shared.name, port}};
  hw->number = next_queue_number();

  const SendLimits limits = send_limits(device, shared.txd, kMaxUdSegments);
  const std::uint32_t rxd = std::min(
      shared.rxd,
      static_cast<std::uint32_t>(std::min(device.attr().max_qp_wr, device.attr().max_cqe)));
  const PreferNode near{device.numa_node()};
  hw->send_cq = create_cq(device, worker, limits.depth);
  hw->receive_cq = create_cq(device, worker, rxd);
  if (hw->send_cq == nullptr || hw->receive_cq == nullptr)
    return fail(Errc::kNoResources, "{}: cannot create a completion queue of {} entries: {}",
                shared.name, std::max(limits.depth, rxd), std::strerror(errno));

  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_UD;
  wanted.send_cq = hw->send_cq.get();
  wanted.recv_cq = hw->receive_cq.get();
  wanted.cap.max_recv_wr = rxd;
  wanted.cap.max_recv_sge = 1;
  auto made = create_qp(device, worker, wanted, limits);
  if (!made) return fail(made.error().code, "{}: {}", shared.name, made.error().what);
  hw->qp = std::move(made->qp);
  hw->send = std::make_unique<SendQueue>(hw->qp.get(), made->extended, made->limits, hw->number);
  hw->receive = std::make_unique<ReceiveRing>(
      hw->qp.get(), nullptr,
      ReceiveRingConfig{
          .pool = shared.pool, .depth = rxd, .segments = 1, .head = sizeof(wire::Grh)});
  if (auto started = hw->start(keys); !started) return tl::make_unexpected(started.error());
  if (hw->receive->fill(shared.memory.map(), true) != ReceiveRing::Fill::kDone)
    log(LogArea::kFabric, LogLevel::kWarning,
        "{}: the receive queue starts with {} of {} buffers: raise --total-num-mbufs", shared.name,
        hw->receive->posted(), rxd);
  return hw;
}

/// Detaches all groups, because the kernel keeps a queue pair that is attached to one, and the
/// device could still write into its buffers.
UdHardware::~UdHardware() {
  while (!groups_.empty()) {
    const auto [mgid, mlid] = *groups_.begin();
    static_cast<void>(detach(mgid, mlid));
  }
}

/// Moves the queue pair from RESET to RTS.
Status UdHardware::start(UdKeys keys) {
  const auto step = [&](ibv_qp_state state, const ibv_qp_attr& attr, int mask) -> Status {
    const int error = modify(*qp, state, attr, mask);
    if (error == 0) return {};
    if (error == EPERM || error == EACCES)
      return fail(Errc::kRefused,
                  "{}: controlled Q_Key {:#010x} requires CAP_NET_RAW: run as root, or give the "
                  "program that capability",
                  name_, keys.qkey);
    return fail(Errc::kUnavailable, "{}: cannot set queue pair {:#x} ready (state {}): {}", name_,
                qp->qp_num, static_cast<int>(state), std::strerror(error));
  };
  ibv_qp_attr attr{};
  attr.pkey_index = keys.pkey_index;
  attr.port_num = port_;
  attr.qkey = keys.qkey;
  if (auto s = step(IBV_QPS_INIT, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY); !s)
    return s;
  if (auto s = step(IBV_QPS_RTR, {}, 0); !s) return s;
  return step(IBV_QPS_RTS, {}, IBV_QP_SQ_PSN);
}

Status UdHardware::restart(UdKeys keys, PortShared& shared) {
  expects_management();
  stop(shared);  // Before the reset, at which some devices discard completions.
  if (const int error = modify(*qp, IBV_QPS_RESET, {}, 0); error != 0)
    return fail(Errc::kUnavailable, "{}: cannot reset queue pair {:#x}: {}", name_, qp->qp_num,
                std::strerror(error));
  drain(shared);
  shared.unsent.fetch_add(send->flush(), std::memory_order_relaxed);
  receive->forget();
  if (auto started = start(keys); !started) return started;
  receive->fill(shared.memory.map(), true);
  return {};
}

void UdHardware::stop(PortShared& shared) {
  // May fail if the queue pair is in error already, or if the device is lost.
  static_cast<void>(modify(*qp, IBV_QPS_ERR, {}, 0));
  drain(shared);
}

void UdHardware::drain(PortShared& shared) {
  const auto each = [](ibv_cq* cq, const auto& succeeded) {
    std::array<ibv_wc, 16> completions;
    for (int n = 1; n > 0;) {
      n = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
      for (int i = 0; i < n; ++i)
        if (const ibv_wc& wc = completions[static_cast<unsigned>(i)]; !failed(wc)) succeeded(wc);
    }
  };
  each(send_cq.get(), [&](const ibv_wc& wc) { send->complete(wc.wr_id); });
  // Packets in buffers from before an earlier restart count, too.
  each(receive_cq.get(),
       [&](const ibv_wc&) { shared.untaken.fetch_add(1, std::memory_order_relaxed); });
}

Status UdHardware::set_qkey(std::uint32_t qkey) {
  expects_management();
  ibv_qp_attr attr{};
  attr.qkey = qkey;
  const int error = ibv_modify_qp(qp.get(), &attr, IBV_QP_QKEY);
  if (error == 0) return {};
  if (error == EPERM || error == EACCES)
    return fail(Errc::kRefused, "{}: controlled Q_Key {:#010x} requires CAP_NET_RAW", name_, qkey);
  return fail(Errc::kUnavailable, "{}: queue pair {:#x}: cannot set Q_Key {:#010x}: {}", name_,
              qp->qp_num, qkey, std::strerror(error));
}

Status UdHardware::attach(const wire::Gid& mgid, std::uint16_t mlid) {
  expects_management();
  const ibv_gid raw = raw_of(mgid);
  const int error = ibv_attach_mcast(qp.get(), &raw, mlid);
  if (error == 0) {
    groups_.insert({mgid, mlid});
    return {};
  }
  return fail(Errc::kNoResources, "{}: cannot attach queue pair {:#x} to {}: {}", name_, qp->qp_num,
              wire::to_string(mgid), std::strerror(error));
}

Status UdHardware::detach(const wire::Gid& mgid, std::uint16_t mlid) {
  expects_management();
  if (groups_.erase({mgid, mlid}) == 0) return {};
  const ibv_gid raw = raw_of(mgid);
  const int error = ibv_detach_mcast(qp.get(), &raw, mlid);
  if (error == 0) return {};
  return fail(Errc::kUnavailable, "{}: cannot detach queue pair {:#x} from {}: {}", name_,
              qp->qp_num, wire::to_string(mgid), std::strerror(error));
}

}  // namespace ipoib::verbs
