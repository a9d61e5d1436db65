// SPDX-License-Identifier: BSD-3-Clause
// The other tests of this folder rely on the stand-in for libibverbs. It refuses what a kernel and
// a device refuse, and completes what they complete.
#include <infiniband/verbs.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "tests/support/fake_verbs/fabric.h"

namespace ipoib::fake_verbs {
namespace {

constexpr std::uint32_t kQkey = 0xb1b;
constexpr std::size_t kBuffer = 2048;
constexpr std::size_t kSendSlot = 12;

/// An open device with a protection domain, a completion queue and memory.
struct Node {
  explicit Node(const std::string& name) {
    int n = 0;
    ibv_device** list = ibv_get_device_list(&n);
    for (int i = 0; i < n; ++i)
      if (name == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    const int access = IBV_ACCESS_LOCAL_WRITE;
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), access);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() {
    ibv_dereg_mr(mr);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
    ibv_close_device(context);
  }

  [[nodiscard]] ibv_qp* make(ibv_qp_type type, std::uint32_t send_wr = 4) const {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {send_wr, 4, 2, 2, 64};
    attr.qp_type = type;
    return ibv_create_qp(pd, &attr);
  }
  [[nodiscard]] ibv_qp* make_ud() const {
    ibv_qp* qp = make(IBV_QPT_UD);
    EXPECT_EQ(to_init(qp), 0);
    EXPECT_EQ(to(qp, IBV_QPS_RTR, 0), 0);
    EXPECT_EQ(to(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
    return qp;
  }
  [[nodiscard]] ibv_sge sge(std::size_t slot, std::uint32_t len) const {
    return {reinterpret_cast<std::uint64_t>(&memory[slot * kBuffer]), len, mr->lkey};
  }
  int receive(ibv_qp* qp, std::size_t slot, std::uint32_t len = kBuffer) const {
    ibv_sge into = sge(slot, len);
    ibv_recv_wr wr{};
    wr.wr_id = slot;
    wr.sg_list = &into;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp, &wr, &bad);
  }
  int send(ibv_qp* qp, std::uint32_t len, unsigned flags, ibv_ah* ah = nullptr,
           std::uint32_t qpn = 0, std::uint32_t qkey = kQkey) {
    ibv_sge from = sge(kSendSlot, len);
    ibv_send_wr wr{};
    wr.wr_id = ++sends;
    wr.sg_list = &from;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = flags;
    wr.wr.ud = {ah, qpn, qkey};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  [[nodiscard]] std::optional<ibv_wc> poll() const {
    ibv_wc wc;
    return ibv_poll_cq(cq, 1, &wc) == 1 ? std::optional{wc} : std::nullopt;
  }
  [[nodiscard]] std::vector<ibv_wc_status> poll_all() const {
    std::vector<ibv_wc_status> all;
    while (const auto wc = poll()) all.push_back(wc->status);
    return all;
  }
  [[nodiscard]] ibv_ah* ah(std::uint16_t dlid) const {
    ibv_ah_attr attr{};
    attr.dlid = dlid;
    attr.port_num = 1;
    return ibv_create_ah(pd, &attr);
  }
  static int to_init(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    const bool ud = qp->qp_type == IBV_QPT_UD;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (ud ? int{IBV_QP_QKEY} : int{IBV_QP_ACCESS_FLAGS}));
  }
  static int to(ibv_qp* qp, ibv_qp_state state, int mask) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.sq_psn = 7;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask);
  }
  static int connect(ibv_qp* qp, std::uint16_t dlid, std::uint32_t qpn, bool also_send = true) {
    const bool rc = qp->qp_type == IBV_QPT_RC;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_2048;
    attr.dest_qp_num = qpn;
    attr.rq_psn = 7;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.dlid = dlid;
    attr.ah_attr.port_num = 1;
    int error = to_init(qp);
    if (error == 0)
      error = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN |
                                (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
    if (error != 0 || !also_send) return error;
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 7;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 2;
    return ibv_modify_qp(
        qp, &attr,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                : 0));
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::array<std::byte, 16 * kBuffer> memory{};
  std::uint64_t sends = 0;
};

class FakeVerbsTest : public testing::Test {
 protected:
  void SetUp() override {
    fabric_.reset();
    fabric_.add_device(make_setup("a", 4, 0xa));
    fabric_.add_device(make_setup("b", 5, 0xb));
  }
  void TearDown() override {
    EXPECT_EQ(fabric_.take_violations(), std::vector<std::string>{});
    EXPECT_EQ(fabric_.live(), Live{});
    fabric_.reset();
  }

  Fabric& fabric_ = Fabric::get();
};

TEST_F(FakeVerbsTest, TransitionsNeedExactlyTheirAttributes) {
  const Node a{"a"};
  ibv_qp* qp = a.make(IBV_QPT_UD);
  EXPECT_EQ(a.receive(qp, 0), EINVAL);  // Still RESET.
  EXPECT_EQ(Node::to(qp, IBV_QPS_RTR, 0), EINVAL);
  EXPECT_EQ(Node::to(qp, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT), EINVAL);
  EXPECT_EQ(Node::to_init(qp), 0);
  EXPECT_EQ(a.receive(qp, 0), 0);
  EXPECT_EQ(Node::to(qp, IBV_QPS_RTR, IBV_QP_AV), EINVAL);
  EXPECT_EQ(Node::to(qp, IBV_QPS_RTR, 0), 0);
  EXPECT_EQ(Node::to(qp, IBV_QPS_RTS, 0), EINVAL);
  EXPECT_EQ(Node::to(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
  EXPECT_EQ(Node::to(qp, IBV_QPS_INIT, 0), EINVAL);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_destroy_qp(qp);

  ibv_qp* rc = a.make(IBV_QPT_RC);
  EXPECT_EQ(Node::connect(rc, 5, 0x99), 0);
  ibv_destroy_qp(rc);
}

TEST_F(FakeVerbsTest, DatagramArrivesBehindFortyOctets) {
  Node a{"a"};
  const Node b{"b"};
  ibv_qp* from = a.make_ud();
  ibv_qp* to = b.make_ud();
  ibv_ah* ah = a.ah(5);
  a.memory[kSendSlot * kBuffer] = std::byte{0x42};
  ASSERT_EQ(b.receive(to, 3), 0);
  EXPECT_EQ(a.send(from, 100, IBV_SEND_SIGNALED, ah, to->qp_num), 0);
  const auto got = b.poll();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->status, IBV_WC_SUCCESS);
  EXPECT_EQ(got->opcode, IBV_WC_RECV);
  EXPECT_EQ(got->byte_len, 140U);
  EXPECT_EQ(got->wr_id, 3U);
  EXPECT_EQ(got->src_qp, from->qp_num);
  EXPECT_EQ(got->slid, 4);
  EXPECT_EQ(got->wc_flags, 0U);
  EXPECT_EQ(b.memory[3 * kBuffer + 40], std::byte{0x42});
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_SUCCESS});

  // Nothing receives these: no buffer, another Q_Key, another LID.
  EXPECT_EQ(a.send(from, 1, 0, ah, to->qp_num), 0);
  EXPECT_EQ(fabric_.lost(Lost::kNoBuffer), 1U);
  EXPECT_EQ(a.send(from, 1, 0, ah, to->qp_num, 5), 0);
  EXPECT_EQ(fabric_.lost(Lost::kQkey), 1U);
  ibv_ah* nowhere = a.ah(77);
  EXPECT_EQ(a.send(from, 1, IBV_SEND_SIGNALED, nowhere, to->qp_num), 0);
  EXPECT_EQ(fabric_.lost(Lost::kNoPort), 1U);
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_SUCCESS});
  ibv_destroy_ah(ah);
  ibv_destroy_ah(nowhere);
  ibv_destroy_qp(from);
  ibv_destroy_qp(to);
}

TEST_F(FakeVerbsTest, UnsignaledSendsHoldTheirPlaces) {
  Node a{"a"};
  ibv_qp* qp = a.make_ud();
  ibv_ah* ah = a.ah(77);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a.send(qp, 8, 0, ah, 1), 0);
  EXPECT_FALSE(a.poll());
  EXPECT_EQ(a.send(qp, 8, IBV_SEND_SIGNALED, ah, 1), 0);
  EXPECT_EQ(a.send(qp, 8, IBV_SEND_SIGNALED, ah, 1), ENOMEM);
  ibv_destroy_ah(ah);
  EXPECT_EQ(fabric_.take_violations().size(), 1U);  // The send is incomplete.
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_SUCCESS});
  EXPECT_EQ(fabric_.outstanding_sends(qp->qp_num), 0U);
  EXPECT_EQ(a.send(qp, 8, IBV_SEND_SIGNALED, ah, 1), EINVAL);
  EXPECT_EQ(fabric_.take_violations().size(), 1U);  // The handle is destroyed.
  ibv_destroy_qp(qp);
}

TEST_F(FakeVerbsTest, FailedSendFlushesWhatFollows) {
  Node a{"a"};
  ibv_qp* qp = a.make_ud();
  ibv_ah* ah = a.ah(77);
  fabric_.hold_sends(fabric_.device("a"), true);
  fabric_.fail_send(IBV_WC_LOC_QP_OP_ERR, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(a.send(qp, 8, 0, ah, 1), 0);
  EXPECT_EQ(a.poll_all().size(), 0U);
  fabric_.hold_sends(fabric_.device("a"), false);
  // The first send was good and unsignaled. Errors always complete.
  EXPECT_EQ(a.poll_all(),
            (std::vector{IBV_WC_LOC_QP_OP_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR}));
  EXPECT_EQ(fabric_.state_of(qp->qp_num), IBV_QPS_SQE);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  EXPECT_EQ(Node::to(qp, IBV_QPS_RTS, 0), 0);
  EXPECT_EQ(a.send(qp, 8, IBV_SEND_SIGNALED, ah, 1), 0);
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_SUCCESS});

  EXPECT_EQ(a.receive(qp, 0), 0);
  EXPECT_EQ(Node::to(qp, IBV_QPS_ERR, 0), 0);
  EXPECT_EQ(a.receive(qp, 1), 0);
  EXPECT_EQ(a.poll_all(), (std::vector{IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR}));
  ibv_destroy_qp(qp);
  ibv_destroy_ah(ah);
}

TEST_F(FakeVerbsTest, MemoryMustBeRegisteredAndStay) {
  Node a{"a"};
  ibv_qp* qp = a.make_ud();
  ibv_ah* ah = a.ah(77);
  fabric_.hold_sends(fabric_.device("a"), true);
  EXPECT_EQ(a.send(qp, 8, IBV_SEND_SIGNALED, ah, 1), 0);
  a.memory[kSendSlot * kBuffer] = std::byte{9};
  fabric_.hold_sends(fabric_.device("a"), false);
  EXPECT_EQ(fabric_.take_violations().size(), 1U);

  ibv_sge sge = a.sge(kSendSlot, 8);
  sge.lkey = 1;
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {ah, 1, 1};
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  EXPECT_EQ(a.poll_all(), (std::vector{IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR}));
  ibv_destroy_qp(qp);
  ibv_destroy_ah(ah);
}

TEST_F(FakeVerbsTest, MulticastReachesWhoIsAttached) {
  Node a{"a"};
  const Node b{"b"};
  ibv_qp* from = a.make_ud();
  ibv_qp* to = b.make_ud();
  const auto mgid = wire::Gid::of(0xff12'401b'ffff'0000, 0xffff'ffff);
  ibv_gid gid;
  std::memcpy(gid.raw, mgid.bytes.data(), sizeof(gid.raw));
  ibv_ah_attr attr{};
  attr.dlid = 0xc001;
  attr.port_num = 1;
  attr.is_global = 1;
  attr.grh.dgid = gid;
  attr.grh.hop_limit = 3;
  ibv_ah* ah = ibv_create_ah(a.pd, &attr);
  ASSERT_EQ(b.receive(to, 0), 0);
  EXPECT_EQ(a.send(from, 10, 0, ah, 0xffffff), 0);
  EXPECT_EQ(fabric_.lost(Lost::kNotAttached), 1U);
  EXPECT_EQ(ibv_attach_mcast(to, &gid, 0xc001), 0);
  EXPECT_EQ(a.send(from, 10, 0, ah, 0xffffff), 0);
  const auto wc = b.poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->wc_flags & IBV_WC_GRH, unsigned{IBV_WC_GRH});
  ibv_grh grh;
  std::memcpy(&grh, b.memory.data(), sizeof(grh));
  EXPECT_EQ(std::memcmp(grh.dgid.raw, gid.raw, 16), 0);
  EXPECT_EQ(grh.hop_limit, 3);
  EXPECT_EQ(ibv_destroy_qp(to), EBUSY);
  EXPECT_EQ(fabric_.take_violations().size(), 1U);
  EXPECT_EQ(ibv_detach_mcast(to, &gid, 0xc001), 0);
  EXPECT_EQ(ibv_detach_mcast(to, &gid, 0xc001), EINVAL);
  ibv_destroy_qp(to);
  ibv_destroy_qp(from);
  ibv_destroy_ah(ah);
}

TEST_F(FakeVerbsTest, ReliableWaitsForBuffersAndForThePeer) {
  Node a{"a"};
  const Node b{"b"};
  ibv_qp* from = a.make(IBV_QPT_RC);
  ibv_qp* to = b.make(IBV_QPT_RC);
  ASSERT_EQ(Node::connect(from, 5, to->qp_num), 0);
  EXPECT_EQ(a.send(from, 3000, IBV_SEND_SIGNALED), 0);
  EXPECT_FALSE(a.poll());  // The peer is not ready.
  ASSERT_EQ(Node::connect(to, 4, from->qp_num, false), 0);
  fabric_.time_passes();
  EXPECT_FALSE(a.poll());  // It has no buffer.
  ASSERT_EQ(b.receive(to, 0, 2 * kBuffer), 0);
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_SUCCESS});
  const auto wc = b.poll();
  ASSERT_TRUE(wc);
  EXPECT_EQ(wc->byte_len, 3000U);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(b.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_COMM_EST);
  EXPECT_EQ(event.element.qp, to);
  ibv_ack_async_event(&event);

  // There is never a buffer.
  EXPECT_EQ(a.send(from, 8, 0), 0);
  fabric_.time_passes(2);
  EXPECT_FALSE(a.poll());
  fabric_.time_passes();
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_RNR_RETRY_EXC_ERR});
  EXPECT_EQ(fabric_.state_of(from->qp_num), IBV_QPS_ERR);
  ibv_destroy_qp(from);
  ibv_destroy_qp(to);
}

TEST_F(FakeVerbsTest, ReliableMessageTooLongFailsBoth) {
  Node a{"a"};
  const Node b{"b"};
  ibv_qp* from = a.make(IBV_QPT_RC);
  ibv_qp* to = b.make(IBV_QPT_RC);
  ASSERT_EQ(Node::connect(from, 5, to->qp_num), 0);
  ASSERT_EQ(Node::connect(to, 4, from->qp_num), 0);
  ASSERT_EQ(b.receive(to, 0, 100), 0);
  EXPECT_EQ(a.send(from, 101, 0), 0);
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_REM_INV_REQ_ERR});
  EXPECT_EQ(b.poll_all(), std::vector{IBV_WC_LOC_LEN_ERR});
  EXPECT_EQ(fabric_.state_of(to->qp_num), IBV_QPS_ERR);
  ibv_destroy_qp(from);
  ibv_destroy_qp(to);
}

TEST_F(FakeVerbsTest, ExtendedInterfacePostsAllOrNothing) {
  Node a{"a"};
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = attr.recv_cq = a.cq;
  attr.cap = {4, 4, 2, 2, 64};
  attr.qp_type = IBV_QPT_UD;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = a.pd;
  attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* qp = ibv_create_qp_ex(a.context, &attr);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(Node::to_init(qp), 0);
  ASSERT_EQ(Node::to(qp, IBV_QPS_RTR, 0), 0);
  ASSERT_EQ(Node::to(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
  ibv_ah* ah = a.ah(77);
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp);
  const auto batch = [&](int n) {
    ibv_wr_start(ex);
    for (int i = 0; i < n; ++i) {
      ex->wr_id = 5;
      ex->wr_flags = i + 1 == n ? IBV_SEND_SIGNALED : 0;
      ibv_wr_send(ex);
      ibv_wr_set_ud_addr(ex, ah, 1, kQkey);
      if (i % 2 == 0)
        ibv_wr_set_inline_data(ex, a.memory.data(), 64);
      else
        ibv_wr_set_sge(ex, a.mr->lkey, reinterpret_cast<std::uint64_t>(a.memory.data()), 64);
    }
    return ibv_wr_complete(ex);
  };
  EXPECT_EQ(batch(5), ENOMEM);
  EXPECT_EQ(fabric_.outstanding_sends(qp->qp_num), 0U);
  EXPECT_EQ(batch(4), 0);
  EXPECT_EQ(fabric_.lost(Lost::kNoPort), 4U);
  EXPECT_EQ(a.poll_all(), std::vector{IBV_WC_SUCCESS});
  ibv_destroy_qp(qp);
  ibv_destroy_ah(ah);

  fabric_.device("a").extended_qp = false;
  EXPECT_EQ(ibv_create_qp_ex(a.context, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(FakeVerbsTest, RemovedDeviceAnswersNothing) {
  {
    Node a{"a"};
    ibv_qp* qp = a.make_ud();
    fcntl(a.context->async_fd, F_SETFL, O_NONBLOCK);
    fabric_.remove(fabric_.device("a"));
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(a.context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    EXPECT_EQ(ibv_get_async_event(a.context, &event), -1);
    EXPECT_EQ(errno, EIO);
    pollfd fd{a.context->async_fd, POLLIN, 0};
    EXPECT_EQ(poll(&fd, 1, 0), 1);
    EXPECT_NE(fd.revents & POLLHUP, 0);
    EXPECT_EQ(a.receive(qp, 0), EIO);
    ibv_port_attr attr{};
    EXPECT_EQ(ibv_query_port(a.context, 1, &attr), EIO);
    EXPECT_EQ(ibv_destroy_qp(qp), EIO);
    EXPECT_FALSE(a.poll());
  }
  int n = 0;
  ibv_free_device_list(ibv_get_device_list(&n));
  EXPECT_EQ(n, 1);
  fabric_.restore(fabric_.device("a"));
  const Node again{"a"};
  EXPECT_NE(again.mr, nullptr);
}

TEST_F(FakeVerbsTest, CallsFailWhenToldTo) {
  const Node a{"a"};
  fabric_.fail(Call::kCreateQp, EMFILE);
  EXPECT_EQ(a.make(IBV_QPT_UD), nullptr);
  EXPECT_EQ(errno, EMFILE);
  ibv_qp* qp = a.make_ud();
  EXPECT_NE(qp, nullptr);
  fabric_.fail(Call::kPostRecv, ENOMEM, 1, 1);
  EXPECT_EQ(a.receive(qp, 0), 0);
  EXPECT_EQ(a.receive(qp, 1), ENOMEM);
  EXPECT_EQ(a.receive(qp, 1), 0);
  ibv_destroy_qp(qp);
  fabric_.device("a").memlock = fabric_.device("a").registered;
  static std::array<std::byte, 8> more;
  EXPECT_EQ(ibv_reg_mr(a.pd, more.data(), more.size(), 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace ipoib::fake_verbs
