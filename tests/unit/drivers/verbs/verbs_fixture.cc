// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/drivers/verbs/verbs_fixture.h"

#include <algorithm>
#include <stdexcept>

namespace ipoib::verbs {

const fabric::PortAttr& FakePortManager::attr() const {
  const fake_verbs::Port& port = device_.ports[0];
  attr_.guid = port.gids.at(0).guid();
  attr_.gid_prefix = port.gids.at(0).prefix();
  attr_.lid = port.attr.lid;
  attr_.lmc = port.attr.lmc;
  attr_.sm_lid = port.attr.sm_lid;
  attr_.mtu = mtu.value_or(static_cast<std::uint8_t>(port.attr.active_mtu));
  attr_.state =
      port.attr.state == IBV_PORT_ACTIVE ? fabric::PortState::kActive : fabric::PortState::kDown;
  attr_.pkeys = port.pkeys;
  return attr_;
}

std::optional<fabric::PortEvent> FakePortManager::next_event() {
  if (events.empty()) return std::nullopt;
  const fabric::PortEvent first = events.front();
  events.pop_front();
  return first;
}

std::vector<rte_mbuf*> Node::receive(std::uint16_t most) const {
  std::vector<rte_mbuf*> pkts(most);
  pkts.resize(queue->rx_burst(pkts.data(), most));
  return pkts;
}

void VerbsFixture::SetUp() {
  fabric_.reset();
  mbufs_before_ = mbufs_in_use();
}

void VerbsFixture::TearDown() {
  EXPECT_EQ(fabric_.take_violations(), std::vector<std::string>{});
  EXPECT_EQ(fabric_.live(), fake_verbs::Live{});
  EXPECT_EQ(mbufs_in_use(), mbufs_before_);
}

rte_mempool* VerbsFixture::pool() {
  static rte_mempool* const pool =
      rte_pktmbuf_pool_create("verbs", 1023, 0, 0, 2048 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
  if (pool == nullptr) throw std::runtime_error("no mempool");
  return pool;
}

fake_verbs::Device& VerbsFixture::add_device(int number) {
  return fabric_.add_device(
      fake_verbs::make_setup("hca" + std::to_string(number), static_cast<std::uint16_t>(4 + number),
                             0x0002'c903'000a'0b00ULL + static_cast<unsigned>(number)));
}

VerbsHcaConfig VerbsFixture::config(Node& node) {
  VerbsHcaConfig config;
  config.name = "link" + node.device->name;
  config.device = node.device->name;
  config.pool = pool();
  config.rxd = config.txd = kDepth;
  config.now = [this] { return now_; };
  config.manager = [&node] {
    auto manager = std::make_unique<FakePortManager>(*node.device);
    node.manager = manager.get();
    return manager;
  };
  return config;
}

std::unique_ptr<Node> VerbsFixture::make_node(fake_verbs::Device& device,
                                              const std::function<void(VerbsHcaConfig&)>& change) {
  auto node = std::make_unique<Node>();
  node->device = &device;
  VerbsHcaConfig with = config(*node);
  if (change) change(with);
  auto hca = VerbsHca::create(std::move(with));
  if (!hca) throw std::runtime_error(hca.error().what);
  node->hca = std::move(*hca);
  node->queue = node->hca->create_ud_queue({}).value();
  EXPECT_TRUE(node->hca->set_qkey(*node->queue, kQkey));
  return node;
}

std::vector<fabric::PortEvent> VerbsFixture::pass(Node& node, Duration time) {
  now_ += time;
  std::vector<fabric::PortEvent> events;
  while (const auto event = node.hca->next_event()) events.push_back(*event);
  return events;
}

void VerbsFixture::set_speed(Node& node, std::uint8_t speed) {
  node.device->ports[0].attr.active_speed = speed;
  fabric_.raise(*node.device, IBV_EVENT_PORT_ACTIVE);
  pass(node, Duration{0});
}

rte_mbuf* VerbsFixture::packet(std::span<const std::byte> octets, fabric::AhIndex ah,
                               std::uint32_t qpn) {
  rte_mbuf* m = test::mbuf_of(pool(), octets);
  fabric::meta_of(m).tx = {.ah = ah, .qpn = qpn, .iface = 7, .connected = false};
  return m;
}

std::vector<Bytes> VerbsFixture::take(const std::vector<rte_mbuf*>& pkts) {
  std::vector<Bytes> all;
  for (rte_mbuf* m : pkts) all.push_back(test::take(m));
  return all;
}

void VerbsFixture::send(Node& from, fabric::AhIndex ah, std::uint32_t qpn,
                        const std::vector<Bytes>& packets) {
  std::vector<rte_mbuf*> pkts;
  for (const Bytes& octets : packets) pkts.push_back(packet(octets, ah, qpn));
  const auto n = static_cast<std::uint16_t>(pkts.size());
  ASSERT_EQ(from.queue->tx_burst(pkts.data(), n), n);
}

fabric::AhIndex VerbsFixture::ah_to(Node& node, std::uint16_t dlid, std::uint8_t rate) {
  fabric::AhAttr attr;
  attr.dlid = dlid;
  attr.rate = rate;
  return node.hca->create_ah(attr).value();
}

fabric::AhIndex VerbsFixture::group_ah(Node& node) {
  fabric::AhAttr attr;
  attr.dlid = kMlid;
  attr.global = true;
  attr.hop_limit = 1;
  attr.dgid = kMgid;
  return node.hca->create_ah(attr).value();
}

bool VerbsFixture::talk(Node& from, Node& to) {
  static unsigned number = 0;
  const Bytes octets = payload(60, ++number);
  const fabric::AhIndex ah = ah_to(from, to.device->ports[0].attr.lid);
  send(from, ah, to.queue->qpn(), {octets});
  from.hca->destroy_ah(ah);
  const auto got = take(to.receive());
  (void)take(from.receive());  // Polls the completions of sends.
  return got.size() == 1 && got[0] == octets;
}

Bytes payload(std::size_t len, unsigned number) {
  Bytes bytes(len);
  for (std::size_t i = 0; i < len; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + len + number * 31);
  constexpr std::byte kHeader[] = {std::byte{0x08}, std::byte{0}, std::byte{0}, std::byte{0}};
  std::copy_n(kHeader, std::min(len, std::size(kHeader)), bytes.begin());
  return bytes;
}

}  // namespace ipoib::verbs
