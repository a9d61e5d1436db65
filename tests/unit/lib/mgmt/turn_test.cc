// SPDX-License-Identifier: BSD-3-Clause
// A turn of the management lcore's loop is bounded, and its time is known.
#include <rte_ring.h>
#include <rte_ring_elem.h>

#include "drivers/soft/mad_port.h"
#include "lib/base/log_level.h"
#include "lib/mgmt/node/turn_times.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/mgmt/shared_port_fixture.h"

namespace ipoib::mgmt {
namespace {

TEST(TurnTimes, LogsSlowTurnsOnceASecond) {
  TurnTimes times;
  TimePoint t{1000s};
  const auto turn = [&](Duration d) {
    times.add(t, t + d);
    t += d;
  };
  EXPECT_EQ(logged([&] {
              for (int i = 0; i < 997; ++i) turn(10us);
              turn(TurnTimes::kSlow);
            }),
            "");
  const std::string log = logged([&] {
    turn(200ms);
    turn(300ms);
  });
  EXPECT_NE(log.find("a turn of the management lcore took 200 ms"), std::string::npos) << log;
  EXPECT_EQ(log.find("300 ms"), std::string::npos) << log;
  t += 1s;
  EXPECT_NE(logged([&] { turn(150ms); }).find("150 ms"), std::string::npos);

  const ManagementInfo info = times.info();
  EXPECT_EQ(info.turns, 1001U);
  EXPECT_EQ(info.slow_turns, 3U);
  EXPECT_NEAR(static_cast<double>(info.p50_ns), 10'000, 100);
  EXPECT_NEAR(static_cast<double>(info.p99_ns), 10'000, 100);
  EXPECT_EQ(info.max_ns, 300'000'000U);
}

class TurnTest : public SharedPortFixture {
 protected:
  /// A clock on which MADs take no time to speak of, even if other programs use the processor: a
  /// reading of it takes a microsecond.
  static std::uint64_t swift_tsc() noexcept {
    static std::uint64_t cycles = rte_rdtsc();
    return cycles += rte_get_tsc_hz() / 1'000'000;
  }
};

// A flood of MADs does not keep the loop from its other work: it waits for the next turns.
TEST_F(TurnTest, P16_HandlesABoundedNumberOfMads) {
  begin(config(), make_soft, swift_tsc);
  HcaInstance& hca = *node->parts->hcas[0];
  fabric::MadBytes mad{};
  mad[1] = std::byte{0x3f};  // A class that nothing here serves.
  const std::uint64_t before = hca.unknown_mads;
  constexpr unsigned kFlood = 3 * HcaInstance::kMadsPerTurn + 1;
  for (unsigned i = 0; i < kFlood; ++i)
    ASSERT_TRUE(hca.hca->mad_port().send({.lid = 1, .qpn = 1, .pkey = 0xffff}, mad));
  node->runner.run_once();
  EXPECT_EQ(hca.unknown_mads - before, HcaInstance::kMadsPerTurn);
  EXPECT_TRUE(node->runner.work_waiting()) << "the loop does not sleep before it has handled all";
  for (int i = 0; i < 3; ++i) node->runner.run_once();
  EXPECT_EQ(hca.unknown_mads - before, kFlood);
  EXPECT_FALSE(hca.hca->mad_port().pending());
}

// MADs that the port answers or drops itself leave the turn to the others behind them.
TEST_F(TurnTest, P16_HandlesMadsBehindThoseOfThePort) {
  begin(config(), make_soft, swift_tsc);
  HcaInstance& hca = *node->parts->hcas[0];
  fabric::MadBytes mad{};
  mad[1] = std::byte{0x3f};
  const std::uint64_t before = hca.unknown_mads;
  const auto send = [&](std::uint32_t qpn) {
    ASSERT_TRUE(hca.hca->mad_port().send({.lid = 1, .qpn = qpn, .pkey = 0xffff}, mad));
  };
  constexpr unsigned kDropped = 3 * soft::SoftMadPort::kMadsPerCall;
  for (unsigned i = 0; i < kDropped; ++i) send(wire::kSmiQpn);  // Only SMPs belong there.
  send(wire::kGsiQpn);
  node->runner.run_once();
  EXPECT_EQ(hca.unknown_mads - before, 1U);
  EXPECT_FALSE(hca.hca->mad_port().pending());
}

// Packets that workers pass up have a bound of their own.
TEST_F(TurnTest, P16_HandlesABoundedNumberOfPunts) {
  begin(config());
  rte_ring* const up = node->parts->workers.all()[1].channel->up();
  ASSERT_EQ(rte_ring_count(up), 0U);
  constexpr unsigned kPerTurn = 64, kFlood = 3 * kPerTurn + 1;
  msg::Up message{};
  message.kind = msg::Up::Kind::kMulticastUnknown;
  message.iface = table::kNoInterface;
  for (unsigned i = 0; i < kFlood; ++i)
    ASSERT_EQ(rte_ring_sp_enqueue_elem(up, &message, sizeof(message)), 0);
  node->runner.run_once();
  EXPECT_EQ(rte_ring_count(up), kFlood - kPerTurn);
  EXPECT_TRUE(node->runner.work_waiting()) << "the loop does not sleep before it has handled all";
  for (int i = 0; i < 3; ++i) node->runner.run_once();
  EXPECT_EQ(rte_ring_count(up), 0U);
}

// Slow MADs leave time for other work: each reading of this clock takes a millisecond.
TEST_F(TurnTest, P16_HandlesMadsForABoundedTime) {
  static std::uint64_t cycles;
  cycles = rte_rdtsc();
  begin(config(), make_soft,
        []() noexcept -> std::uint64_t { return cycles += rte_get_tsc_hz() / 1000; });
  HcaInstance& hca = *node->parts->hcas[0];
  fabric::MadBytes mad{};
  mad[1] = std::byte{0x3f};
  const std::uint64_t before = hca.unknown_mads;
  for (unsigned i = 0; i < 32; ++i)
    ASSERT_TRUE(hca.hca->mad_port().send({.lid = 1, .qpn = 1, .pkey = 0xffff}, mad));
  node->runner.run_once();
  EXPECT_EQ(hca.unknown_mads - before, HcaInstance::kMadTimePerTurn / 1ms);
  for (int i = 0; i < 10; ++i) node->runner.run_once();
  EXPECT_EQ(hca.unknown_mads - before, 32U);
}

}  // namespace
}  // namespace ipoib::mgmt
