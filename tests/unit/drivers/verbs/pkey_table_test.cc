// SPDX-License-Identifier: BSD-3-Clause
// The subnet manager orders the P_Key table of a port again while packets are under way. A queue pair
// of hardware names its P_Key by an index, where another one is meanwhile. Until the driver knows the
// new index, the ports discard packets and count them; from then on, none is lost.
#include <array>
#include <cstdint>
#include <vector>

#include "tests/unit/drivers/verbs/verbs_connected_fixture.h"

namespace ipoib::verbs {
namespace {

using Table = std::vector<std::uint16_t>;

/// Tables of node a, one after the other. The index of the partition's full membership changes each
/// time; its former place has another partition, a limited membership, nothing, or is gone.
const std::array<Table, 6> kTables{{{0x8001, 0xffff},
                                    {0xffff, 0x8001},
                                    {0x7fff, 0xffff},
                                    {0x8001, 0, 0x8002, 0xffff},
                                    {0x8001, 0xffff},
                                    {0xffff}}};

void write_table(Node& node, const Table& table) {
  node.device->ports[0].pkeys = table;
}

class PkeyTable : public VerbsFixture {
 protected:
  struct Flow {
    Node* from;
    Node* to;
    fabric::AhIndex ah;
  };

  void SetUp() override {
    VerbsFixture::SetUp();
    a_ = make_node(0);
    b_ = make_node(1);
    ASSERT_TRUE(b_->hca->attach(*b_->queue, kMgid, kMlid));
    to_b_ = {a_.get(), b_.get(), ah_to(*a_, 5)};
    to_a_ = {b_.get(), a_.get(), ah_to(*b_, 4)};
    to_group_ = {a_.get(), b_.get(), group_ah(*a_)};
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    VerbsFixture::TearDown();
  }
  /// Packets that the receiver does not take yet.
  void start(const Flow& way, unsigned n) {
    const bool group = way.ah == to_group_.ah && way.from == a_.get();
    const std::uint32_t qpn = group ? wire::kMulticastQpn : way.to->queue->qpn();
    for (unsigned i = 0; i < n; ++i, ++sent_) send(*way.from, way.ah, qpn, {payload(60, sent_)});
  }
  void take_all() {
    for (const Node* node : {a_.get(), b_.get()}) delivered_ += take(node->receive()).size();
  }
  void talk() {
    for (const Flow* way : {&to_b_, &to_a_, &to_group_}) start(*way, 5);
    take_all();
  }
  [[nodiscard]] std::uint64_t dropped() const { return a_->all_drops() + b_->all_drops(); }
  void learn() {
    fabric_.raise(*a_->device, IBV_EVENT_PKEY_CHANGE);
    pass(*a_, Duration{0});
  }

  std::unique_ptr<Node> a_, b_;
  Flow to_b_{}, to_a_{}, to_group_{};
  unsigned sent_ = 0;
  std::uint64_t delivered_ = 0;
};

TEST_F(PkeyTable, U36_EveryDatagramArrivesOrIsCountedWhileTheTableIsReordered) {
  for (const Table& table : kTables) {
    const std::uint64_t before = dropped();
    talk();
    EXPECT_EQ(dropped(), before);

    // Sends wait in the queue of node a, and received packets in its ring, when the table changes.
    fabric_.hold_sends(*a_->device, true);
    start(to_b_, 4);
    start(to_a_, 3);
    write_table(*a_, table);
    fabric_.hold_sends(*a_->device, false);
    for (const Flow* way : {&to_b_, &to_a_, &to_group_}) start(*way, 5);
    // Others wait when the driver learns of it.
    fabric_.hold_sends(*a_->device, true);
    start(to_b_, 2);
    start(to_a_, 2);
    learn();
    fabric_.hold_sends(*a_->device, false);
    take_all();
    EXPECT_EQ(delivered_ + dropped(), sent_);

    const std::uint64_t after = dropped();
    talk();
    talk();
    EXPECT_EQ(dropped(), after) << "the index is known";
    EXPECT_EQ(delivered_ + dropped(), sent_);
  }
  // Packets of node a with another P_Key, and packets to it; those that the restart of its queue pair
  // found unsent, and untaken.
  EXPECT_GT(b_->drops(Drop::kIbPkey), 0U);
  EXPECT_GT(a_->drops(Drop::kIbPkey), 0U);
  EXPECT_EQ(a_->drops(Drop::kIbTxFlushed), 2 * kTables.size());
  EXPECT_GE(a_->drops(Drop::kIbQueueState), 3 * kTables.size());
  EXPECT_EQ(dropped(), b_->drops(Drop::kIbPkey) + a_->drops(Drop::kIbPkey) +
                           a_->drops(Drop::kIbTxFlushed) + a_->drops(Drop::kIbQueueState));
}

/// Most changes of a table concern other partitions.
TEST_F(PkeyTable, U36_TableThatKeepsTheIndexCostsNoDatagram) {
  for (const Table& table : {Table{0xffff, 0x8001}, Table{0xffff, 0, 0x8001}, Table{0xffff}}) {
    fabric_.hold_sends(*a_->device, true);
    start(to_b_, 4);
    start(to_a_, 3);
    write_table(*a_, table);
    learn();
    fabric_.hold_sends(*a_->device, false);
    talk();
  }
  EXPECT_EQ(delivered_, sent_);
  EXPECT_EQ(dropped(), 0U);
}

class PkeyTableConnected : public VerbsConnectedTest {
 protected:
  void start(const End& from, const std::vector<std::size_t>& lens) {
    EXPECT_EQ(send(from, lens), lens.size());
    sent_ += lens.size();
  }
  void take_all() {
    for (const End* end : {&a_, &b_}) delivered_ += take(receive(*end)).size();
  }
  void talk() {
    for (const End* end : {&a_, &b_}) start(*end, {60, 5000, 61});
    take_all();
  }
  /// Messages that were dropped. RC repeats the packets that a port discards, until it gives up.
  [[nodiscard]] std::uint64_t dropped() const {
    std::uint64_t sum = 0;
    for (const End* end : {&a_, &b_})
      sum +=
          end->node->drops(Drop::kIbTxFlushed) + (reliable() ? 0 : end->node->drops(Drop::kIbPkey));
    return sum;
  }

  std::uint64_t sent_ = 0, delivered_ = 0;
};

TEST_P(PkeyTableConnected, U36_EveryMessageArrivesOrIsCountedWhileTheTableIsReordered) {
  for (const Table& table : kTables) {
    const std::uint64_t before = dropped(), flushed = a_.node->drops(Drop::kIbTxFlushed);
    talk();
    EXPECT_EQ(dropped(), before);

    fabric_.hold_sends(*a_.node->device, true);
    start(a_, {60, 600});
    write_table(*a_.node, table);
    fabric_.hold_sends(*a_.node->device, false);
    start(a_, {62});
    start(b_, {63, 640});
    take_all();
    fabric_.raise(*a_.node->device, IBV_EVENT_PKEY_CHANGE);
    expect_failed(a_, fabric::QueueError::kInvalidRequest);
    start(a_, {64});  // Lost until the link opens the connection again.
    fabric_.time_passes(10);
    take_all();
    rejoin();
    take_all();
    EXPECT_EQ(delivered_ + dropped(), sent_);
    EXPECT_GT(a_.node->drops(Drop::kIbTxFlushed), flushed);

    const std::uint64_t after = dropped();
    talk();
    talk();
    EXPECT_EQ(dropped(), after) << "the index is known";
    EXPECT_EQ(delivered_ + dropped(), sent_);
  }
  EXPECT_GT(b_.node->drops(Drop::kIbPkey), 0U);
  EXPECT_GT(a_.node->drops(Drop::kIbPkey), 0U);
}

INSTANTIATE_TEST_SUITE_P(Ways, PkeyTableConnected,
                         testing::Values(Way{fabric::Transport::kRc, true},
                                         Way{fabric::Transport::kUc, false}),
                         name_of);

}  // namespace
}  // namespace ipoib::verbs
