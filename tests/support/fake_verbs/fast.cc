// SPDX-License-Identifier: BSD-3-Clause
// A device that does next to nothing, so that benchmarks measure the driver: a send is complete
// when it is posted, a receive as soon as its buffer is posted. Nothing takes a lock and nearly
// nothing is checked.
#include <bit>
#include <cerrno>

#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

Qp& of_ex(ibv_qp_ex* qp) {
  return *static_cast<Qp*>(qp);
}

int post_send_fast(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** /*bad*/) {
  Ring& done = *static_cast<Cq*>(qp->send_cq)->sends;
  for (; wr != nullptr; wr = wr->next)
    if ((wr->send_flags & IBV_SEND_SIGNALED) != 0) done.push(wr->wr_id);
  return 0;
}

int post(Ring& ring, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    if (ring.full()) {
      *bad = wr;
      return ENOMEM;
    }
    ring.push(wr->wr_id);
  }
  return 0;
}

int post_recv_fast(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return post(*of(qp).own_receives.fast, wr, bad);
}

int post_srq_recv_fast(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return post(*static_cast<Srq*>(srq)->queue.fast, wr, bad);
}

int take(Ring& ring, const ibv_wc& like, int n, ibv_wc* wc) {
  int taken = 0;
  for (; taken < n && !ring.empty(); ++taken) {
    wc[taken] = like;
    wc[taken].wr_id = ring.pop();
  }
  return taken;
}

int poll_cq_fast(ibv_cq* queue, int n, ibv_wc* wc) {
  Cq& cq = *static_cast<Cq*>(queue);
  const int sent = take(*cq.sends, cq.sent, n, wc);
  return cq.receives == nullptr ? sent
                                : sent + take(*cq.receives, cq.received, n - sent, wc + sent);
}

void wr_send_fast(ibv_qp_ex* qp) {
  if ((qp->wr_flags & IBV_SEND_SIGNALED) != 0) of_ex(qp).send_cq().sends->push(qp->wr_id);
}

}  // namespace

Ring::Ring(std::uint32_t n) : slots(std::bit_ceil(n)), mask{std::bit_ceil(n) - 1}, limit{n} {}

void set_fast(Context& context) {
  ibv_context_ops& ops = context.context.ops;
  ops.post_send = post_send_fast;
  ops.post_recv = post_recv_fast;
  ops.post_srq_recv = post_srq_recv_fast;
  ops.poll_cq = poll_cq_fast;
}

void set_fast_sending(Qp& qp) {
  qp.wr_start = [](ibv_qp_ex*) {};
  qp.wr_abort = [](ibv_qp_ex*) {};
  qp.wr_complete = [](ibv_qp_ex*) { return 0; };
  qp.wr_send = wr_send_fast;
  qp.wr_set_ud_addr = [](ibv_qp_ex*, ibv_ah*, std::uint32_t, std::uint32_t) {};
  qp.wr_set_sge = [](ibv_qp_ex*, std::uint32_t, std::uint64_t, std::uint32_t) {};
  qp.wr_set_sge_list = [](ibv_qp_ex*, std::size_t, const ibv_sge*) {};
  qp.wr_set_inline_data = [](ibv_qp_ex*, void*, std::size_t) {};
  qp.wr_set_inline_data_list = [](ibv_qp_ex*, std::size_t, const ibv_data_buf*) {};
}

}  // namespace ipoib::fake_verbs
