// SPDX-License-Identifier: BSD-3-Clause
// Checks and queues work requests, by both interfaces of libibverbs. Requests that a provider would
// refuse are refused.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <numeric>

#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

std::span<const ibv_sge> sges_of(const ibv_sge* list, int n) {
  return {list, static_cast<std::size_t>(n)};
}

bool can_checksum(const Qp& qp) {
  const unsigned flag =
      qp.qp_base.qp_type == IBV_QPT_UD ? IBV_DEVICE_UD_IP_CSUM : IBV_DEVICE_RC_IP_CSUM;
  return (qp.device().attr.orig_attr.device_cap_flags & flag) != 0;
}

int check_address(const Qp& qp, const Send& send) {
  State& state = State::get();
  if (send.ah == nullptr || !send.ah->live) {
    state.violation("a send names an address handle that is not");
    return EINVAL;
  }
  if (send.ah->pd != base_of(qp.qp_base.pd) || send.ah->attr.port_num != qp.attr.port_num ||
      send.remote_qpn > 0xff'ffff) {
    state.violation("a send names an address handle of another domain or port, or no QPN");
    return EINVAL;
  }
  return 0;
}

/// Returns the errno of a provider. `n` sends are queued before this one.
int check(const Qp& qp, const Send& send, std::size_t n) {
  State& state = State::get();
  if (!qp.live) {
    state.violation("a send to a destroyed queue pair");
    return EINVAL;
  }
  if (const int error = state.injected(Call::kPostSend); error != 0) return error;
  if (qp.context().gone && qp.context().removal.posts_fail) return EIO;
  if (qp.state == IBV_QPS_RESET || qp.state == IBV_QPS_INIT || qp.state == IBV_QPS_RTR)
    return EINVAL;
  if (qp.sends.size() + n >= qp.cap.max_send_wr) return ENOMEM;
  if (send.sges.size() > qp.cap.max_send_sge) return EINVAL;
  if ((send.flags & IBV_SEND_INLINE) != 0 && send.bytes.size() > qp.cap.max_inline_data)
    return EINVAL;
  if ((send.flags & IBV_SEND_IP_CSUM) != 0 && !can_checksum(qp)) return EINVAL;
  return qp.qp_base.qp_type == IBV_QPT_UD ? check_address(qp, send) : 0;
}

void enqueue(Qp& qp, Send&& send) {
  State& state = State::get();
  send.number = qp.next_send++;
  ++state.send_counts.requests;
  if (qp.signals_all) send.flags |= IBV_SEND_SIGNALED;
  if ((send.flags & IBV_SEND_SIGNALED) != 0) ++state.send_counts.signaled;
  if ((send.flags & IBV_SEND_INLINE) != 0) ++state.send_counts.inlined;
  qp.sends.push_back(std::move(send));
}

/// Starts on the queued sends: carries them out, or flushes them.
void ring_doorbell(Qp& qp) {
  ++State::get().send_counts.batches;
  if (qp.context().gone) return;
  progress(qp);
}

void append(std::vector<std::byte>& bytes, const void* from, std::size_t len) {
  const auto* data = static_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), data, data + len);
}

void append(std::vector<std::byte>& bytes, std::span<const ibv_sge> sges) {
  for (const ibv_sge& sge : sges)
    append(bytes, reinterpret_cast<const void*>(sge.addr), sge.length);
}

Send send_of(const Qp& qp, const ibv_send_wr& wr) {
  Send send;
  send.wr_id = wr.wr_id;
  send.flags = wr.send_flags;
  const auto sges = sges_of(wr.sg_list, wr.num_sge);
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    append(send.bytes, sges);
  } else {
    send.sges.assign(sges.begin(), sges.end());
    if (const auto bytes = gather(qp.qp_base.pd, sges))
      append(send.bytes, bytes->data(), bytes->size());
  }
  if (qp.qp_base.qp_type == IBV_QPT_UD) {
    send.ah = static_cast<Ah*>(wr.wr.ud.ah);
    send.remote_qpn = wr.wr.ud.remote_qpn;
    send.remote_qkey = wr.wr.ud.remote_qkey;
  }
  return send;
}

Qp& of_ex(ibv_qp_ex* qp) {
  return *static_cast<Qp*>(qp);
}

/// Returns the send that the wr_set_* functions fill in.
Send& current(ibv_qp_ex* qp, std::string_view call) {
  Qp& own = of_ex(qp);
  if (own.building && !own.built.empty()) return own.built.back();
  State::get().violation(std::string{call} + " without a work request");
  return own.built.emplace_back();
}

void wr_send(ibv_qp_ex* qp) {
  Qp& own = of_ex(qp);
  const Lock lock{State::get().mutex};
  if (!own.building) State::get().violation("ibv_wr_send without ibv_wr_start");
  Send& send = own.built.emplace_back();
  send.wr_id = qp->wr_id;
  send.flags = qp->wr_flags & ~unsigned{IBV_SEND_INLINE};
}

void wr_start(ibv_qp_ex* qp) {
  Qp& own = of_ex(qp);
  const Lock lock{State::get().mutex};
  if (own.building) State::get().violation("ibv_wr_start twice");
  own.building = true;
  own.built.clear();
}

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, std::uint32_t qpn, std::uint32_t qkey) {
  const Lock lock{State::get().mutex};
  Send& send = current(qp, "ibv_wr_set_ud_addr");
  send.ah = static_cast<Ah*>(ah);
  send.remote_qpn = qpn;
  send.remote_qkey = qkey;
}

void wr_set_sge_list(ibv_qp_ex* qp, std::size_t n, const ibv_sge* list) {
  const Lock lock{State::get().mutex};
  Send& send = current(qp, "ibv_wr_set_sge_list");
  send.sges.assign(list, list + n);
  if (const auto bytes = gather(qp->qp_base.pd, send.sges))
    append(send.bytes, bytes->data(), bytes->size());
}

void wr_set_sge(ibv_qp_ex* qp, std::uint32_t lkey, std::uint64_t addr, std::uint32_t len) {
  const ibv_sge sge{.addr = addr, .length = len, .lkey = lkey};
  wr_set_sge_list(qp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex* qp, std::size_t n, const ibv_data_buf* list) {
  const Lock lock{State::get().mutex};
  Send& send = current(qp, "ibv_wr_set_inline_data");
  send.flags |= IBV_SEND_INLINE;
  for (const ibv_data_buf& part : std::span{list, n}) append(send.bytes, part.addr, part.length);
}

void wr_set_inline_data(ibv_qp_ex* qp, void* addr, std::size_t len) {
  const ibv_data_buf part{addr, len};
  wr_set_inline_data_list(qp, 1, &part);
}

/// Posts the whole batch, or none of it.
int wr_complete(ibv_qp_ex* qp) {
  Qp& own = of_ex(qp);
  const Lock lock{State::get().mutex};
  if (!std::exchange(own.building, false))
    State::get().violation("ibv_wr_complete without ibv_wr_start");
  auto batch = std::exchange(own.built, {});
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (const int error = check(own, batch[i], i); error != 0) return error;
  for (Send& send : batch) enqueue(own, std::move(send));
  ring_doorbell(own);
  return 0;
}

void wr_abort(ibv_qp_ex* qp) {
  Qp& own = of_ex(qp);
  const Lock lock{State::get().mutex};
  if (!std::exchange(own.building, false))
    State::get().violation("ibv_wr_abort without ibv_wr_start");
  own.built.clear();
}

/// Returns the errno of a provider.
int enqueue(Context& context, ReceiveQueue& queue, const ibv_recv_wr& wr) {
  State& state = State::get();
  if (queue.posted.size() >= queue.max_wr) return ENOMEM;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > queue.max_sge) return EINVAL;
  const auto sges = sges_of(wr.sg_list, wr.num_sge);
  for (const ibv_sge& sge : sges)
    if (!state.posted_buffers.emplace(sge.addr, &context).second)
      state.violation("a buffer is posted twice");
  queue.posted.push_back({wr.wr_id, {sges.begin(), sges.end()}});
  return 0;
}

int post_receives(Context& context, ReceiveQueue& queue, Call call, bool refused, ibv_recv_wr* wr,
                  ibv_recv_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    int error = refused ? EINVAL : State::get().injected(call);
    if (context.gone) {
      if (context.removal.posts_fail) error = EIO;
    } else if (error == 0) {
      error = enqueue(context, queue, *wr);
    }
    if (error == 0) continue;
    *bad = wr;
    return error;
  }
  return 0;
}

}  // namespace

std::optional<std::vector<std::byte>> gather(const ibv_pd* pd, std::span<const ibv_sge> sges) {
  const auto& mrs = State::get().mrs;
  std::vector<std::byte> bytes;
  for (const ibv_sge& sge : sges) {
    const auto found = mrs.find(sge.lkey);
    if (found == mrs.end() || found->second->pd != base_of(pd)) return std::nullopt;
    const auto start = reinterpret_cast<std::uint64_t>(found->second->addr);
    if (sge.addr < start || sge.addr + sge.length > start + found->second->length)
      return std::nullopt;
    append(bytes, reinterpret_cast<const void*>(sge.addr), sge.length);
  }
  return bytes;
}

void set_posting(Qp& qp) {
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_send = wr_send;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  const Lock lock{State::get().mutex};
  Qp& own = of(qp);
  int error = 0;
  for (; wr != nullptr; wr = wr->next) {
    Send send = send_of(own, *wr);
    error = wr->opcode == IBV_WR_SEND ? check(own, send, 0) : EINVAL;
    if (error != 0) {
      *bad = wr;
      break;
    }
    enqueue(own, std::move(send));
  }
  ring_doorbell(own);
  return error;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Qp& own = of(qp);
  if (!own.live) state.violation("a receive for a destroyed queue pair");
  const bool refused = !own.live || own.srq() != nullptr || own.state == IBV_QPS_RESET;
  const int error =
      post_receives(own.context(), own.own_receives, Call::kPostRecv, refused, wr, bad);
  if (own.state == IBV_QPS_ERR) flush_receives(own);
  progress();
  return error;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Srq& own = *static_cast<Srq*>(srq);
  Context& context = of(srq->context);
  if (!own.live) state.violation("a receive for a destroyed shared receive queue");
  const int error = post_receives(context, own.queue, Call::kPostSrqRecv, !own.live, wr, bad);
  progress();
  return error;
}

}  // namespace ipoib::fake_verbs
