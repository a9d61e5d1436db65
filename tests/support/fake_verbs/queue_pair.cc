// SPDX-License-Identifier: BSD-3-Clause
// The states of queue pairs, the attributes that may change in each state, and completions. Source:
// IBA vol 1 §10.3.1, §11.2.5; masks as Linux checks them.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

struct Masks {
  int required = 0;
  int optional = 0;
};

/// Returns the attributes that a transition must and may set, or nothing if the transition does not
/// exist.
std::optional<Masks> masks_of(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  const bool ud = type == IBV_QPT_UD;
  const bool rc = type == IBV_QPT_RC;
  const int identity =
      IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? int{IBV_QP_QKEY} : int{IBV_QP_ACCESS_FLAGS});
  const int running =
      IBV_QP_CUR_STATE | (ud ? int{IBV_QP_QKEY}
                             : IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE |
                                   (rc ? int{IBV_QP_MIN_RNR_TIMER} : 0));
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return Masks{};
  if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) return Masks{identity, 0};
  if (from == IBV_QPS_INIT && to == IBV_QPS_INIT) return Masks{0, identity};
  if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
    if (ud) return Masks{0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY};
    return Masks{IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
                 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX};
  }
  if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
    return Masks{IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_MAX_QP_RD_ATOMIC
                                     : 0),
                 running};
  if (from == IBV_QPS_RTS && to == IBV_QPS_RTS) return Masks{0, running};
  if (from == IBV_QPS_SQE && to == IBV_QPS_RTS && !rc)
    return Masks{0, IBV_QP_CUR_STATE | (ud ? int{IBV_QP_QKEY} : int{IBV_QP_ACCESS_FLAGS})};
  return std::nullopt;
}

bool valid_path(const Device& device, const ibv_ah_attr& path) {
  const Port* port = device.port(path.port_num);
  return port != nullptr && path.sl < 16 &&
         (path.is_global == 0 || path.grh.sgid_index < port->gids.size());
}

/// Returns the errno of a kernel.
int check_values(const Qp& qp, const ibv_qp_attr& attr, int mask) {
  const Device& device = qp.device();
  const auto has = [&](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_CUR_STATE) && attr.cur_qp_state != qp.state) return EINVAL;
  if (has(IBV_QP_PORT) && device.port(attr.port_num) == nullptr) return EINVAL;
  const Port* port = device.port(has(IBV_QP_PORT) ? attr.port_num : qp.attr.port_num);
  if (has(IBV_QP_PKEY_INDEX) && (port == nullptr || attr.pkey_index >= port->pkeys.size()))
    return EINVAL;
  if (has(IBV_QP_QKEY) && attr.qkey >> 31 != 0 && !device.controlled_qkeys) return EPERM;
  if (has(IBV_QP_AV) &&
      (!valid_path(device, attr.ah_attr) || attr.ah_attr.port_num != qp.attr.port_num))
    return EINVAL;
  if (has(IBV_QP_PATH_MTU) &&
      (attr.path_mtu < IBV_MTU_256 || port == nullptr || attr.path_mtu > port->attr.active_mtu))
    return EINVAL;
  const bool migrates = (device.attr.orig_attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG) != 0;
  if (has(IBV_QP_ALT_PATH) &&
      (!migrates || !valid_path(device, attr.alt_ah_attr) || attr.alt_timeout > 31 ||
       attr.alt_ah_attr.port_num != attr.alt_port_num || port == nullptr ||
       attr.alt_pkey_index >= port->pkeys.size()))
    return EINVAL;
  if (has(IBV_QP_PATH_MIG_STATE) && (!migrates || attr.path_mig_state == IBV_MIG_ARMED))
    return EINVAL;  // Only the device arms.
  const auto above = [&](int bit, std::uint32_t value, std::uint32_t most) {
    return has(bit) && value > most;
  };
  const auto& limits = device.attr.orig_attr;
  if (above(IBV_QP_DEST_QPN, attr.dest_qp_num, 0xff'ffff) ||
      above(IBV_QP_RQ_PSN, attr.rq_psn, 0xff'ffff) ||
      above(IBV_QP_SQ_PSN, attr.sq_psn, 0xff'ffff) || above(IBV_QP_TIMEOUT, attr.timeout, 31) ||
      above(IBV_QP_RETRY_CNT, attr.retry_cnt, 7) || above(IBV_QP_RNR_RETRY, attr.rnr_retry, 7) ||
      above(IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer, 31) ||
      above(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic,
            static_cast<std::uint32_t>(limits.max_qp_init_rd_atom)) ||
      above(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic,
            static_cast<std::uint32_t>(limits.max_qp_rd_atom)))
    return EINVAL;
  return 0;
}

void take_values(Qp& qp, const ibv_qp_attr& attr, int mask) {
  const auto take = [&](int bit, auto member) {
    if ((mask & bit) != 0) qp.attr.*member = attr.*member;
  };
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  take(IBV_QP_PATH_MIG_STATE, &ibv_qp_attr::path_mig_state);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_ah_attr);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_pkey_index);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_port_num);
  take(IBV_QP_ALT_PATH, &ibv_qp_attr::alt_timeout);
  if ((mask & IBV_QP_RQ_PSN) != 0) qp.expected_psn = attr.rq_psn;
  if ((mask & IBV_QP_SQ_PSN) != 0) qp.next_psn = attr.sq_psn;
}

}  // namespace

int modify(Qp& qp, const ibv_qp_attr& attr, int mask) {
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : qp.state;
  const auto masks = masks_of(qp.qp_base.qp_type, qp.state, to);
  if (!masks || (mask & masks->required) != masks->required ||
      (mask & ~(masks->required | masks->optional | IBV_QP_STATE)) != 0)
    return EINVAL;
  if (const int error = check_values(qp, attr, mask); error != 0) return error;
  take_values(qp, attr, mask);
  qp.qp_base.state = to;
  if (to == IBV_QPS_ERR) {
    enter_error(qp);
  } else {
    qp.state = to;
    if (to == IBV_QPS_RESET) {
      empty(qp);
      qp.established = false;
    }
  }
  progress();
  return 0;
}

void migrate(Qp& qp) {
  qp.attr.ah_attr = qp.attr.alt_ah_attr;
  qp.attr.pkey_index = qp.attr.alt_pkey_index;
  qp.attr.timeout = qp.attr.alt_timeout;
  qp.attr.path_mig_state = IBV_MIG_MIGRATED;
  ibv_async_event event{};
  event.element.qp = &qp.qp_base;
  push_event(qp.context(), IBV_EVENT_PATH_MIG, event);
}

void arm(Qp& qp, Qp& peer) {
  if (qp.attr.path_mig_state == IBV_MIG_REARM && peer.attr.path_mig_state == IBV_MIG_REARM)
    qp.attr.path_mig_state = peer.attr.path_mig_state = IBV_MIG_ARMED;
}

void enter_error(Qp& qp) {
  if (qp.state == IBV_QPS_ERR) return;
  qp.state = IBV_QPS_ERR;
  flush_sends(qp);
  if (qp.srq() == nullptr) return flush_receives(qp);
  ibv_async_event event{};
  event.element.qp = &qp.qp_base;
  push_event(qp.context(), IBV_EVENT_QP_LAST_WQE_REACHED, event);
}

void empty(Qp& qp) {
  State& state = State::get();
  qp.sends.clear();
  for (const Receive& receive : qp.own_receives.posted)
    for (const ibv_sge& sge : receive.sges) state.posted_buffers.erase(sge.addr);
  qp.own_receives.posted.clear();
  if (!qp.device().cleans_cq) return;
  for (Cq* cq : {&qp.send_cq(), &qp.recv_cq()})
    std::erase_if(cq->entries, [&](const Cqe& entry) { return entry.qp == &qp; });
}

void complete(Qp& qp, Cq& cq, const Cqe& entry) {
  if (cq.broken) return;
  if (cq.entries.size() < static_cast<std::size_t>(cq.cqe)) {
    cq.entries.push_back(entry);
    return;
  }
  State::get().violation("a completion queue overran; queue pair " + std::to_string(qp.qpn()));
  break_cq(cq);
}

void break_cq(Cq& cq) {
  cq.broken = true;
  ibv_async_event event{};
  event.element.cq = &cq;
  push_event(of(cq.context), IBV_EVENT_CQ_ERR, event);
}

int poll_cq(ibv_cq* queue, int n, ibv_wc* wc) {
  State& state = State::get();
  const std::lock_guard lock{state.mutex};
  Cq& cq = *static_cast<Cq*>(queue);
  if (!cq.live) {
    state.violation("a destroyed completion queue was polled");
    return -1;
  }
  if (of(queue->context).gone) return 0;
  if (state.injected(Call::kPollCq) != 0 || cq.broken) return -1;
  int polled = 0;
  for (; polled < n && !cq.entries.empty(); ++polled) {
    const Cqe entry = cq.entries.front();
    cq.entries.pop_front();
    wc[polled] = entry.wc;
    if (!entry.send) continue;
    auto& sends = entry.qp->sends;
    while (!sends.empty() && sends.front().number <= *entry.send) sends.pop_front();
  }
  return polled;
}

}  // namespace ipoib::fake_verbs
