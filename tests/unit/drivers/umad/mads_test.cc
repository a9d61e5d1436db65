// SPDX-License-Identifier: BSD-3-Clause
// MADs of the port's users: the ones that are sent, delivered and refused.
#include <cstring>

#include "tests/unit/drivers/umad/umad_fixture.h"

namespace ipoib::umad {
namespace {

class UmadMads : public UmadFixture {
 protected:
  static fabric::MadBytes mad(std::uint8_t mgmt_class, std::uint8_t method,
                              std::uint64_t tid = 0x0102'0304'0506'0708) {
    wire::MadHdr header{};
    header.base_version = wire::kMadBaseVersion;
    header.mgmt_class = mgmt_class;
    header.method = method;
    header.tid.set(tid);
    fabric::MadBytes bytes{};
    std::memcpy(bytes.data(), &header, sizeof(header));
    bytes.back() = std::byte{0x5a};
    return bytes;
  }
  void arrive(const fabric::MadBytes& bytes, std::uint32_t qpn = 1) {
    fake_.arrive(arrived_from(1, bytes, qpn));
    settle();
  }
};

TEST_F(UmadMads, GoOutAsTheyAre) {
  start_active();
  fake_.take_sent();
  const auto request = mad(0x03, 0x02);
  ASSERT_TRUE(port_->send({.lid = 1, .sl = 3, .answer_ms = 500}, request));
  ASSERT_TRUE(port_->send({.lid = 1, .qpn = 1}, mad(0x03, 0x86)));
  const auto sent = fake_.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].mad, request);
  EXPECT_EQ(sent[0].to.lid, 1);
  EXPECT_EQ(sent[0].to.sl, 3);
  EXPECT_EQ(sent[0].to.qpn, 1U);
  EXPECT_EQ(sent[0].qkey, wire::kGsiQkey);
  // Shorter than the sender's time to the next retry; otherwise the kernel would refuse the retry.
  EXPECT_EQ(sent[0].answer_ms, 450U);
  EXPECT_EQ(sent[1].answer_ms, 0U) << "nobody answers an answer";
}

// The peer is behind a router, and a LID only leads to that router.
TEST_F(UmadMads, HaveAGrhWhereTheAddressHasAGid) {
  start_active();
  fake_.take_sent();
  const auto far = wire::Gid::of(0x2001'0db8ULL << 32, 0x77);
  ASSERT_TRUE(port_->send({.lid = 9, .gid = far}, mad(0x07, 0x03)));
  ASSERT_TRUE(port_->send({.lid = 9}, mad(0x07, 0x03)));
  auto sent = fake_.take_sent();
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].to.lid, 9);
  EXPECT_EQ(sent[0].to.gid, far);
  EXPECT_EQ(sent[0].to.gid_index, 0);
  EXPECT_TRUE(sent[1].to.gid.is_zero());

  Arrived arrived = arrived_from(9, mad(0x07, 0x03));
  arrived.from.gid = far;
  fake_.arrive(arrived);
  // An unserved request is refused on the path by which it came.
  arrived.bytes[3] = std::byte{0x01};
  fake_.arrive(arrived);
  settle();
  ASSERT_EQ(mads_.size(), 1U);
  EXPECT_EQ(mads_[0].from.lid, 9);
  EXPECT_EQ(mads_[0].from.gid, far);
  sent = fake_.take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to.gid, far);
}

TEST_F(UmadMads, AddressesThatCannotBeAreRefused) {
  start_active();
  for (const fabric::MadAddress& to :
       {fabric::MadAddress{.lid = 0}, fabric::MadAddress{.lid = 0xc000},
        fabric::MadAddress{.lid = 1, .sl = 16}})
    EXPECT_EQ(port_->send(to, mad(0x03, 0x01)).error().code, Errc::kInvalidArgument);
  // No agent has registered this class.
  EXPECT_EQ(port_->send({.lid = 1}, mad(0x04, 0x01)).error().code, Errc::kUnavailable);
}

TEST_F(UmadMads, AnswersAndReportsAreHandedOver) {
  start_active();
  arrive(mad(0x03, 0x81));
  arrive(mad(0x03, 0x06));
  ASSERT_EQ(mads_.size(), 2U);
  EXPECT_EQ(mads_[0].from.lid, 1);
  EXPECT_EQ(mads_[0].from.qpn, 1U);
  EXPECT_TRUE(mads_[0].whole);
  EXPECT_EQ(mads_[0].len, wire::kMadLen);
  EXPECT_EQ(mads_[0].bytes.back(), std::byte{0x5a});
  EXPECT_TRUE(mads_[0].rest.empty());
}

// MADs of the communication manager are not answers: their receiver looks at their attribute.
TEST_F(UmadMads, MessagesOfTheCommunicationManagerAreHandedOver) {
  start_active();
  const auto req = mad(0x07, 0x03);
  arrive(req);
  ASSERT_EQ(mads_.size(), 1U);
  EXPECT_EQ(mads_[0].bytes, req);
  EXPECT_EQ(mads_[0].from.lid, 1);
  fake_.take_sent();
  ASSERT_TRUE(port_->send({.lid = 2}, req));
  const auto sent = fake_.take_sent();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].answer_ms, 0U) << "the kernel waits for nothing";
}

// The simulator cuts the octets behind an answer's records, and the kernel merges many segments.
TEST_F(UmadMads, HaveAnyLength) {
  start_active();
  std::vector<std::byte> bytes(1256, std::byte{7});
  const auto head = mad(0x03, 0x92);
  std::copy_n(head.begin(), sizeof(wire::MadHdr), bytes.begin());
  fake_.arrive(arrived_from(1, std::span{bytes}.first(112)));
  fake_.arrive(arrived_from(1, bytes));
  settle();
  ASSERT_EQ(mads_.size(), 2U);
  EXPECT_EQ(mads_[0].len, 112U);
  EXPECT_EQ(mads_[0].bytes[111], std::byte{7});
  EXPECT_EQ(mads_[0].bytes[112], std::byte{0});
  EXPECT_EQ(mads_[1].len, 1256U);
  EXPECT_EQ(mads_[1].rest, std::vector<std::byte>(1000, std::byte{7}));
}

TEST_F(UmadMads, LengthsThatCannotBeAreCounted) {
  start_active();
  const auto answer = mad(0x03, 0x81);
  for (const std::size_t len : {0U, 1U, 23U, 24U, 55U})
    fake_.arrive(arrived_from(1, std::span{answer}.first(len)));
  const auto smp = mad(0x81, 0x81);
  fake_.arrive(arrived_from(4, std::span{smp}.first(127), 0));
  settle();
  EXPECT_EQ(count("malformed"), 6U);
  EXPECT_TRUE(mads_.empty());
  EXPECT_TRUE(events_.empty());
}

// A returned request is not an answer to itself.
TEST_F(UmadMads, ReturnedOnesAreCounted) {
  start_active();
  Arrived returned = arrived_from(1, mad(0x03, 0x02));
  returned.status = 110;
  fake_.arrive(returned);
  returned.bytes.resize(sizeof(wire::MadHdr));
  fake_.arrive(returned);
  settle();
  EXPECT_EQ(count("undeliverable"), 2U);
  EXPECT_TRUE(mads_.empty());
}

TEST_F(UmadMads, AnswersThatNobodyAskedForAreCounted) {
  start_active();
  arrive(mad(0x81, 0x81), 0);
  arrive(mad(0x01, 0x81), 0);
  EXPECT_EQ(count("unasked"), 2U);
  EXPECT_TRUE(events_.empty());
}

// Requests for services that this port does not have are refused if such an answer exists.
TEST_F(UmadMads, UnservedRequestsAreRefused) {
  struct Case {
    std::uint8_t mgmt_class, method, answer;  ///< 0: none
    std::uint16_t status;
  };
  constexpr std::uint16_t kUnsupported = 0x000c;
  start_active();
  std::uint64_t unserved = 0;
  for (const Case& c : {
           Case{0x01, 0x01, 0x81, kUnsupported},           // SMInfo Get by LID
           Case{0x81, 0x01, 0x81, kUnsupported | 0x8000},  // SMInfo Get by directed route
           Case{0x81, 0x02, 0x81, kUnsupported | 0x8000},
           Case{0x03, 0x12, 0x92, kUnsupported},  // GetTable: no administrator here
           Case{0x07, 0x01, 0x81, kUnsupported},  // ClassPortInfo of CM
           Case{0x01, 0x05, 0, 0},                // Trap
           Case{0x01, 0x07, 0, 0},                // TrapRepress
           Case{0x07, 0x81, 0, 0},                // An answer
       }) {
    SCOPED_TRACE(fmt::format("class {:#04x} method {:#04x}", c.mgmt_class, c.method));
    fake_.take_sent();
    const bool smi = c.mgmt_class == 0x01 || c.mgmt_class == 0x81;
    arrive(mad(c.mgmt_class, c.method), smi ? 0 : 1);
    EXPECT_EQ(count("unserved"), ++unserved);
    const auto sent = fake_.take_sent();
    ASSERT_EQ(sent.size(), c.answer != 0 ? 1U : 0U);
    if (c.answer == 0) continue;
    EXPECT_EQ(sent[0].header().method, c.answer);
    EXPECT_EQ(sent[0].header().status.host(), c.status);
    EXPECT_EQ(sent[0].header().tid.host(), 0x0102'0304'0506'0708U) << "all of it";
    EXPECT_EQ(sent[0].mad.back(), std::byte{0x5a});
    EXPECT_EQ(sent[0].to.lid, 1);
    EXPECT_EQ(sent[0].to.qpn, smi ? 0U : 1U);
    EXPECT_EQ(sent[0].qkey, smi ? 0U : wire::kGsiQkey);
    EXPECT_EQ(sent[0].answer_ms, 0U);
  }
  EXPECT_TRUE(mads_.empty());
}

}  // namespace
}  // namespace ipoib::umad
