// SPDX-License-Identifier: BSD-3-Clause
// The functions of libibverbs that create, change and destroy objects.
#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

/// Returns the errno of a call that destroys an object, or 0. The object must exist and be unused.
template <class T>
int obstacle_to_end(const T& object, unsigned uses, const char* what) {
  State& state = State::get();
  if (!object.live) {
    state.violation(std::string{what} + " ended twice");
    return EINVAL;
  }
  if (const int error = obstacle(object.context, Call::kDestroy); error != 0) return error;
  if (uses == 0) return 0;
  state.violation(std::string{what} + " ended while in use");
  return EBUSY;
}

bool may_be(const Device& device, const ibv_qp_init_attr_ex& attr) {
  const ibv_device_attr& limits = device.attr.orig_attr;
  const auto above = [](std::uint32_t value, int most) {
    return value > static_cast<std::uint32_t>(most);
  };
  const bool known =
      attr.qp_type == IBV_QPT_UD || attr.qp_type == IBV_QPT_RC || attr.qp_type == IBV_QPT_UC;
  return known && attr.send_cq != nullptr && attr.recv_cq != nullptr && attr.pd != nullptr &&
         !above(attr.cap.max_send_wr, limits.max_qp_wr) &&
         !above(attr.cap.max_recv_wr, limits.max_qp_wr) &&
         !above(attr.cap.max_send_sge, limits.max_sge) &&
         !above(attr.cap.max_recv_sge, limits.max_sge) &&
         attr.cap.max_inline_data <= device.max_inline;
}

/// Returns an errno if the device lacks what the call asks of the extended interface, otherwise 0.
int unsupported(const Device& device, const ibv_qp_init_attr_ex& attr) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attr.comp_mask & ~kKnown) != 0 || (attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return EINVAL;
  const bool extended = (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  return extended && (!device.extended_qp || attr.send_ops_flags != IBV_QP_EX_WITH_SEND)
             ? EOPNOTSUPP
             : 0;
}

void attach_fast(Qp& qp) {
  Cq& cq = qp.recv_cq();
  cq.receives = qp.receives().fast.get();
  const bool ud = qp.qp_base.qp_type == IBV_QPT_UD;
  ibv_wc& wc = cq.received;
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = qp.device().fast_len + (ud ? 40 : 0);
  wc.qp_num = qp.qpn();
  wc.src_qp = 0x49;
  wc.slid = 9;
  wc.wc_flags = IBV_WC_IP_CSUM_OK;
  qp.send_cq().sent.qp_num = qp.qpn();
}

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

bool names(const std::vector<ibv_sge>& sges, std::uint32_t lkey) {
  return std::any_of(sges.begin(), sges.end(),
                     [&](const ibv_sge& sge) { return sge.lkey == lkey; });
}

/// True if a send that may be in progress or a posted receive names the memory.
bool in_use(const Mr& mr) {
  const auto& qps = State::get().qps;
  return std::any_of(qps.begin(), qps.end(), [&](const auto& entry) {
    Qp& qp = *entry.second;
    const auto& posted = qp.receives().posted;
    return std::any_of(qp.sends.begin(), qp.sends.end(),
                       [&](const Send& send) { return names(send.sges, mr.lkey); }) ||
           std::any_of(posted.begin(), posted.end(),
                       [&](const Receive& receive) { return names(receive.sges, mr.lkey); });
  });
}

bool in_use(const Ah& ah) {
  const auto& qps = State::get().qps;
  return std::any_of(qps.begin(), qps.end(), [&](const auto& entry) {
    const auto& sends = entry.second->sends;
    return std::any_of(sends.begin(), sends.end(),
                       [&](const Send& send) { return send.ah == &ah; });
  });
}

wire::Gid gid_of(const ibv_gid& gid) {
  wire::Gid out;
  std::memcpy(out.bytes.data(), gid.raw, sizeof(gid.raw));
  return out;
}

}  // namespace

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(context, Call::kCreateQp); error != 0) return refuse(error);
  Context& own = of(context);
  const Device& device = *own.device;
  if (!may_be(device, *attr)) return refuse(EINVAL);
  if (const int error = unsupported(device, *attr); error != 0) return refuse(error);

  // Providers round queue sizes up, here to powers of two.
  attr->cap.max_send_wr = std::bit_ceil(std::max(attr->cap.max_send_wr, 1U));
  if (attr->srq != nullptr)
    attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
  else
    attr->cap.max_recv_wr = std::bit_ceil(std::max(attr->cap.max_recv_wr, 1U));

  Qp& qp = state.make(Qp{});
  qp.qp_base.context = context;
  qp.qp_base.qp_context = attr->qp_context;
  qp.qp_base.pd = attr->pd;
  qp.qp_base.send_cq = attr->send_cq;
  qp.qp_base.recv_cq = attr->recv_cq;
  qp.qp_base.srq = attr->srq;
  qp.qp_base.qp_type = attr->qp_type;
  qp.qp_base.qp_num = state.next_qpn++;
  qp.cap = attr->cap;
  qp.signals_all = attr->sq_sig_all != 0;
  qp.own_receives.max_wr = attr->cap.max_recv_wr;
  qp.own_receives.max_sge = attr->cap.max_recv_sge;
  qp.extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (qp.extended) set_posting(qp);
  if (device.fast) {
    if (attr->srq == nullptr) qp.own_receives.fast = std::make_unique<Ring>(attr->cap.max_recv_wr);
    attach_fast(qp);
    if (qp.extended) set_fast_sending(qp);
  }
  ++static_cast<Pd*>(attr->pd)->uses;
  ++qp.send_cq().uses;
  ++qp.recv_cq().uses;
  if (qp.srq() != nullptr) ++qp.srq()->uses;
  ++own.live.qps;
  state.qps[qp.qpn()] = &qp;
  return &qp.qp_base;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(context, Call::kAllocTd); error != 0) return refuse(error);
  Context& own = of(context);
  if (!own.device->thread_domains) return refuse(EOPNOTSUPP);
  if (attr->comp_mask != 0) return refuse(EINVAL);
  Td& td = state.make(Td{});
  td.context = context;
  ++own.live.tds;
  return &td;
}

int dealloc_td(ibv_td* td) {
  const Lock lock{State::get().mutex};
  Td& own = *static_cast<Td*>(td);
  if (const int error = obstacle_to_end(own, own.uses, "a thread domain"); error != 0) return error;
  own.live = false;
  --of(td->context).live.tds;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(context, Call::kAllocParentDomain); error != 0)
    return refuse(error);
  if (attr->comp_mask != 0 || attr->pd == nullptr) return refuse(EINVAL);
  Pd& pd = state.make(Pd{});
  pd.context = context;
  pd.base = static_cast<Pd*>(attr->pd);
  pd.td = static_cast<Td*>(attr->td);
  ++pd.base->uses;
  if (pd.td != nullptr) ++pd.td->uses;
  ++of(context).live.pds;
  return &pd;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  const Lock lock{State::get().mutex};
  constexpr std::uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const bool single = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
                      attr->flags == IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  if ((attr->comp_mask & ~kKnown) != 0 || attr->wc_flags != 0) return refuse(EINVAL);
  if (single && !of(context).device->single_threaded_cqs) return refuse(EOPNOTSUPP);
  ibv_cq* const cq = ibv_create_cq(context, static_cast<int>(attr->cqe), attr->cq_context,
                                   attr->channel, static_cast<int>(attr->comp_vector));
  if (cq == nullptr) return nullptr;
  static_cast<Cq*>(cq)->single_threaded = single;
  return reinterpret_cast<ibv_cq_ex*>(cq);  // ibv_cq_ex_to_cq() casts it back.
}

}  // namespace ipoib::fake_verbs

// NOLINTBEGIN(readability-identifier-naming)
using namespace ipoib::fake_verbs;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(context, Call::kAllocPd); error != 0) return refuse(error);
  Pd& pd = state.make(Pd{});
  pd.context = context;
  ++of(context).live.pds;
  return &pd;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  const Lock lock{State::get().mutex};
  Pd& own = *static_cast<Pd*>(pd);
  if (const int error = obstacle_to_end(own, own.uses, "a protection domain"); error != 0)
    return error;
  own.live = false;
  if (own.base != nullptr) --own.base->uses;
  if (own.td != nullptr) --own.td->uses;
  --of(pd->context).live.pds;
  return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t len, std::uint64_t iova,
                         unsigned access) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(pd->context, Call::kRegMr); error != 0) return refuse(error);
  Context& context = of(pd->context);
  if (addr == nullptr || len == 0 || iova != address_of(addr)) return refuse(EINVAL);
  if (len > context.device->memlock - context.device->registered) return refuse(ENOMEM);
  Mr& mr = state.make(Mr{});
  mr.context = pd->context;
  mr.pd = pd;
  mr.addr = addr;
  mr.length = len;
  mr.access = access;
  mr.lkey = mr.rkey = state.next_key;
  state.next_key += 0x101;
  state.mrs[mr.lkey] = &mr;
  context.device->registered += len;
  ++static_cast<Pd*>(pd)->uses;
  ++context.live.mrs;
  return &mr;
}

ibv_mr*(ibv_reg_mr)(ibv_pd* pd, void* addr, std::size_t len, int access) {
  return ibv_reg_mr_iova2(pd, addr, len, address_of(addr), static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr* mr) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Mr& own = *static_cast<Mr*>(mr);
  if (const int error = obstacle_to_end(own, 0, "a memory region"); error != 0) return error;
  if (in_use(own)) state.violation("memory is unregistered while work requests name it");
  own.live = false;
  state.mrs.erase(mr->lkey);
  Context& context = of(mr->context);
  context.device->registered -= mr->length;
  --static_cast<Pd*>(mr->pd)->uses;
  --context.live.mrs;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int vector) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(context, Call::kCreateCq); error != 0) return refuse(error);
  Context& own = of(context);
  if (cqe < 1 || cqe > own.device->attr.orig_attr.max_cqe || vector != 0 || channel != nullptr)
    return refuse(EINVAL);
  Cq& cq = state.make(Cq{});
  cq.context = context;
  cq.cq_context = cq_context;
  cq.cqe = cqe;
  if (own.device->fast) {
    cq.sends = std::make_unique<Ring>(static_cast<std::uint32_t>(cqe));
    cq.sent.opcode = IBV_WC_SEND;
  }
  ++own.live.cqs;
  return &cq;
}

int ibv_destroy_cq(ibv_cq* cq) {
  const Lock lock{State::get().mutex};
  Cq& own = *static_cast<Cq*>(cq);
  if (const int error = obstacle_to_end(own, own.uses, "a completion queue"); error != 0)
    return error;
  forget_events(*cq);
  own.live = false;
  --of(cq->context).live.cqs;
  return 0;
}

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(pd->context, Call::kCreateSrq); error != 0) return refuse(error);
  Context& context = of(pd->context);
  const ibv_device_attr& limits = context.device->attr.orig_attr;
  if (limits.max_srq == 0) return refuse(EOPNOTSUPP);
  if (attr->attr.max_wr == 0 || attr->attr.max_wr > static_cast<unsigned>(limits.max_srq_wr) ||
      attr->attr.max_sge > static_cast<unsigned>(limits.max_srq_sge))
    return refuse(EINVAL);
  Srq& srq = state.make(Srq{});
  srq.context = pd->context;
  srq.srq_context = attr->srq_context;
  srq.pd = pd;
  srq.queue.max_wr = attr->attr.max_wr;
  srq.queue.max_sge = std::max(attr->attr.max_sge, 1U);
  if (context.device->fast) srq.queue.fast = std::make_unique<Ring>(attr->attr.max_wr);
  ++static_cast<Pd*>(pd)->uses;
  ++context.live.srqs;
  return &srq;
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(srq->context, Call::kModifySrq); error != 0) return error;
  Srq& own = *static_cast<Srq*>(srq);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    const auto flags = of(srq->context).device->attr.orig_attr.device_cap_flags;
    if ((flags & IBV_DEVICE_SRQ_RESIZE) == 0) return EOPNOTSUPP;
    if (attr->max_wr < own.queue.posted.size()) return EINVAL;
    own.queue.max_wr = attr->max_wr;
  }
  if ((mask & IBV_SRQ_LIMIT) != 0) {
    if (attr->srq_limit >= own.queue.max_wr) return EINVAL;
    own.limit = attr->srq_limit;
  }
  return 0;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  const Lock lock{State::get().mutex};
  if (of(srq->context).gone) return EIO;
  const Srq& own = *static_cast<Srq*>(srq);
  *attr = {.max_wr = own.queue.max_wr, .max_sge = own.queue.max_sge, .srq_limit = own.limit};
  return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Srq& own = *static_cast<Srq*>(srq);
  if (const int error = obstacle_to_end(own, own.uses, "a shared receive queue"); error != 0)
    return error;
  forget_events(*srq);
  for (const Receive& receive : own.queue.posted)
    for (const ibv_sge& sge : receive.sges) state.posted_buffers.erase(sge.addr);
  own.queue.posted.clear();
  own.live = false;
  --static_cast<Pd*>(srq->pd)->uses;
  --of(srq->context).live.srqs;
  return 0;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  std::memcpy(&extended, attr, sizeof(*attr));
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* qp = create_qp(pd->context, &extended);
  attr->cap = extended.cap;
  return qp;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return of(qp).extended ? &of(qp) : nullptr;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(qp->context, Call::kModifyQp); error != 0) return error;
  return of(qp).live ? modify(of(qp), *attr, mask) : EINVAL;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int /*mask*/, ibv_qp_init_attr* init) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(qp->context, Call::kQueryQp); error != 0) return error;
  const Qp& own = of(qp);
  *attr = own.attr;
  attr->qp_state = attr->cur_qp_state = own.state;
  attr->cap = own.cap;
  if (init == nullptr) return 0;
  *init = {.qp_context = qp->qp_context,
           .send_cq = qp->send_cq,
           .recv_cq = qp->recv_cq,
           .srq = qp->srq,
           .cap = own.cap,
           .qp_type = qp->qp_type,
           .sq_sig_all = own.signals_all ? 1 : 0};
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const auto action = std::exchange(state.before_destroy_qp, {})) action();
  Qp& own = of(qp);
  if (!own.live) {
    state.violation("a queue pair ended twice");
    return EINVAL;
  }
  if (const int error = obstacle(qp->context, Call::kDestroy); error != 0) return error;
  if (!own.groups.empty()) {
    state.violation("a queue pair ended while attached to a group");
    return EBUSY;
  }
  Context& context = of(qp->context);
  forget_events(*qp);
  empty(own);
  own.live = false;
  state.qps.erase(own.qpn());
  if (own.recv_cq().receives == own.receives().fast.get()) own.recv_cq().receives = nullptr;
  --static_cast<Pd*>(qp->pd)->uses;
  --own.send_cq().uses;
  --own.recv_cq().uses;
  if (own.srq() != nullptr) --own.srq()->uses;
  --context.live.qps;
  return 0;
}

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  State& state = State::get();
  const Lock lock{state.mutex};
  if (const int error = obstacle(pd->context, Call::kCreateAh); error != 0) return refuse(error);
  Context& context = of(pd->context);
  const Port* port = context.device->port(attr->port_num);
  if (port == nullptr || attr->sl > 15 || attr->dlid == 0 ||
      (attr->is_global != 0 && attr->grh.sgid_index >= port->gids.size()))
    return refuse(EINVAL);
  Ah& ah = state.make(Ah{});
  ah.context = pd->context;
  ah.pd = pd;
  ah.attr = *attr;
  ++static_cast<Pd*>(pd)->uses;
  ++context.live.ahs;
  return &ah;
}

int ibv_destroy_ah(ibv_ah* ah) {
  State& state = State::get();
  const Lock lock{state.mutex};
  Ah& own = *static_cast<Ah*>(ah);
  if (const int error = obstacle_to_end(own, 0, "an address handle"); error != 0) return error;
  if (in_use(own)) state.violation("an address handle ended before the sends that name it");
  own.live = false;
  --static_cast<Pd*>(ah->pd)->uses;
  --of(ah->context).live.ahs;
  return 0;
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(qp->context, Call::kAttachMcast); error != 0) return error;
  const auto mgid = gid_of(*gid);
  if (qp->qp_type != IBV_QPT_UD || !mgid.is_multicast() || !ipoib::wire::is_multicast_lid(lid))
    return EINVAL;
  of(qp).mgids.insert(mgid);
  if (of(qp).groups.insert({mgid, lid}).second) ++of(qp->context).live.attachments;
  return 0;
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t lid) {
  const Lock lock{State::get().mutex};
  if (const int error = obstacle(qp->context, Call::kDetachMcast); error != 0) return error;
  if (of(qp).groups.erase({gid_of(*gid), lid}) == 0) return EINVAL;
  of(qp).mgids.erase(gid_of(*gid));
  --of(qp->context).live.attachments;
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
