// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/lib/mgmt/linux_host.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "lib/fabric/packet_meta.h"
#include "lib/wire/arp.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib_cm.h"
#include "tests/support/ip4_fragments.h"
#include "tests/support/linux_cm.h"
#include "tests/support/mbufs.h"
#include "tests/support/packets.h"
#include "tests/support/ring_device.h"
#include "tests/support/sim_tsc.h"

namespace ipoib::mgmt {
namespace {

constexpr std::uint16_t kBroadcastMlid = 0xc000;
constexpr std::uint64_t kHostGuid = 0x0002'c903'0000'0099;
constexpr std::uint32_t kCommId = 0x40'0100, kPassiveCommId = 0x40'0200;

fabric::AhAttr way_to_node() {
  fabric::AhAttr attr;
  attr.dlid = LinuxHost::kNodeLid;
  return attr;
}

}  // namespace

LinuxHost::LinuxHost(rte_ring* from_node, rte_ring* to_node, rte_mempool* pool, bool connected)
    : pool_{pool}, connected_{connected} {
  static int count = 0;
  port_ = test::start_ring_port("linux_host" + std::to_string(count++), from_node, to_node, pool);
  soft::SoftHcaConfig config;
  config.name = "linux";
  config.port_id = port_;
  config.pool = pool;
  config.attr.guid = kHostGuid;
  config.attr.lid = kLid;
  config.attr.sm_lid = kNodeLid;
  config.first_qpn = 0x4a7;
  config.tsc = &ipoib::test::read_sim_tsc;
  hca_ = soft::SoftHca::create(config).value();
  ud_ = hca_->create_ud_queue({}).value();
  fabric::AhAttr group;
  group.dlid = kBroadcastMlid;
  group.global = true;
  group.dgid = wire::broadcast_mgid(wire::kDefaultPkey, 2);
  everyone_ = hca_->create_ah(group).value();
  node_ = hca_->create_ah(way_to_node()).value();
  if (!hca_->set_qkey(*ud_, kQkey) || !hca_->attach(*ud_, group.dgid, kBroadcastMlid))
    throw std::runtime_error("no interface");
  if (connected) receive_queue_ = hca_->create_receive_queue({}).value();
}

LinuxHost::~LinuxHost() {
  hca_.reset();
  static_cast<void>(rte_eth_dev_stop(port_));
  static_cast<void>(rte_eth_dev_close(port_));
}

wire::LinkAddr LinuxHost::address() const {
  return {connected_ ? wire::LinkAddr::kFlagRc : std::uint8_t{0}, wire::Be24{ud_->qpn()},
          wire::Gid::of(wire::kDefaultGidPrefix, kHostGuid)};
}

void LinuxHost::step() {
  constexpr unsigned kTurns = 64;
  rte_mbuf* m = nullptr;
  for (unsigned i = 0; i < kTurns; ++i) {
    hca_->poll_function()(*hca_, 0, soft::UdDatapath::kBurst);
    while (ud_->rx_burst(&m, 1) == 1) receive(test::take(m));
    while (receive_queue_ != nullptr && receive_queue_->rx_burst(&m, 1) == 1)
      receive(test::take(m));
    while (const auto mad = hca_->mad_port().receive()) on_mad(*mad);
  }
}

// --- Datagrams ---

void LinuxHost::send_datagram(fabric::AhIndex ah, std::uint32_t qpn, std::uint16_t type,
                              std::span<const std::byte> octets) {
  Bytes frame;
  fwd::test::append(frame, wire::IpoibHdr{wire::Be16{type}, {}});
  fwd::test::append(frame, octets);
  rte_mbuf* m = test::mbuf_of(pool_, frame);
  fabric::meta_of(m).tx = {.ah = ah, .qpn = qpn, .iface = 0, .connected = false};
  if (ud_->tx_burst(&m, 1) != 1) throw std::runtime_error("the cable is full");
}

void LinuxHost::resolve() {
  const wire::Arp request{wire::ArpOp::kRequest, wire::HwAddr{address()}, kIp,
                          wire::HwAddr{wire::LinkAddr{}}, kNodeIp};
  send_datagram(everyone_, 0xff'ffff, 0x0806, wire::build_arp(request));
}

void LinuxHost::on_arp(std::span<const std::byte> octets) {
  const auto arp = wire::parse_arp(wire::LinkKind::kInfiniband, octets);
  if (!arp || arp->target_ip != kIp || arp->sender_ip != kNodeIp) return;
  neighbour_ = arp->sender_hw.link_addr();
  if (arp->op != wire::ArpOp::kRequest) return;
  wire::Arp answer = arp->exchanged();
  answer.op = wire::ArpOp::kReply;
  answer.sender_hw = wire::HwAddr{address()};
  send_datagram(node_, neighbour_->qpn.host(), 0x0806, wire::build_arp(answer));
}

void LinuxHost::ping(std::size_t octets, bool dont_fragment) {
  if (!neighbour_) resolve();
  Bytes packet = fwd::test::echo_packet(wire::IpAddr::v4(kIp), wire::IpAddr::v4(kNodeIp), octets);
  auto hdr = *wire::read<wire::Ipv4Hdr>(packet);
  hdr.flags_offset.set(dont_fragment ? wire::Ipv4Hdr::kDontFragment : 0);
  hdr.checksum = {};
  hdr.checksum.set(wire::internet_checksum(wire::bytes_of(hdr)));
  std::memcpy(packet.data(), &hdr, sizeof(hdr));
  if (!neighbour_) return;  // Only the first ping waits, and is not repeated.
  if (connected_ && out_.queue == nullptr) request_connection();
  send_ip(packet);
}

void LinuxHost::send_ip(const Bytes& packet) {
  if (out_.up) {
    if (packet.size() > kConnectedMtu) throw std::runtime_error("too long");
    Bytes message;
    fwd::test::append(message, wire::IpoibHdr{wire::Be16{0x0800}, {}});
    fwd::test::append(message, packet);
    rte_mbuf* m = test::mbuf_of(pool_, message, 2048);
    if (out_.queue->tx_burst(&m, 1) != 1) throw std::runtime_error("the queue is full");
    return;
  }
  const std::uint32_t qpn = neighbour_->qpn.host();
  if (packet.size() <= kDatagramMtu) return send_datagram(node_, qpn, 0x0800, packet);
  constexpr std::size_t kStep = (kDatagramMtu - sizeof(wire::Ipv4Hdr)) / 8 * 8;
  for (const Bytes& part : test::fragments4(packet, kStep, next_id_++))
    send_datagram(node_, qpn, 0x0800, part);
}

void LinuxHost::receive(const Bytes& frame) {
  const auto octets = std::span{frame}.subspan(sizeof(wire::IpoibHdr));
  switch (wire::read<wire::IpoibHdr>(frame)->type.host()) {
    case 0x0806: return on_arp(octets);
    case 0x0800: return on_ip(octets);
    default: return;
  }
}

void LinuxHost::on_ip(std::span<const std::byte> packet) {
  const auto hdr = wire::read<wire::Ipv4Hdr>(packet);
  if (!hdr || hdr->dst.host() != kIp) return;
  longest_piece = std::max<std::size_t>(longest_piece, hdr->total_len.host());
  const auto payload = packet.subspan(sizeof(*hdr));
  if (payload.front() == std::byte{8} && hdr->src.host() != kNodeIp) {
    ++requests;
    return;
  }
  ++pieces_of_replies;
  const std::uint16_t flags = hdr->flags_offset.host();
  if ((flags & wire::Ipv4Hdr::kDontFragment) != 0 || hdr->total_len.host() != packet.size())
    ++wrong;
  const std::size_t offset = std::size_t{8} * (flags & 0x1fffU);
  const bool more = (flags & wire::Ipv4Hdr::kMoreFragments) != 0;
  if (offset == 0 && !more) return on_reply(payload);
  Fragments& f = fragments_[hdr->id.host()];
  f.parts[offset].assign(payload.begin(), payload.end());
  if (!more) f.total = offset + payload.size();
  Bytes whole;
  for (const auto& [at, part] : f.parts) {
    if (at != whole.size()) return;
    fwd::test::append(whole, part);
  }
  if (f.total == 0 || whole.size() != f.total) return;
  fragments_.erase(hdr->id.host());
  on_reply(whole);
}

void LinuxHost::on_reply(std::span<const std::byte> message) {
  const bool right = message.size() >= 8 && message.front() == std::byte{0} &&
                     wire::internet_checksum(message) == 0;
  if (right)
    replies_.push_back(message.size() - 8);
  else
    ++wrong;
}

// --- Connections ---

template <class Message>
void LinuxHost::tell(std::uint64_t tid, const Message& message) {
  const wire::CmMad mad = wire::make_cm_mad(tid, message);
  if (!hca_->mad_port().send({.lid = kNodeLid}, wire::bytes_of(mad)))
    throw std::runtime_error("no MADs");
}

fabric::ConnectedQueue* LinuxHost::make_queue() {
  return hca_
      ->create_connected_queue(
          {.transport = fabric::Transport::kRc, .receive_queue = receive_queue_})
      .value();
}

void LinuxHost::on_mad(const fabric::ReceivedMad& mad) {
  wire::CmMad cm;
  if (wire::parse_cm_mad(mad.bytes, cm) != wire::CmError::kNone) return;
  if (cm.attr() == wire::CmAttr::kReq) on_req(cm);
  if (cm.attr() == wire::CmAttr::kRep) on_rep(cm);
  if (cm.attr() != wire::CmAttr::kDreq) return;
  tell(cm.hdr.tid.host(), test::linux_drep(wire::cm_message<wire::CmDreq>(cm)));
}

void LinuxHost::request_connection() {
  out_.queue = make_queue();
  tell(0x7001,
       test::linux_req(kCommId, out_.queue->qpn(), {kLid, address()}, {kNodeLid, *neighbour_}, 19));
}

void LinuxHost::on_rep(const wire::CmMad& mad) {
  const auto rep = wire::cm_message<wire::CmRep>(mad);
  if (out_.up || rep.remote_id.host() != kCommId) return;
  const bool ready = hca_->set_ready_to_receive(
                         *out_.queue, {.peer_qpn = rep.local_qpn.host(), .path = way_to_node()}) &&
                     hca_->set_ready_to_send(*out_.queue, {.tx_psn = rep.starting_psn.host(),
                                                           .retry_count = 0,
                                                           .rnr_retry = rep.rnr_retry(),
                                                           .ack_timeout = 19});
  if (!ready) throw std::runtime_error("no connection");
  node_ack_delay = rep.target_ack_delay();
  out_.up = true;
  wire::CmRtu rtu{};
  rtu.local_id.set(kCommId);
  rtu.remote_id = rep.local_id;
  tell(mad.hdr.tid.host(), rtu);
}

/// The kernel accepts every request, and sends nothing on that connection.
void LinuxHost::on_req(const wire::CmMad& mad) {
  const auto req = wire::cm_message<wire::CmReq>(mad);
  if (in_.up) return;
  constexpr std::uint32_t kPsn = 0x12'3456;
  in_.queue = make_queue();
  const bool ready =
      hca_->set_ready_to_receive(
          *in_.queue, {.peer_qpn = req.local_qpn.host(), .path = way_to_node(), .rx_psn = kPsn}) &&
      hca_->set_ready_to_send(*in_.queue, {.tx_psn = req.starting_psn.host()});
  if (!ready) throw std::runtime_error("no connection");
  in_.up = true;
  wire::CmRep rep{};
  rep.local_id.set(kPassiveCommId);
  rep.remote_id = req.local_id;
  rep.local_qpn.set(in_.queue->qpn());
  rep.starting_psn.set(kPsn);
  rep.set_target_ack_delay(15);
  rep.set_rnr_retry(req.rnr_retry());
  rep.set_srq(true);
  rep.local_ca_guid.set(kHostGuid);
  wire::set_private(rep.private_data,
                    wire::bytes_of(wire::IpoibCmPrivate::of(ud_->qpn(), kConnectedMtu + 4)));
  tell(mad.hdr.tid.host(), rep);
}

}  // namespace ipoib::mgmt
