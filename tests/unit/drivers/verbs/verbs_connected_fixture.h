// SPDX-License-Identifier: BSD-3-Clause
// RC or UC queue pairs of the verbs driver between two devices.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/drivers/verbs/verbs_fixture.h"

namespace ipoib::verbs {

inline constexpr std::uint32_t kMaxMessage = 9000;
inline constexpr std::uint32_t kBuffers = 32;
inline constexpr std::uint16_t kSendDepth = 16;

struct Way {
  fabric::Transport transport;
  bool extended;
};

class VerbsConnectedTest : public VerbsFixture, public testing::WithParamInterface<Way> {
 protected:
  struct End {
    std::unique_ptr<Node> node;
    fabric::ReceiveQueue* receive = nullptr;
    fabric::ConnectedQueue* queue = nullptr;
  };

  void SetUp() override {
    VerbsFixture::SetUp();
    for (End* end : {&a_, &b_}) {
      fake_verbs::Device& device = add_device(end == &a_ ? 0 : 1);
      device.extended_qp = GetParam().extended;
      device.attr.orig_attr.max_cqe = kDepth;  // For the sends of all queues.
      prepare(device, end == &a_);
      end->node = make_node(device);
      pass(*end->node);
      end->receive = end->node->hca->create_receive_queue(receive_config()).value();
      end->queue = make_queue(*end);
    }
    join();
  }
  void TearDown() override {
    a_.node.reset();
    b_.node.reset();
    VerbsFixture::TearDown();
  }

  /// Changes a device before its node exists.
  virtual void prepare(fake_verbs::Device& /*device*/, bool /*first*/) {}
  [[nodiscard]] virtual fabric::ReceiveQueueConfig receive_config() const {
    return {.depth = kBuffers, .max_message = kMaxMessage};
  }
  [[nodiscard]] bool reliable() const { return GetParam().transport == fabric::Transport::kRc; }
  fabric::ConnectedQueue* make_queue(End& end) const {
    return end.node->hca
        ->create_connected_queue({GetParam().transport, 0xffff, end.receive, kSendDepth})
        .value();
  }
  static fabric::ReadyToReceive towards(const End& peer) {
    fabric::ReadyToReceive attr;
    attr.peer_qpn = peer.queue->qpn();
    attr.path.dlid = peer.node->device->ports[0].attr.lid;
    attr.rx_psn = 0x10;
    return attr;
  }
  static fabric::ReadyToSend sending(std::uint8_t rnr_retry = 7) {
    return {.tx_psn = 0x10, .max_message = kMaxMessage, .retry_count = 2, .rnr_retry = rnr_retry};
  }
  void join(const fabric::ReadyToSend& attr = sending()) {
    for (auto [self, peer] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
      ASSERT_TRUE(self->node->hca->set_ready_to_receive(*self->queue, towards(*peer)));
      ASSERT_TRUE(self->node->hca->set_ready_to_send(*self->queue, attr));
    }
  }
  /// Gives both ends new queue pairs, as after a reconnect.
  void rejoin(const fabric::ReadyToSend& attr = sending()) {
    for (End* end : {&a_, &b_}) {
      if (end->queue != nullptr) end->node->hca->destroy_connected_queue(*end->queue);
      end->queue = make_queue(*end);
    }
    join(attr);
  }
  static rte_mbuf* message(std::size_t len, unsigned number) {
    return chain(payload(len, number), 2000);
  }
  static std::uint16_t send(const End& from, const std::vector<std::size_t>& lens) {
    std::vector<rte_mbuf*> pkts;
    for (std::size_t len : lens) pkts.push_back(message(len, static_cast<unsigned>(pkts.size())));
    const auto n = static_cast<std::uint16_t>(pkts.size());
    const std::uint16_t taken = from.queue->tx_burst(pkts.data(), n);
    for (std::uint16_t i = taken; i < n; ++i) rte_pktmbuf_free(pkts[i]);
    return taken;
  }
  static std::vector<rte_mbuf*> receive(const End& end, std::uint16_t most = 64) {
    std::vector<rte_mbuf*> pkts(most);
    pkts.resize(end.receive->rx_burst(pkts.data(), most));
    return pkts;
  }
  static std::vector<Bytes> expected(const std::vector<std::size_t>& lens) {
    std::vector<Bytes> all;
    for (std::size_t len : lens) all.push_back(payload(len, static_cast<unsigned>(all.size())));
    return all;
  }
  static fabric::ConnectedQueueInfo info(const End& end) { return end.node->hca->info(*end.queue); }
  /// Polls the device and returns the events of the end's queues.
  std::vector<fabric::QueueEvent> news(const End& end) {
    pass(*end.node, Duration{0});
    std::vector<fabric::QueueEvent> all;
    while (const auto event = end.node->hca->next_queue_event()) all.push_back(*event);
    return all;
  }
  /// Expects exactly one event: the failure of this end's queue.
  void expect_failed(const End& end, fabric::QueueError error) {
    const auto heard = news(end);
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_EQ(heard[0].kind, fabric::QueueEvent::Kind::kError);
    EXPECT_EQ(heard[0].qpn, end.queue->qpn());
    EXPECT_EQ(info(end).state, fabric::QueueState::kError);
    EXPECT_EQ(info(end).error, error);
    EXPECT_TRUE(news(end).empty());  // The event comes once.
  }
  void expect_talk() {
    const std::vector<std::size_t> lens = {60, 5000};
    EXPECT_EQ(send(a_, lens), lens.size());
    EXPECT_EQ(take(receive(b_)), expected(lens));
    EXPECT_EQ(send(b_, lens), lens.size());
    EXPECT_EQ(take(receive(a_)), expected(lens));
    EXPECT_TRUE(receive(b_).empty());
  }
  /// New queue pairs work, as after a reconnect.
  void expect_talk_again() {
    rejoin();
    expect_talk();
  }
  /// Sends as many messages as the other side has buffers. Its worker does not poll.
  void fill_buffers() {
    for (unsigned i = 0; i < kBuffers; i += kSendDepth) {
      EXPECT_EQ(send(a_, std::vector<std::size_t>(kSendDepth, 60)), kSendDepth);
      EXPECT_TRUE(receive(a_).empty());
    }
  }
  /// The other side is gone.
  void destroy_peer() {
    b_.node->hca->destroy_connected_queue(*b_.queue);
    b_.queue = nullptr;
  }

  End a_;
  End b_;
};

inline std::string name_of(const testing::TestParamInfo<Way>& way) {
  return std::string{to_string(way.param.transport)} + (way.param.extended ? "Extended" : "Plain");
}

}  // namespace ipoib::verbs
