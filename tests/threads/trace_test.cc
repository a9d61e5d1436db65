// SPDX-License-Identifier: BSD-3-Clause
// Several workers publish records of one trace while management reads them: each record arrives
// whole, none twice, and no more than the limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "lib/msg/trace_records.h"

namespace ipoib::msg::trace {
namespace {

constexpr std::size_t kWorkers = 4;
constexpr std::uint16_t kSteps = Record::kMaxSteps;

/// All values of the record depend on its worker and number.
Record record_of(std::uint8_t worker, std::uint64_t number) {
  Record record;
  record.tsc = number;
  record.worker = worker;
  record.packet.len = static_cast<std::uint32_t>(number * 3);
  for (std::uint16_t i = 0; i < kSteps; ++i)
    record.add(
        Cut{false, static_cast<std::uint16_t>(worker), static_cast<std::uint16_t>(number + i)});
  return record;
}

void expect_whole(const Record& record) {
  const Record expected = record_of(record.worker, record.tsc);
  EXPECT_EQ(record.packet.len, expected.packet.len);
  ASSERT_EQ(record.n_steps, kSteps);
  for (std::uint16_t i = 0; i < kSteps; ++i) {
    EXPECT_EQ(std::get<Cut>(record.path()[i]).mtu, record.worker);
    EXPECT_EQ(std::get<Cut>(record.path()[i]).pieces, static_cast<std::uint16_t>(record.tsc + i));
  }
}

TEST(TraceSession, WorkersPublishWhileManagementReads) {
  for (int round = 0; round < 20; ++round) {
    Session session{Filter{}, Session::kMaxRecords};
    std::array<std::atomic<std::uint64_t>, kWorkers> published{};
    std::vector<std::thread> workers;
    for (std::uint8_t w = 0; w < kWorkers; ++w)
      workers.emplace_back([&session, &count = published[w], w] {
        std::uint64_t n = 0;
        while (session.publish(record_of(w, n))) ++n;
        session.count_missed(1);
        count = n;
      });
    std::vector<const Record*> seen(session.limit());
    for (std::size_t left = seen.size(); left != 0;)
      for (std::size_t i = 0; i < seen.size(); ++i) {
        if (seen[i] != nullptr || (seen[i] = session.record(i)) == nullptr) continue;
        expect_whole(*seen[i]);
        --left;
      }
    for (std::thread& worker : workers) worker.join();

    EXPECT_TRUE(session.full());
    EXPECT_EQ(session.missed(), kWorkers);
    std::array<std::vector<std::uint64_t>, kWorkers> numbers;
    for (const Record* record : seen) numbers[record->worker].push_back(record->tsc);
    for (std::size_t w = 0; w < kWorkers; ++w) {
      EXPECT_EQ(numbers[w].size(), published[w]);
      for (std::size_t i = 0; i < numbers[w].size(); ++i) EXPECT_EQ(numbers[w][i], i) << "in order";
    }
  }
}

}  // namespace
}  // namespace ipoib::msg::trace
