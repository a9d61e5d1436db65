// SPDX-License-Identifier: BSD-3-Clause
// Tables that the transport has reassembled from their segments, or cut to one MAD.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "lib/sa/client.h"
#include "lib/sa/queries.h"

namespace ipoib::sa {
namespace {

using namespace std::chrono_literals;
using wire::McMemberRecord;

constexpr std::uint16_t kSmLid = 7;

class WholeTables : public testing::Test {
 protected:
  WholeTables() { restart({}); }

  void restart(ClientConfig config) {
    client_ = std::make_unique<Client>(
        [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> bytes) {
          to_ = to;
          ++sent_;
          EXPECT_EQ(wire::parse_sa_mad(bytes, request_), wire::MadError::kNone);
          return Status{};
        },
        config, 1);
    client_->set_sm(kSmLid, 0, now_);
  }
  void ask() {
    client_->submit(
        list_groups(0xffff),
        [this](const Outcome& outcome, TimePoint) { outcomes_.push_back(outcome); }, now_);
  }
  /// Returns an answer with `n` records and a reported length of `len` octets. If `kernel` is set,
  /// its header is that of the first RMPP segment, as the kernel leaves it; otherwise it is as the
  /// fabric simulator leaves it.
  [[nodiscard]] fabric::ReceivedMad table(std::size_t n, std::size_t len, bool kernel) const {
    wire::SaHdr hdr = request_.hdr;
    hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kGetTable) | wire::kMethodResponse;
    hdr.attr_offset.set(sizeof(McMemberRecord) / 8);
    hdr.rmpp_rtime_flags = kernel ? 0x03 : 0x01;
    hdr.rmpp_version = hdr.rmpp_type = kernel ? 1 : 0;
    if (kernel) hdr.rmpp_segment.set(1);
    std::vector<std::byte> octets(std::max(sizeof(hdr) + n * sizeof(McMemberRecord), len));
    std::memcpy(octets.data(), &hdr, sizeof(hdr));
    for (std::size_t i = 0; i < n; ++i) {
      McMemberRecord record{};
      record.mlid.set(static_cast<std::uint16_t>(0xc000 + i));
      EXPECT_TRUE(wire::write(std::span{octets}, sizeof(hdr) + i * sizeof(record), record));
    }
    octets.resize(len);
    fabric::ReceivedMad mad{{.lid = kSmLid}, {}, true, len};
    const std::size_t head = std::min(len, wire::kMadLen);
    std::copy_n(octets.begin(), head, mad.bytes.begin());
    mad.rest.assign(octets.begin() + static_cast<std::ptrdiff_t>(head), octets.end());
    return mad;
  }
  static constexpr std::size_t octets_of(std::size_t n) {
    return sizeof(wire::SaHdr) + n * sizeof(McMemberRecord);
  }
  void expect_records(std::size_t n) {
    ASSERT_FALSE(outcomes_.empty());
    ASSERT_TRUE(outcomes_.back());
    ASSERT_EQ(outcomes_.back()->count(), n);
    for (std::size_t i = 0; i < n; ++i)
      EXPECT_EQ(outcomes_.back()->record<McMemberRecord>(i)->mlid.host(), 0xc000 + i);
  }

  TimePoint now_{1s};
  fabric::MadAddress to_;
  wire::SaMad request_{};
  unsigned sent_ = 0;
  std::vector<Outcome> outcomes_;
  std::unique_ptr<Client> client_;
};

TEST_F(WholeTables, OfTheKernelHaveAnySize) {
  for (const std::size_t n : {0U, 1U, 3U, 4U, 5U, 1000U}) {
    SCOPED_TRACE(n);
    ask();
    EXPECT_TRUE(client_->on_mad(table(n, octets_of(n), true), now_));
    expect_records(n);
  }
  EXPECT_EQ(sent_, 6U) << "nothing is acknowledged: the kernel has done so";
  EXPECT_EQ(client_->counters().answered, 6U);
}

// The simulator cuts answers after 256 octets. The client counts the records that have arrived.
TEST_F(WholeTables, OfTheSimulatorEndWhereTheyAreCut) {
  for (std::size_t n = 0; n <= 3; ++n) {
    SCOPED_TRACE(n);
    ask();
    EXPECT_TRUE(client_->on_mad(table(n, octets_of(n), false), now_));
    expect_records(n);
  }
  ask();
  EXPECT_TRUE(client_->on_mad(table(62, wire::kMadLen, false), now_));
  expect_records(3);
}

// An SA without RMPP fills its only MAD up with zeros, which are not records.
TEST_F(WholeTables, MayComeWithoutRmpp) {
  ask();
  fabric::ReceivedMad mad = table(2, wire::kMadLen, false);
  mad.bytes[offsetof(wire::SaHdr, rmpp_rtime_flags)] = std::byte{0};
  EXPECT_TRUE(client_->on_mad(mad, now_));
  expect_records(2);
}

TEST_F(WholeTables, MayBeRefused) {
  ask();
  fabric::ReceivedMad mad = table(0, wire::kMadLen, false);
  mad.bytes[offsetof(wire::MadHdr, status)] = std::byte{2};  // 0x0200
  EXPECT_TRUE(client_->on_mad(mad, now_));
  ASSERT_EQ(outcomes_.size(), 1U);
  ASSERT_FALSE(outcomes_[0]);
  EXPECT_EQ(outcomes_[0].error().code, Errc::kRefused);
  EXPECT_EQ(outcomes_[0].error().status, 0x0200);
}

// If lengths contradict the records, the request fails and the program goes on.
TEST_F(WholeTables, OfNonsenseAreFailures) {
  for (const std::size_t len : {std::size_t{0}, sizeof(wire::SaHdr) - 1, octets_of(1) - 1}) {
    SCOPED_TRACE(len);
    ask();
    client_->on_mad(table(1, std::max(len, sizeof(wire::MadHdr)), true), now_);
  }
  client_->shutdown(now_);
  for (const Outcome& outcome : outcomes_) EXPECT_TRUE(!outcome || outcome->count() == 0);
  EXPECT_EQ(outcomes_.size(), 3U);
}

TEST_F(WholeTables, AreBounded) {
  restart({.max_table_octets = 1000});
  ask();
  EXPECT_TRUE(client_->on_mad(table(100, octets_of(100), true), now_));
  ASSERT_EQ(outcomes_.size(), 1U);
  ASSERT_FALSE(outcomes_[0]);
  EXPECT_EQ(outcomes_[0].error().code, Errc::kNoResources);
  EXPECT_EQ(describe(outcomes_[0].error()), "SA table is too big");
  EXPECT_EQ(client_->counters().tables_given_up, 1U);
}

// The client passes the timeout of an answer on with the request. The timeout grows with the
// attempts.
TEST_F(WholeTables, RequestsSayHowLongTheirAnswerIsWaitedFor) {
  restart({.timeout = 300ms, .max_timeout = 1s});
  ask();
  EXPECT_EQ(to_.answer_ms, 300U);
  std::vector<std::uint32_t> later;
  while (outcomes_.empty()) {
    const unsigned before = sent_;
    now_ = *client_->next_deadline();
    client_->tick(now_);
    if (sent_ != before) later.push_back(to_.answer_ms);
  }
  EXPECT_EQ(later, (std::vector<std::uint32_t>{600, 1000, 1000, 1000}));
}

}  // namespace
}  // namespace ipoib::sa
