// SPDX-License-Identifier: BSD-3-Clause
// The load of four ports with many requests on OpenSM, on a subnet of 1,000 channel adapters. The
// ports must not increase the load when OpenSM does not answer. sa-load.sh starts OpenSM and this
// program; OPENSM_PID is the process that this program stops for a while.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/link/ipoib/paths/path_table.h"
#include "lib/sa/queries.h"
#include "lib/wire/ipoib.h"
#include "tests/lab/conformance/opensm_subnet.h"
#include "tests/lab/conformance/port_process.h"
#include "tests/lab/conformance/session.h"

namespace ipoib::conformance {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr unsigned kAdapters = 1000, kGroups = 1000, kPathQueries = 10000, kAbsent = 50;
constexpr unsigned kBound = sa::ClientConfig{}.max_outstanding;

std::unique_ptr<Session> session;

wire::Gid adapter_gid(unsigned i) {
  return wire::Gid::of(wire::kDefaultGidPrefix, 0x10'0001 + 2 * std::uint64_t{i});
}
PortId port_of(unsigned i) {
  return static_cast<PortId>(i % kPorts);
}
TimePoint now() {
  return session->subnet().now();
}

/// The sums of the counters of all ports' clients.
sa::ClientCounters counters() {
  sa::ClientCounters sum;
  for (std::size_t i = 0; i < kPorts; ++i) {
    const sa::ClientCounters& c = session->client(static_cast<PortId>(i)).counters();
    sum.sent += c.sent;
    sum.retried += c.retried;
    sum.timed_out += c.timed_out;
  }
  return sum;
}

/// Requests that are submitted all at once. The clients limit how many are outstanding.
class Batch {
 public:
  void ask(PortId port, const sa::Request& request) {
    ++asked_;
    session->client(port).submit(
        request,
        [this](const sa::Outcome& o, TimePoint) {
          ++ended_;
          if (o)
            ++answered_;
          else if (o.error().code == Errc::kRefused)
            ++refused_;
        },
        now());
  }
  /// Runs until all requests have ended, at most for `limit`.
  void run(Duration limit) {
    session->run_until(
        [this] {
          look();
          return ended_ == asked_;
        },
        limit);
    took_ = now() - begin_;
  }
  void print(std::string_view what) const {
    const auto after = counters();
    const double ms = duration_cast<std::chrono::duration<double, std::milli>>(took_).count();
    fmt::print(
        "{}: {} in {:.0f} ms, {:.0f}/s, {} requests sent, {} of them again, {} timed out, "
        "{} outstanding at once at most\n",
        what, asked_, ms, 1000.0 * asked_ / ms, after.sent - before_.sent,
        after.retried - before_.retried, after.timed_out - before_.timed_out, most_);
  }

  [[nodiscard]] unsigned asked() const { return asked_; }
  [[nodiscard]] unsigned ended() const { return ended_; }
  [[nodiscard]] unsigned answered() const { return answered_; }
  [[nodiscard]] unsigned refused() const { return refused_; }
  /// The largest number of outstanding requests of one port.
  [[nodiscard]] std::size_t peak_outstanding() const { return most_; }
  [[nodiscard]] std::uint64_t timed_out() const { return counters().timed_out - before_.timed_out; }
  /// The requests that all ports have sent since the batch began.
  [[nodiscard]] std::uint64_t sent() const { return counters().sent - before_.sent; }

 private:
  void look() {
    for (std::size_t i = 0; i < kPorts; ++i)
      most_ = std::max(most_, session->client(static_cast<PortId>(i)).outstanding());
  }

  const sa::ClientCounters before_ = counters();
  const TimePoint begin_ = now();
  Duration took_{};
  unsigned asked_ = 0, ended_ = 0, answered_ = 0, refused_ = 0;
  std::size_t most_ = 0;
};

void expect_all_answered(const Batch& batch) {
  EXPECT_EQ(batch.answered(), batch.asked());
  EXPECT_EQ(batch.timed_out(), 0U);
  EXPECT_LE(batch.peak_outstanding(), kBound);
}

TEST(SaLoad, ThousandGroupsAreCreatedAndLeft) {
  const wire::Gid broadcast = wire::broadcast_mgid(kDefault, 2);
  const auto found = session->ask(kA, sa::find_group(broadcast));
  ASSERT_TRUE(found);
  const auto like = *found->record<wire::McMemberRecord>();
  const auto group = [](unsigned i) {
    return wire::mgid_of(wire::IpAddr::v4(0xe100'0000 + i), kDefault, 2);
  };
  const auto gid = [](unsigned i) { return session->subnet().port(port_of(i)).gid; };

  Batch created;
  for (unsigned i = 0; i < kGroups; ++i)
    created.ask(port_of(i),
                sa::create_group(group(i), gid(i), wire::join_state::kFullMember, like));
  created.run(seconds(60));
  created.print("groups created");
  expect_all_answered(created);

  Batch left;
  for (unsigned i = 0; i < kGroups; ++i)
    left.ask(port_of(i),
             sa::leave_group(group(i), gid(i), kDefault, wire::join_state::kFullMember));
  left.run(seconds(60));
  left.print("groups left");
  expect_all_answered(left);
  const auto gone = session->ask(kA, sa::find_group(group(0)));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().status, static_cast<std::uint16_t>(wire::MadStatus::kSaNoRecords));
}

TEST(SaLoad, TenThousandPathQueriesAreAnswered) {
  Batch paths;
  for (unsigned i = 0; i < kPathQueries; ++i)
    paths.ask(port_of(i), sa::find_path(session->subnet().port(port_of(i)).gid,
                                        adapter_gid(i % kAdapters), kDefault));
  paths.run(seconds(60));
  paths.print("paths asked for");
  expect_all_answered(paths);
}

/// A link without a queue pair: it queries paths and sends nothing else.
class NoActions final : public link::LinkActions {
 public:
  explicit NoActions(const PortUnderTest& port) {
    attr_.guid = port.gid.guid();
    attr_.lid = port.lid;
  }
  [[nodiscard]] const fabric::PortAttr& port() const override { return attr_; }
  [[nodiscard]] unsigned queue_pairs() const override { return 1; }
  [[nodiscard]] std::uint32_t qpn(unsigned) const override { return 0x48; }
  Status set_qkey(std::uint32_t) override { return {}; }
  Status attach(unsigned, const wire::Gid&, std::uint16_t) override { return {}; }
  void detach(unsigned, const wire::Gid&, std::uint16_t) override {}
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr&) override { return 0U; }
  void destroy_ah(fabric::AhIndex) override {}
  void send(fabric::AhIndex, std::uint32_t, std::span<const std::byte>) override {}
  void state_changed(link::State) override {}

 private:
  fabric::PortAttr attr_;
};

/// The ports of these neighbours do not exist, and packets to them come all the time. Each path is
/// queried once per negative time, not once per packet.
TEST(SaLoad, AbsentPeersAreNotAskedForAllTheTime) {
  constexpr Duration kWanted = seconds(8);
  NoActions actions{session->subnet().port(kA)};
  link::LinkCounters link_counters;
  const link::PathConfig config{.name = "ib0"};
  const auto nobody = [](const wire::IpAddr&, TimePoint) {};
  link::PathTable paths{config, actions, session->client(kA), link_counters, nobody, 1};
  paths.resume(0, 2044, 0, now());
  std::vector<wire::LinkAddr> peers;
  for (unsigned i = 0; i < kAbsent; ++i)
    peers.push_back({0, wire::Be24{0x49}, wire::Gid::of(wire::kDefaultGidPrefix, 0xdead'0000 + i)});

  const auto before = counters();
  std::uint64_t wanted = 0;
  const TimePoint end = now() + kWanted;
  while (now() < end) {
    for (unsigned i = 0; i < kAbsent; ++i, ++wanted) {
      paths.acquire(wire::IpAddr::v4(0x0a00'0100 + i), peers[i], now());
      paths.asked_for(peers[i]);
    }
    paths.tick(now());
    session->run_until([] { return false; }, milliseconds(10));
  }
  const auto asked = counters().sent - before.sent;
  fmt::print("absent peers: {}, wanted {} times in {} s, asked for {} times\n", kAbsent, wanted,
             duration_cast<seconds>(kWanted).count(), asked);
  EXPECT_GE(asked, kAbsent);
  EXPECT_LE(asked, kAbsent * (1 + kWanted / config.negative)) << "a storm";
  for (const wire::LinkAddr& peer : peers) EXPECT_EQ(paths.state(peer), link::PathState::kFailed);
  paths.clear();
}

/// True if every thread of the process has stopped. That is a little later than kill() returns.
bool has_stopped(pid_t pid) {
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    std::ifstream file(thread.path() / "stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto name_end = text.rfind(") ");
    if (name_end == std::string::npos || text[name_end + 2] != 'T') return false;
  }
  return true;
}

/// A port queries 1,000 paths while OpenSM is stopped. The test uses one port and a few seconds
/// only, because the simulator holds some 160 MADs for a process that does not read, and then stops
/// for all processes.
TEST(SaLoad, SilentAdministratorIsNotStormed) {
  constexpr Duration kSilence = seconds(6);
  const pid_t opensm = std::atoi(std::getenv("OPENSM_PID"));
  ASSERT_EQ(kill(opensm, SIGSTOP), 0);
  for (const TimePoint asked = now(); !has_stopped(opensm);)
    ASSERT_LT(now() - asked, seconds(10)) << "OpenSM goes on";
  Batch batch;
  for (unsigned i = 0; i < kAdapters; ++i)
    batch.ask(kA, sa::find_path(session->subnet().port(kA).gid, adapter_gid(i), kDefault));

  const TimePoint begin = now();
  std::vector<std::uint64_t> each_second;
  std::set<Duration::rep> moments;  // The times of retransmissions, in steps of 5 ms.
  std::uint64_t so_far = 0, again = counters().retried;
  while (now() - begin < kSilence) {
    const TimePoint second = begin + seconds(each_second.size() + 1);
    while (now() < second) {
      batch.run(milliseconds(1));
      if (std::exchange(again, counters().retried) == counters().retried) continue;
      moments.insert((now() - begin) / milliseconds(5));
    }
    each_second.push_back(batch.sent() - so_far);
    so_far = batch.sent();
  }
  EXPECT_EQ(batch.ended(), 0U);
  ASSERT_EQ(kill(opensm, SIGCONT), 0);
  const TimePoint resumed = now();
  batch.run(seconds(60));
  fmt::print("{} s without an answer: requests sent each second {}; all answered {} ms after it\n",
             duration_cast<seconds>(kSilence).count(), fmt::join(each_second, " "),
             duration_cast<milliseconds>(now() - resumed).count());
  batch.print("paths asked for, with a silence");

  // There is a first attempt and one after 0.5, 1 and 2 s, each up to a quarter longer.
  EXPECT_LE(so_far, kBound * 4U);
  EXPECT_LE(*std::ranges::max_element(each_second), kBound * 2U);
  EXPECT_GE(moments.size(), 20U) << "requests are sent again together";
  expect_all_answered(batch);
}

}  // namespace
}  // namespace ipoib::conformance

int main(int argc, char** argv) {
  using namespace ipoib::conformance;
  constexpr std::string_view kPort = "--port-process=";
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string_view{argv[1]}.starts_with(kPort))
    return run_port_process(std::atoi(argv[1] + kPort.size()));
  auto subnet = OpensmSubnet::create();
  if (!subnet || std::getenv("OPENSM_PID") == nullptr) {
    fmt::print(stderr, "{}\n",
               subnet ? "OPENSM_PID is not set: run sa-load.sh" : subnet.error().what);
    return 1;
  }
  session = std::make_unique<Session>(std::move(*subnet));
  const int status = RUN_ALL_TESTS();
  session.reset();
  return status;
}
