// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/worker/worker_channel.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring_elem.h>

#include <fmt/format.h>

#include "lib/base/contract.h"

namespace ipoib::mgmt {
namespace {

constexpr unsigned kRingSize = 4096;

rte_ring* make_ring(const std::string& name, unsigned elem_size, int socket) {
  return rte_ring_create_elem(name.c_str(), elem_size, kRingSize, socket,
                              RING_F_SP_ENQ | RING_F_SC_DEQ);
}

}  // namespace

Result<std::unique_ptr<WorkerChannel>> WorkerChannel::create(unsigned worker, int socket,
                                                             std::string_view prefix) {
  rte_ring* up = make_ring(fmt::format("{}up_{}", prefix, worker), sizeof(msg::Up), socket);
  rte_ring* down = make_ring(fmt::format("{}down_{}", prefix, worker), sizeof(msg::Down), socket);
  if (up == nullptr || down == nullptr) {
    const int error = rte_errno;
    rte_ring_free(up);
    rte_ring_free(down);
    return fail(Errc::kNoResources, "cannot create the rings of worker {}: {}", worker,
                rte_strerror(error));
  }
  return std::unique_ptr<WorkerChannel>{new WorkerChannel{up, down}};
}

WorkerChannel::~WorkerChannel() {
  drain();
  rte_ring_free(up_);
  rte_ring_free(down_);
}

void WorkerChannel::send(const msg::Down& message) {
  expects_management();
  ++sent_;
  if (backlog_.empty() &&
      rte_ring_sp_enqueue_elem(down_, const_cast<msg::Down*>(&message), sizeof message) == 0)
    return;
  backlog_.push_back(message);
}

void WorkerChannel::flush() {
  expects_management();
  while (!backlog_.empty() &&
         rte_ring_sp_enqueue_elem(down_, &backlog_.front(), sizeof(msg::Down)) == 0)
    backlog_.pop_front();
}

std::size_t WorkerChannel::receive(std::span<msg::Up> out) {
  expects_management();
  return rte_ring_sc_dequeue_burst_elem(up_, out.data(), sizeof(msg::Up),
                                        static_cast<unsigned>(out.size()), nullptr);
}

bool WorkerChannel::has_messages() const {
  return rte_ring_empty(up_) == 0;
}

void WorkerChannel::drain() {
  expects_management();
  msg::Up up{};
  while (rte_ring_sc_dequeue_elem(up_, &up, sizeof up) == 0) rte_pktmbuf_free(up.mbuf);
  msg::Down down{};
  while (rte_ring_sc_dequeue_elem(down_, &down, sizeof down) == 0) rte_pktmbuf_free(down.mbuf);
  for (const msg::Down& d : backlog_) rte_pktmbuf_free(d.mbuf);
  backlog_.clear();
}

}  // namespace ipoib::mgmt
