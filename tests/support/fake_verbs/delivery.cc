// SPDX-License-Identifier: BSD-3-Clause
// Carries out work requests: moves packets from port to port, and handles those that cannot arrive.
// Source: IBA vol 1 §9.6.1, §9.7 to 9.9, §10.10.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/wire/iba.h"
#include "tests/support/fake_verbs/objects.h"

namespace ipoib::fake_verbs {
namespace {

/// Empty: the send cannot be carried out yet.
using Outcome = std::optional<ibv_wc_status>;

constexpr std::size_t kGrhLen = sizeof(wire::Grh);
/// Fills the room for a GRH in front of a packet without one.
constexpr std::byte kUntouched{0xee};

std::size_t octets_of(ibv_mtu mtu) {
  return std::size_t{128} << static_cast<unsigned>(mtu);
}

Outcome lose(Lost reason) {
  ++State::get().lost[reason];
  return IBV_WC_SUCCESS;
}

/// Fields without a meaning for the status hold a pattern that no caller expects.
ibv_wc completion(const Qp& qp, std::uint64_t wr_id, ibv_wc_status status) {
  ibv_wc wc;
  std::memset(&wc, 0xa5, sizeof(wc));
  wc.wr_id = wr_id;
  wc.status = status;
  wc.qp_num = qp.qpn();
  if (status != IBV_WC_SUCCESS) wc.vendor_err = 0x51;
  return wc;
}

void complete_send(Qp& qp, Send& send, ibv_wc_status status) {
  send.done = true;
  if (status == IBV_WC_SUCCESS && (send.flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc wc = completion(qp, send.wr_id, status);
  if (status == IBV_WC_SUCCESS) {
    wc.opcode = IBV_WC_SEND;
    wc.wc_flags = 0;
  }
  complete(qp, qp.send_cq(), {wc, &qp, send.number});
}

/// Enters the state that follows a failed send.
void fail_sends(Qp& qp) {
  const bool stops_sends_alone =
      qp.qp_base.qp_type != IBV_QPT_RC && qp.device().ud_errors_stop_sends;
  if (!stops_sends_alone) return enter_error(qp);
  if (qp.state != IBV_QPS_RTS) return;
  qp.state = IBV_QPS_SQE;
  flush_sends(qp);
}

Receive take(Qp& qp) {
  State& state = State::get();
  ReceiveQueue& queue = qp.receives();
  Receive receive = std::move(queue.posted.front());
  queue.posted.pop_front();
  for (const ibv_sge& sge : receive.sges) state.posted_buffers.erase(sge.addr);
  Srq* srq = qp.srq();
  if (srq != nullptr && queue.posted.size() < srq->limit) {
    srq->limit = 0;
    ibv_async_event event{};
    event.element.srq = srq;
    push_event(qp.context(), IBV_EVENT_SRQ_LIMIT_REACHED, event);
  }
  return receive;
}

/// Copies into registered memory with local write access.
ibv_wc_status scatter(const ibv_pd* pd, const Receive& receive, std::span<const std::byte> bytes) {
  if (bytes.size() > receive.capacity()) return IBV_WC_LOC_LEN_ERR;
  const auto& mrs = State::get().mrs;
  for (const ibv_sge& sge : receive.sges) {
    if (bytes.empty()) break;
    const auto found = mrs.find(sge.lkey);
    if (!gather(pd, std::span{&sge, 1}) || (found->second->access & IBV_ACCESS_LOCAL_WRITE) == 0)
      return IBV_WC_LOC_PROT_ERR;
    const std::size_t n = std::min<std::size_t>(bytes.size(), sge.length);
    std::memcpy(reinterpret_cast<void*>(sge.addr), bytes.data(), n);
    bytes = bytes.subspan(n);
  }
  return IBV_WC_SUCCESS;
}

/// Receives a message that the queue pair accepts. Precondition: a buffer is posted. Returns the
/// status of the completion.
ibv_wc_status receive(Qp& qp, const Message& message, std::span<const std::byte> bytes) {
  const Receive into = take(qp);
  const auto told = State::get().injected(Side::kReceive);
  const ibv_wc_status status = told ? *told : scatter(qp.qp_base.pd, into, bytes);
  ibv_wc wc = completion(qp, into.wr_id, status);
  if (status == IBV_WC_SUCCESS) {
    const bool ud = qp.qp_base.qp_type == IBV_QPT_UD;
    const unsigned flag = ud ? IBV_DEVICE_UD_IP_CSUM : IBV_DEVICE_RC_IP_CSUM;
    const bool verifies = (qp.device().attr.orig_attr.device_cap_flags & flag) != 0;
    wc.opcode = IBV_WC_RECV;
    wc.byte_len = static_cast<std::uint32_t>(bytes.size());
    wc.wc_flags = (ud && message.global ? unsigned{IBV_WC_GRH} : 0) |
                  (verifies && checksums_good(message.bytes) ? unsigned{IBV_WC_IP_CSUM_OK} : 0) |
                  (message.immediate ? unsigned{IBV_WC_WITH_IMM} : 0);
    if (message.immediate) wc.imm_data = __builtin_bswap32(*message.immediate);
    wc.slid = message.slid;
    wc.sl = message.sl;
    const unsigned paths = 1U << qp.port().attr.lmc;
    wc.dlid_path_bits = static_cast<std::uint8_t>(message.dlid & (paths - 1));
    if (ud) wc.src_qp = message.src_qpn;
  }
  complete(qp, qp.recv_cq(), {wc, &qp, std::nullopt});
  if (status != IBV_WC_SUCCESS) enter_error(qp);
  return status;
}

std::array<std::byte, kGrhLen> grh_of(const Message& message) {
  constexpr std::size_t kBthDethIcrc = 12 + 8 + 4;
  std::array<std::byte, kGrhLen> bytes;
  bytes.fill(kUntouched);
  if (!message.global) return bytes;
  wire::Grh grh{};
  grh.version_tclass_flow = wire::Grh::pack(message.tclass, message.flow_label);
  const std::size_t padded = (message.bytes.size() + 3) / 4 * 4;
  grh.pay_len.set(static_cast<std::uint16_t>(padded + kBthDethIcrc));
  grh.next_header = wire::Grh::kNextHeaderIba;
  grh.hop_limit = message.hop_limit;
  grh.sgid = message.sgid;
  grh.dgid = message.dgid;
  std::memcpy(bytes.data(), &grh, sizeof(grh));
  return bytes;
}

void receive_datagram(Qp& qp, const Message& message) {
  if (qp.qp_base.qp_type != IBV_QPT_UD || !qp.receiving()) {
    lose(Lost::kNoQp);
  } else if (!wire::pkeys_match(message.pkey, qp.pkey())) {
    ++qp.port().pkey_violations;
    lose(Lost::kPkey);
  } else if (message.qkey != qp.attr.qkey) {
    ++qp.port().qkey_violations;
    lose(Lost::kQkey);
  } else if (qp.receives().posted.empty()) {
    lose(Lost::kNoBuffer);
  } else {
    std::vector<std::byte> bytes(kGrhLen + message.bytes.size());
    const auto grh = grh_of(message);
    std::copy(grh.begin(), grh.end(), bytes.begin());
    std::copy(message.bytes.begin(), message.bytes.end(), bytes.begin() + kGrhLen);
    receive(qp, message, bytes);
  }
}

bool owns_lid(const Port& port, std::uint16_t lid) {
  return port.attr.lid != 0 && lid >> port.attr.lmc == port.attr.lid >> port.attr.lmc;
}

/// Fills in the fields that do not depend on the transport.
Message message_of(const Qp& qp, const ibv_ah_attr& path, std::vector<std::byte> bytes) {
  const Port& port = qp.port();
  Message message;
  message.type = qp.qp_base.qp_type;
  message.slid = static_cast<std::uint16_t>(port.attr.lid | path.src_path_bits);
  message.dlid = path.dlid;
  message.sl = path.sl;
  message.static_rate = path.static_rate;
  message.global = path.is_global != 0;
  if (message.global) {
    if (path.grh.sgid_index < port.gids.size()) message.sgid = port.gids[path.grh.sgid_index];
    std::memcpy(message.dgid.bytes.data(), path.grh.dgid.raw, message.dgid.bytes.size());
    message.hop_limit = path.grh.hop_limit;
    message.tclass = path.grh.traffic_class;
    message.flow_label = path.grh.flow_label;
  }
  message.pkey = qp.pkey();
  message.src_qpn = qp.qpn();
  message.bytes = std::move(bytes);
  return message;
}

void put_on_wire(const Qp& qp, const Message& message) {
  State& state = State::get();
  if (state.tap) state.sent.push_back(message);
  if (qp.port().attr.state != IBV_PORT_ACTIVE) {
    lose(Lost::kPortDown);
  } else if (message.type == IBV_QPT_UD) {
    deliver(message);
  }
}

Outcome send_datagram(Qp& qp, const Send& send) {
  if (send.bytes.size() > octets_of(qp.port().attr.active_mtu)) return IBV_WC_LOC_LEN_ERR;
  Message message = message_of(qp, send.ah->attr, send.bytes);
  if ((send.flags & IBV_SEND_IP_CSUM) != 0) fill_checksums(message.bytes);
  message.qkey = send.remote_qkey >> 31 != 0 ? qp.attr.qkey : send.remote_qkey;
  message.dest_qpn = send.remote_qpn;
  put_on_wire(qp, message);
  return IBV_WC_SUCCESS;
}

/// True if the peer expects packets from this LID: the one that its path leads to. `follows`: its
/// alternate path. Source: IBA vol 1 §9.6.1.5.
bool comes_from_path(const Qp& qp, const Qp& peer, bool follows) {
  const ibv_ah_attr& expected = follows ? peer.attr.alt_ah_attr : peer.attr.ah_attr;
  const std::uint16_t slid =
      static_cast<std::uint16_t>(qp.port().attr.lid | qp.attr.ah_attr.src_path_bits);
  return slid == expected.dlid;
}

/// Returns the queue pair at the other end if both name each other. Its port may still discard the
/// packets, because of their P_Key.
Qp* peer_of(const Qp& qp) {
  if (qp.port().attr.state != IBV_PORT_ACTIVE) return nullptr;
  const auto& qps = State::get().qps;
  const auto found = qps.find(qp.attr.dest_qp_num);
  if (found == qps.end()) return nullptr;
  Qp& peer = *found->second;
  const bool right = peer.qp_base.qp_type == qp.qp_base.qp_type && peer.receiving() &&
                     peer.attr.dest_qp_num == qp.qpn();
  if (!right) return nullptr;
  const Port& there = peer.port();
  const Port& here = qp.port();
  const auto leads_to = [](const Qp& from, const Port& port) {
    const std::uint16_t dlid = from.attr.ah_attr.dlid;
    return owns_lid(port, dlid) && !State::get().cut_lids.contains(dlid);
  };
  // A peer that is armed follows to its alternate path, so that its way back need not work.
  const bool follows =
      peer.attr.path_mig_state == IBV_MIG_ARMED && qp.attr.path_mig_state == IBV_MIG_MIGRATED;
  const bool reached = there.attr.state == IBV_PORT_ACTIVE && leads_to(qp, there) &&
                       (follows || leads_to(peer, here));
  return reached && comes_from_path(qp, peer, follows) ? &peer : nullptr;
}

/// True if the port of the peer discards the packet, and counts it.
bool discards(const Qp& peer, const Qp& from) {
  if (wire::pkeys_match(from.pkey(), peer.pkey())) return false;
  ++peer.port().pkey_violations;
  return true;
}

void establish(Qp& peer) {
  if (peer.state != IBV_QPS_RTR || std::exchange(peer.established, true)) return;
  ibv_async_event event{};
  event.element.qp = &peer.qp_base;
  push_event(peer.context(), IBV_EVENT_COMM_EST, event);
}

/// Number of PSNs that the message takes.
std::uint32_t psns(const Qp& qp, const Send& send) {
  const std::size_t mtu = octets_of(qp.attr.path_mtu);
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, (send.bytes.size() + mtu - 1) / mtu));
}

Outcome send_unreliable(Qp& qp, const Send& send) {
  const Message message = message_of(qp, qp.attr.ah_attr, send.bytes);
  const std::uint32_t psn = qp.next_psn;
  qp.next_psn = (psn + psns(qp, send)) & 0xff'ffff;
  put_on_wire(qp, message);
  Qp* peer = peer_of(qp);
  if (peer == nullptr) return lose(Lost::kNoQp);
  if (discards(*peer, qp)) return lose(Lost::kPkey);
  establish(*peer);
  peer->expected_psn = qp.next_psn;
  const auto& posted = peer->receives().posted;
  if (posted.empty()) return lose(Lost::kNoBuffer);
  if (send.bytes.size() > posted.front().capacity()) return lose(Lost::kTooLong);
  receive(*peer, message, message.bytes);
  return IBV_WC_SUCCESS;
}

Outcome send_reliable(Qp& qp, Send& send) {
  Qp* peer = peer_of(qp);
  if (peer == nullptr || discards(*peer, qp) || peer->expected_psn != qp.next_psn) {
    const bool waits = qp.attr.timeout == 0 || send.tries <= qp.attr.retry_cnt;
    if (waits) return std::nullopt;
    if (qp.attr.path_mig_state != IBV_MIG_ARMED) return IBV_WC_RETRY_EXC_ERR;
    send.tries = 0;
    migrate(qp);
    return send_reliable(qp, send);
  }
  if (qp.attr.path_mig_state == IBV_MIG_MIGRATED && peer->attr.path_mig_state == IBV_MIG_ARMED)
    migrate(*peer);
  arm(qp, *peer);
  establish(*peer);
  const auto& posted = peer->receives().posted;
  if (posted.empty()) {
    const bool waits = qp.attr.rnr_retry == 7 || send.tries <= qp.attr.rnr_retry;
    return waits ? std::nullopt : Outcome{IBV_WC_RNR_RETRY_EXC_ERR};
  }
  const Message message = message_of(qp, qp.attr.ah_attr, send.bytes);
  put_on_wire(qp, message);
  const ibv_wc_status status = receive(*peer, message, message.bytes);
  if (status == IBV_WC_LOC_LEN_ERR) return IBV_WC_REM_INV_REQ_ERR;
  if (status != IBV_WC_SUCCESS) return IBV_WC_REM_OP_ERR;
  qp.next_psn = (qp.next_psn + psns(qp, send)) & 0xff'ffff;
  peer->expected_psn = qp.next_psn;
  return IBV_WC_SUCCESS;
}

Outcome carry_out(Qp& qp, Send& send) {
  if (!std::exchange(send.started, true))
    if (const auto told = State::get().injected(Side::kSend)) return told;
  if ((send.flags & IBV_SEND_INLINE) == 0) {
    const auto now = gather(qp.qp_base.pd, send.sges);
    if (!now) return IBV_WC_LOC_PROT_ERR;
    if (*now != send.bytes)
      State::get().violation("memory of a send changed before the send was complete");
  }
  if (send.bytes.size() > qp.port().attr.max_msg_sz) return IBV_WC_LOC_LEN_ERR;
  switch (qp.qp_base.qp_type) {
    case IBV_QPT_UD: return send_datagram(qp, send);
    case IBV_QPT_UC: return send_unreliable(qp, send);
    default: return send_reliable(qp, send);
  }
}

}  // namespace

std::size_t Receive::capacity() const {
  return std::accumulate(sges.begin(), sges.end(), std::size_t{0},
                         [](std::size_t sum, const ibv_sge& sge) { return sum + sge.length; });
}

void progress(Qp& qp) {
  if (qp.state == IBV_QPS_SQE || qp.state == IBV_QPS_ERR) return flush_sends(qp);
  if (qp.device().holds_sends) return;
  // The loop counts, as carrying out a send may empty the queue.
  for (std::size_t i = 0; i < qp.sends.size() && qp.state == IBV_QPS_RTS; ++i) {
    Send& send = qp.sends[i];
    if (send.done) continue;
    const Outcome outcome = carry_out(qp, send);
    if (!outcome) return;
    if (send.done) continue;  // Flushed meanwhile.
    complete_send(qp, send, *outcome);
    if (*outcome != IBV_WC_SUCCESS) fail_sends(qp);
  }
}

void progress() {
  State& state = State::get();
  std::vector<Qp*> waiting;
  for (const auto& [qpn, qp] : state.qps)
    if (!qp->sends.empty() && !qp->sends.back().done) waiting.push_back(qp);
  for (Qp* qp : waiting) progress(*qp);
}

void flush_sends(Qp& qp) {
  for (Send& send : qp.sends)
    if (!send.done) complete_send(qp, send, IBV_WC_WR_FLUSH_ERR);
}

void flush_receives(Qp& qp) {
  if (qp.srq() != nullptr) return;
  while (!qp.own_receives.posted.empty()) {
    const Receive receive = take(qp);
    complete(qp, qp.recv_cq(),
             {completion(qp, receive.wr_id, IBV_WC_WR_FLUSH_ERR), &qp, std::nullopt});
  }
}

void deliver(const Message& message) {
  State& state = State::get();
  const bool multicast = wire::is_multicast_lid(message.dlid);
  bool anybody = false;
  std::vector<Qp*> receivers;
  for (const auto& [qpn, qp] : state.qps) {
    if (qp->attr.port_num == 0 || qp->port().attr.state != IBV_PORT_ACTIVE) continue;
    const bool reached = multicast ? message.global &&
                                         qp->groups.contains({message.dgid, message.dlid}) &&
                                         qp->mgids.contains(message.dgid)
                                   : owns_lid(qp->port(), message.dlid);
    anybody |= reached;
    if (reached && (multicast || qpn == message.dest_qpn)) receivers.push_back(qp);
  }
  for (Qp* qp : receivers) receive_datagram(*qp, message);
  if (!receivers.empty()) return;
  if (multicast)
    lose(Lost::kNotAttached);
  else
    lose(anybody ? Lost::kNoQp : Lost::kNoPort);
}

}  // namespace ipoib::fake_verbs
