// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/soft_fixture.h"

#include <cstring>
#include <stdexcept>

#include "tests/support/ring_device.h"
#include "tests/support/vector_frames.h"

namespace ipoib::soft {
namespace {

Cable make_cable() {
  Cable cable{};
  cable.pool = rte_pktmbuf_pool_create("soft", Cable::kMbufs, 0, 0, 2560 + RTE_PKTMBUF_HEADROOM,
                                       SOCKET_ID_ANY);
  for (int side : {0, 1})
    cable.towards[side] = rte_ring_create(side == 0 ? "towards0" : "towards1", Cable::kCableLen,
                                          SOCKET_ID_ANY, RING_F_EXACT_SZ);
  for (int side : {0, 1})
    cable.port[side] = test::start_ring_port(side == 0 ? "cable0" : "cable1", cable.towards[side],
                                             cable.towards[1 - side], cable.pool);
  return cable;
}

WideCable make_wide_cable() {
  WideCable cable{};
  for (std::size_t q = 0; q < cable.in.size(); ++q) {
    const std::string end = std::to_string(q);
    cable.in[q] = rte_ring_create(("wide_in" + end).c_str(), 512, SOCKET_ID_ANY, 0);
    cable.out[q] = rte_ring_create(("wide_out" + end).c_str(), 512, SOCKET_ID_ANY, 0);
  }
  cable.port = test::start_ring_port("wide", cable.in, cable.out, Cable::get().pool);
  return cable;
}

}  // namespace

WideCable& WideCable::get() {
  static WideCable cable = make_wide_cable();
  return cable;
}

Cable& Cable::get() {
  static Cable cable = make_cable();
  return cable;
}

wire::Gid gid_of(std::string_view hex) {
  wire::Gid gid;
  std::memcpy(gid.bytes.data(), test::unhex(hex).data(), gid.bytes.size());
  return gid;
}

std::vector<rte_mbuf*> Node::receive(fabric::UdQueue* from) const {
  std::vector<rte_mbuf*> pkts(SoftUdQueue::kRxRingSize);
  pkts.resize((from != nullptr ? from : queue)->rx_burst(pkts.data(), SoftUdQueue::kRxRingSize));
  return pkts;
}

void SoftFixture::SetUp() {
  ASSERT_EQ(mbufs_in_use(), 0U);
}

void SoftFixture::TearDown() {
  for (int side : {0, 1}) (void)on_cable(side);
  EXPECT_EQ(mbufs_in_use(), 0U);
}

SoftHcaConfig SoftFixture::config(int side) {
  SoftHcaConfig config;
  config.name = side == 0 ? "soft0" : "soft1";
  config.port_id = Cable::get().port[side];
  config.pool = Cable::get().pool;
  config.attr.guid = kGuid[side];
  config.attr.lid = kLid[side];
  config.attr.sm_lid = kLid[1];
  config.first_qpn = side == 0 ? 0x48 : 0x49;
  return config;
}

Node SoftFixture::make_node(const SoftHcaConfig& config) {
  auto hca = SoftHca::create(config);
  if (!hca) throw std::runtime_error(hca.error().what);
  Node node{std::move(*hca)};
  auto queue = node.hca->create_ud_queue({.pkey = config.attr.pkeys.front()});
  if (!queue) throw std::runtime_error(queue.error().what);
  node.queue = *queue;
  EXPECT_TRUE(node.hca->set_qkey(*node.queue, kQkey));
  return node;
}

fabric::AhIndex SoftFixture::ah_to(const Node& node, std::uint16_t dlid) {
  fabric::AhAttr attr;
  attr.dlid = dlid;
  return node.hca->create_ah(attr).value();
}

fabric::AhIndex SoftFixture::group_ah(const Node& node, const wire::Gid& mgid, std::uint16_t mlid) {
  fabric::AhAttr attr;
  attr.dlid = mlid;
  attr.global = true;
  attr.dgid = mgid;
  return node.hca->create_ah(attr).value();
}

rte_mbuf* SoftFixture::packet(std::span<const std::byte> payload, fabric::AhIndex ah,
                              std::uint32_t qpn) {
  rte_mbuf* m = test::mbuf_of(Cable::get().pool, payload);
  fabric::meta_of(m).tx = {.ah = ah, .qpn = qpn, .iface = 7, .connected = false};
  return m;
}

std::size_t SoftFixture::arrive(const Node& from, fabric::AhIndex ah, const Node& to) {
  rte_mbuf* m = packet(counting(24), ah, to.queue->qpn());
  EXPECT_EQ(from.queue->tx_burst(&m, 1), 1);
  to.poll();
  const auto got = to.receive();
  for (rte_mbuf* received : got) rte_pktmbuf_free(received);
  return got.size();
}

std::vector<Bytes> SoftFixture::on_cable(int side) {
  return test::take_all(Cable::get().towards[side]);
}

void SoftFixture::put_on_cable(int side, std::span<const std::byte> frame) {
  rte_mbuf* m = packet(frame, fabric::kNoAh, 0);
  ASSERT_EQ(rte_ring_enqueue(Cable::get().towards[side], m), 0);
}

unsigned SoftFixture::mbufs_in_use() {
  return rte_mempool_in_use_count(Cable::get().pool);
}

Bytes soft_frame(std::span<const std::byte> iba) {
  const auto byte = [&](std::size_t i) { return iba.size() > i ? iba[i] : std::byte{0}; };
  const bool multicast = byte(2) >= std::byte{0xc0};
  static const Bytes head = test::unhex("02494200000002494200000088b5");
  Bytes frame = head;
  if (multicast) frame[0] = std::byte{3};
  frame[4] = byte(2);
  frame[5] = byte(3);
  frame[10] = byte(6);
  frame[11] = byte(7);
  frame.insert(frame.end(), iba.begin(), iba.end());
  if (frame.size() < kMinEthFrame) frame.resize(kMinEthFrame);
  return frame;
}

Bytes vector_frame(std::string_view name) {
  return soft_frame(test::packet_named(std::string{name}));
}

Bytes counting(std::size_t len) {
  Bytes bytes(len);
  for (std::size_t i = 0; i < len; ++i) bytes[i] = static_cast<std::byte>(i * 7 + len);
  return bytes;
}

}  // namespace ipoib::soft
