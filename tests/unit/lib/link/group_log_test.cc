// SPDX-License-Identifier: BSD-3-Clause
// The log of failed multicast operations: an SA that is wrong for a day does not fill a disk, and the
// lines say how many others there would have been.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <regex>
#include <string>

#include "lib/wire/iba.h"
#include "tests/support/logged.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;

class GroupLog : public ::testing::Test {
 protected:
  struct Lines {
    std::size_t n = 0;
    std::uint64_t suppressed = 0;  ///< The sum of the numbers in them.
  };
  /// The lines of a log that match, and the numbers in parentheses at their ends.
  static Lines lines_of(const std::string& log, const std::string& wanted) {
    Lines lines;
    const std::regex form{wanted + "[^\n]*"}, number{"\\((\\d+) [a-z]+ suppressed\\)"};
    for (std::sregex_iterator i{log.begin(), log.end(), form}, end; i != end; ++i, ++lines.n) {
      const std::string line = i->str();
      std::smatch found;
      if (std::regex_search(line, found, number)) lines.suppressed += std::stoull(found[1]);
    }
    return lines;
  }
  /// The record in an answer about a group; changed ones must be written back.
  static wire::McMemberRecord record_in(const fabric::ReceivedMad& answer) {
    return *wire::read<wire::McMemberRecord>(wire::read<wire::SaMad>(answer.bytes)->data);
  }
  static void write(fabric::ReceivedMad& answer, const wire::McMemberRecord& record) {
    auto mad = *wire::read<wire::SaMad>(answer.bytes);
    ASSERT_TRUE(wire::write(std::span{mad.data}, 0, record));
    ASSERT_TRUE(wire::write(std::span{answer.bytes}, 0, mad));
  }
  static bool is_about_groups(const fabric::ReceivedMad& answer) {
    return wire::read<wire::SaMad>(answer.bytes)->hdr.mad.attr_id.host() ==
           static_cast<std::uint16_t>(wire::Attr::kMcMemberRecord);
  }
  [[nodiscard]] bool is_broadcast(const wire::McMemberRecord& record) const {
    return record.mgid == sim.sa.group.mgid;
  }

  SimIpoibLink sim;
};

/// Each membership is tried again every 16 s.
TEST_F(GroupLog, U35_InvalidRecordsOfManyGroupsAreLoggedOnceASecond) {
  constexpr unsigned kGroups = 200;
  sim.bring_up();
  sim.meddle = [this](fabric::ReceivedMad& answer) {
    if (!is_about_groups(answer)) return true;
    auto record = record_in(answer);
    if (is_broadcast(record)) return true;
    record.mlid.set(0x1234);
    write(answer, record);
    return true;
  };
  const auto before = sim.link.counters().group_joins_failed;
  const std::string log = logged([&] {
    for (std::uint32_t i = 0; i < kGroups; ++i)
      ASSERT_TRUE(sim.link.join_group(wire::IpAddr::v4(0xef01'0000 + i), sim.now));
    sim.run_for(10min);
  });
  const Lines lines = lines_of(log, "invalid MLID 0x1234");
  const auto failed = sim.link.counters().group_joins_failed - before;
  EXPECT_GT(failed, 5000U) << "the limit is that of the log, not that of the joins";
  EXPECT_LE(lines.n, 601U);
  EXPECT_GE(lines.n, 500U);
  EXPECT_LE(lines.n + lines.suppressed, failed);
  EXPECT_GE(lines.n + lines.suppressed, failed - 50) << "the last line is not yet written";
}

/// The SA has valid and invalid records in turn, and forgets the membership again and again.
TEST_F(GroupLog, U35_AnSaThatIsWrongForADayFillsNoDisk) {
  sim.bring_up();
  unsigned joins = 0;
  sim.meddle = [&, this](fabric::ReceivedMad& answer) {
    if (!is_about_groups(answer)) return true;
    auto record = record_in(answer);
    if (wire::read<wire::SaMad>(answer.bytes)->hdr.comp_mask.host() !=
        (wire::McMemberRecord::kMgid | wire::McMemberRecord::kPortGid)) {
      if (is_broadcast(record) && ++joins % 2 == 0) {
        record.mlid.set(static_cast<std::uint16_t>(joins));
        write(answer, record);
      }
      return true;
    }
    sim.sa.hides_members = !sim.sa.hides_members;  // From the next check on.
    return true;
  };
  const std::string log = logged([&] { sim.run_for(24h); });
  EXPECT_GT(sim.link.counters().memberships_forgotten, 3000U);
  EXPECT_GT(sim.link.counters().joins_failed, 3000U);
  const Lines lines = lines_of(log, "ib0: (join of|the SA at)");
  EXPECT_LE(lines.n, 24U * 60 + 10);
  EXPECT_GE(lines.n, 24U * 50);
  EXPECT_GT(lines.suppressed, 3000U);
}

/// Two reasons in turn use up the burst of lines. Then one stays: its line follows with the next
/// allowed one, although no later attempt has another reason.
TEST_F(GroupLog, U35_LastingReasonIsLoggedAfterManyOthers) {
  std::uint16_t joins = 0;
  std::optional<std::uint16_t> lasting;
  sim.meddle = [&](fabric::ReceivedMad& answer) {
    if (!is_about_groups(answer)) return true;
    auto record = record_in(answer);
    record.mlid.set(lasting.value_or(++joins % 2));
    write(answer, record);
    return true;
  };
  const auto lines_in = [&](Duration time, const std::string& wanted) {
    return lines_of(logged([&] { sim.run_for(time); }), wanted);
  };
  sim.start();
  ASSERT_GT(lines_in(20min, "invalid MLID 0x000[01]").suppressed, 10U) << "the burst is used up";
  // After a line the next one is a minute away, and the next attempt 16 s.
  for (unsigned i = 0; lines_in(1s, "invalid MLID 0x000[01]").n == 0; ++i) ASSERT_LT(i, 80U);
  lasting = 0x1234;
  EXPECT_EQ(lines_in(40s, "invalid MLID 0x1234").n, 0U);
  EXPECT_EQ(lines_in(40s, "invalid MLID 0x1234").n, 1U);
  EXPECT_EQ(lines_in(24h, "invalid MLID 0x1234").n, 0U) << "it is said once";
  EXPECT_NE(sim.link.reason().find("0x1234"), std::string::npos) << sim.link.reason();
}

/// A question about the membership asks if there is one: the record is read at confirmations.
TEST_F(GroupLog, U35_WrongRecordsOfChecksAreNotLogged) {
  sim.bring_up();
  sim.meddle = [](fabric::ReceivedMad& answer) {
    if (!is_about_groups(answer)) return true;
    const auto mad = *wire::read<wire::SaMad>(answer.bytes);
    if (mad.hdr.comp_mask.host() != (wire::McMemberRecord::kMgid | wire::McMemberRecord::kPortGid))
      return true;
    auto record = record_in(answer);
    record.mlid.set(0);
    record.pkey.set(0x8003);
    write(answer, record);
    return true;
  };
  const auto checks = sim.sa.checks.size();
  const std::string log = logged([&] { sim.run_for(24h); });
  EXPECT_EQ(lines_of(log, "ib0: (join of|the SA at|group)").n, 0U);
  EXPECT_GT(sim.sa.checks.size() - checks, 20'000U);
  EXPECT_EQ(sim.link.state(), State::kUp);
  EXPECT_EQ(sim.link.counters().joins_failed, 0U);
}

/// Two requests every 16 s.
TEST_F(GroupLog, U35_AnSaThatKnowsNoSubscriptionsIsNamedOnceAMinute) {
  sim.bring_up();
  const std::string log = logged([&] { sim.run_for(24h); });
  const auto failed = sim.link.counters().subscriptions_failed;
  EXPECT_GT(failed, 8000U);
  const Lines lines = lines_of(log, "cannot subscribe to trap 6[67]");
  EXPECT_LE(lines.n, 24U * 60 + 10);
  EXPECT_GE(lines.n, 24U * 50);
  EXPECT_GE(lines.n + lines.suppressed, failed - 100);
}

}  // namespace
}  // namespace ipoib::link
