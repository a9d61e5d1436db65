// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/modes/latency.h"

#include <rte_cycles.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "lib/fwd/generator.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

TEST(Histogram, BucketsAreContiguousAndKnownBetterThanOnePercent) {
  for (std::size_t i = 0; i < Histogram::kBuckets; ++i) {
    ASSERT_EQ(Histogram::bucket_of(Histogram::lowest(i)), i);
    ASSERT_EQ(Histogram::bucket_of(Histogram::highest(i)), i);
    const auto low = static_cast<double>(Histogram::lowest(i));
    ASSERT_LE(static_cast<double>(Histogram::highest(i)) - low, low * 0.01) << i;
  }
  EXPECT_EQ(Histogram::bucket_of(Histogram::kMax), Histogram::kBuckets - 1);
}

TEST(Histogram, PercentilesOfManyNumbers) {
  const auto histogram = std::make_unique<Histogram>();
  auto counts = std::make_unique<Histogram::Counts>();
  EXPECT_EQ(Histogram::percentile(*counts, 0.5), 0U);
  std::mt19937_64 random{7};
  std::lognormal_distribution<double> spread{8, 2};
  std::vector<double> values(100'000);
  for (double& v : values) {
    v = std::floor(spread(random));
    histogram->add(static_cast<std::uint64_t>(v));
  }
  histogram->add_to(*counts);
  std::sort(values.begin(), values.end());
  for (const double share : {0.001, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = values[static_cast<std::size_t>(std::ceil(share * 100'000)) - 1];
    EXPECT_NEAR(static_cast<double>(Histogram::percentile(*counts, share)), exact, exact * 0.01);
  }
}

TEST(Histogram, WhatIsTooLargeCountsAsTheLargest) {
  const auto histogram = std::make_unique<Histogram>();
  histogram->add(~std::uint64_t{0});
  auto counts = std::make_unique<Histogram::Counts>();
  histogram->add_to(*counts);
  EXPECT_EQ(Histogram::percentile(*counts, 1), Histogram::kMax);
}

class RecorderTest : public testing::Test {
 protected:
  void record(std::uint32_t sequence) { recorder->record(3, sequence, 1000); }
  void expect(std::uint64_t received, std::uint64_t late, std::uint64_t duplicates,
              std::uint64_t next) {
    const auto& s = recorder->stream(3);
    EXPECT_EQ(s.received.get(), received);
    EXPECT_EQ(s.late.get(), late);
    EXPECT_EQ(s.duplicates.get(), duplicates);
    EXPECT_EQ(s.next.get(), next);
    auto counts = std::make_unique<Histogram::Counts>();
    recorder->histogram().add_to(*counts);
    EXPECT_EQ(std::accumulate(counts->begin(), counts->end(), std::uint64_t{0}), received);
  }
  std::unique_ptr<LatencyRecorder> recorder = std::make_unique<LatencyRecorder>();
};

TEST_F(RecorderTest, InOrder) {
  for (std::uint32_t i = 0; i < 10'000; ++i) record(i);
  expect(10'000, 0, 0, 10'000);
}

TEST_F(RecorderTest, LossReorderingAndDuplicates) {
  for (const std::uint32_t n : {0U, 1U, 2U, 5U, 4U, 5U, 4U, 2U, 7U}) record(n);
  expect(6, 1, 3, 8);  // next - received: 3 and 6 are lost
}

TEST_F(RecorderTest, NumbersOfLongAgoAreNotTakenForNewOnes) {
  // Every third packet is lost; then the last thousand arrive a second time.
  constexpr std::uint32_t kAll = 9000;
  std::uint64_t received = 0, again = 0;
  for (std::uint32_t i = 0; i < kAll; ++i)
    if (i % 3 != 0) record(i), ++received;
  for (std::uint32_t i = kAll - 1000; i < kAll; ++i)
    if (i % 3 != 0) record(i), ++again;
  expect(received, 0, again, kAll);
}

TEST_F(RecorderTest, AfterAGapLongerThanTheWindow) {
  record(0);
  record(100'000);
  record(99'999);  // late
  record(100'000);
  expect(3, 1, 1, 100'001);
}

TEST_F(RecorderTest, GoesOnWhereThirtyTwoBitsEnd) {
  // A single step forward is less than half of the 32-bit range, so two steps lead to its end.
  record(0x7fff'ffff);
  record(0xffff'fffe);
  record(0xffff'ffff);
  record(0);
  record(0xffff'ffff);
  expect(4, 0, 1, 0x1'0000'0001);
}

class LatencyTest : public WorkerFixture {
 protected:
  static constexpr std::uint32_t kRun = 0xabcdef00;

  void start_in_mode(std::string_view src, std::string_view dst) {
    GeneratorConfig config;
    config.ip = {*wire::parse_ip(src), *wire::parse_ip(dst)};
    auto made = Generator::create(
        config, {.tsc_hz = rte_get_tsc_hz(), .max_size = 2048, .run_id = kRun, .stamped = true});
    ASSERT_TRUE(made);
    generator = std::move(*made);
    settings.generator = generator.get();
    settings.mode = ForwardMode::kLatency;
    configs[0].run_id = kRun;
    start();
    set_neighbour(0, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
    set_neighbour(1, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
    loop();
    sent = sent_by_link(kIb0);
    ASSERT_EQ(sent.size(), 32U);
    settings.forwarding = false;
  }
  /// Receives all sent packets in one burst.
  void reflect() {
    for (const auto& packet : sent) receive(kIb0, packet.bytes);
    settings.forwarding = true;
    settings.generator = nullptr;
    loop();
  }
  const LatencyRecorder::Stream& stream() { return worker().latency().stream(0); }

  std::unique_ptr<const Generator> generator;
  std::vector<SentOnLink> sent;
};

TEST_F(LatencyTest, TimeOfPacketsThatComeBackIsKept) {
  start_in_mode("192.168.1.10", "10.0.0.2");
  const std::uint64_t sent_before = rte_rdtsc();
  rte_delay_us_block(2000);
  const auto least = static_cast<double>(rte_rdtsc() - sent_before);
  reflect();
  EXPECT_EQ(stream().received.get(), 32U);
  EXPECT_EQ(stream().next.get(), 32U);
  EXPECT_EQ(worker().stats().consumed.get(), 32U);
  EXPECT_EQ(worker().stats().stamped.get(), 32U);
  auto counts = std::make_unique<Histogram::Counts>();
  worker().latency().histogram().add_to(*counts);
  const double ns = least * 1e9 / static_cast<double>(rte_get_tsc_hz());
  EXPECT_GE(static_cast<double>(Histogram::percentile(*counts, 0)), ns);
}

TEST_F(LatencyTest, Ipv6) {
  start_in_mode("fd00:1::10", "fd00:a::2");
  reflect();
  EXPECT_EQ(stream().received.get(), 32U);
}

TEST_F(LatencyTest, OthersAreConsumedAndNotRecorded) {
  start_in_mode("192.168.1.10", "10.0.0.2");
  const Bytes good = sent[0].bytes;
  sent.clear();
  const auto changed = [&](std::size_t at, int value) {
    Bytes bytes = good;
    bytes[4 + at] = static_cast<std::byte>(value);
    const wire::Be16 zero{};
    std::memcpy(&bytes[4 + 10], &zero, 2);
    const wire::Be16 sum{wire::internet_checksum(std::span{bytes}.subspan(4, 20))};
    std::memcpy(&bytes[4 + 10], &sum, 2);
    receive(kIb0, bytes);
  };
  changed(28, 0x12);                                       // run id of another run
  changed(31, 200);                                        // number of a worker that cannot exist
  changed(6, 0x20);                                        // a fragment
  changed(9, 47);                                          // not UDP
  receive(kIb0, to_link(Ip4{.payload_len = 23}.bytes()));  // no room for a time stamp
  reflect();
  EXPECT_EQ(stream().received.get(), 0U);
  EXPECT_EQ(worker().stats().consumed.get(), 5U);
  EXPECT_EQ(all_drops(), 0U);
}

}  // namespace
}  // namespace ipoib::fwd::test
