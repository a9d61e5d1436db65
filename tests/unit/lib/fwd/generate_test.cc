// SPDX-License-Identifier: BSD-3-Clause
// Packets that a worker generates: their contents, destinations and rate, and that each of them is
// accounted for.
#include "lib/fwd/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

constexpr std::uint64_t kHz = 2'000'000'000;

/// Returns 0 if the checksum is correct. Source: RFC 768, RFC 8200 §8.1.
std::uint16_t udp_fault(const Bytes& ip) {
  const bool v4 = std::to_integer<int>(ip[0]) >> 4 == 4;
  const std::size_t header = v4 ? 20 : 40;
  Bytes sum;
  append(sum, std::span{ip}.subspan(v4 ? 12 : 8, v4 ? 8 : 32));
  append(sum, wire::Be32{static_cast<std::uint32_t>(ip.size() - header)});
  append(sum, wire::Be32{17});
  append(sum, std::span{ip}.subspan(header));
  return wire::internet_checksum(sum);
}
std::uint16_t word_at(const Bytes& b, std::size_t at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(b[at]) << 8 |
                                    std::to_integer<unsigned>(b[at + 1]));
}

class GenerateTest : public WorkerFixture {
 protected:
  static GeneratorConfig config_to(std::string_view src, std::string_view dst) {
    GeneratorConfig config;
    config.ip = {*wire::parse_ip(src), *wire::parse_ip(dst)};
    return config;
  }
  void prepare(const GeneratorConfig& config, bool all_flows = false, bool stamped = false) {
    auto made = Generator::create(config, {.tsc_hz = kHz,
                                           .workers = 1,
                                           .max_size = 2048,
                                           .run_id = 0xabcdef00,
                                           .all_flows = all_flows,
                                           .stamped = stamped});
    ASSERT_TRUE(made) << made.error().what;
    generator = std::move(*made);
    settings.generator = generator.get();
  }
  void start_with_neighbours() {
    start();
    for (std::uint32_t i = 0; i < 8; ++i) {
      set_neighbour(i, ib_neighbour(kIb0, wire::to_string(wire::IpAddr::v4(addr("10.0.0.2") + i)),
                                    7 + i, 100 + i));
      set_neighbour(8 + i, ib_neighbour(kIb0, fmt::format("fd00:a::{}", 2 + i), 7 + i, 100 + i));
    }
    set_neighbour(20, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
    loop();
  }
  /// Returns the IP packets that were sent on the link.
  Frames sent_ip() {
    Frames out;
    for (const auto& sent : sent_by_link(kIb0))
      out.emplace_back(sent.bytes.begin() + 4, sent.bytes.end());
    return out;
  }
  std::uint64_t generated() { return worker().stats().generated.get(); }

  std::unique_ptr<const Generator> generator;
};

TEST_F(GenerateTest, PacketsAreWellFormedOfEachSizeInTurn) {
  GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
  config.sizes = {44, 65, 1500, 2044};
  config.udp = {1000, 2000};
  prepare(config);
  settings.mode = ForwardMode::kTxonly;
  start_with_neighbours();
  for (int i = 0; i < 19; ++i) loop();
  const Frames sent = sent_ip();
  ASSERT_EQ(sent.size(), generated());
  ASSERT_EQ(sent.size(), 20 * 32U);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const Bytes& p = sent[i];
    ASSERT_EQ(p.size(), config.sizes[i % 4]);
    ASSERT_EQ(word_at(p, 2), p.size()) << "total length";
    ASSERT_EQ(word_at(p, 4), i) << "identification";
    ASSERT_EQ(word_at(p, 24), p.size() - 20) << "UDP length";
    ASSERT_EQ(word_at(p, 20), 1000);
    ASSERT_EQ(word_at(p, 22), 2000);
    ASSERT_EQ(wire::internet_checksum(std::span{p}.first(20)), 0U);
    ASSERT_EQ(udp_fault(p), 0U);
    const auto payload = std::span{p}.subspan(28);
    ASSERT_TRUE(
        std::all_of(payload.begin(), payload.end(), [](auto b) { return b == std::byte{}; }));
  }
}

TEST_F(GenerateTest, PacketsOfIpv6AreWellFormed) {
  GeneratorConfig config = config_to("fd00:1::10", "fd00:a::2");
  config.sizes = {64, 1279, 2044};
  config.neighbours = 3;
  prepare(config);
  settings.mode = ForwardMode::kTxonly;
  start_with_neighbours();
  loop();
  const Frames sent = sent_ip();
  ASSERT_EQ(sent.size(), generated());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(sent[i].size(), config.sizes[i % 3]);
    ASSERT_EQ(word_at(sent[i], 4), sent[i].size() - 40) << "payload length";
    ASSERT_EQ(udp_fault(sent[i]), 0U);
    ASSERT_NE(word_at(sent[i], 46), 0U) << "IPv6 has no UDP without checksum";
    ASSERT_EQ(sent[i][39], static_cast<std::byte>(2 + i % 3)) << "destination counted up";
  }
}

TEST_F(GenerateTest, FlowsAndNeighboursAreSpreadExactly) {
  GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
  config.flows = 32;
  config.neighbours = 8;
  prepare(config, true);
  settings.mode = ForwardMode::kFlowgen;
  start_with_neighbours();
  for (int i = 0; i < 5; ++i) loop();
  std::map<std::pair<std::uint16_t, std::byte>, int> flows;  // by source port, last address octet
  std::map<std::byte, int> neighbours;
  const Frames sent = sent_ip();
  for (const Bytes& p : sent) {
    ++flows[{word_at(p, 20), p[19]}];
    ++neighbours[p[19]];
  }
  const int rounds = static_cast<int>(sent.size()) / 32;
  ASSERT_EQ(flows.size(), 32U);
  for (const auto& [flow, n] : flows) EXPECT_EQ(n, rounds);
  ASSERT_EQ(neighbours.size(), 8U);
  for (const auto& [last, n] : neighbours) EXPECT_EQ(n, rounds * 4);
}

TEST_F(GenerateTest, TxonlySendsOneFlowANeighbourUnlessToldOtherwise) {
  GeneratorConfig config;
  config.flows = 100;
  config.neighbours = 3;
  prepare(config);
  EXPECT_EQ(generator->flows().size(), 3U);
  config.multi_flow = true;
  prepare(config);
  EXPECT_EQ(generator->flows().size(), 100U);
  config.flows = 2;  // fewer flows than neighbours
  prepare(config);
  EXPECT_EQ(generator->flows().size(), 3U);
}

TEST_F(GenerateTest, SourcePortsWrapAroundZero) {
  GeneratorConfig config;
  config.udp.src = 65'534;
  config.flows = GeneratorConfig::kMaxFlows;
  prepare(config, true);
  std::set<std::uint16_t> ports;
  for (const FlowTemplate& flow : generator->flows())
    ports.insert(word_at({flow.header.begin(), flow.header.end()}, 20));
  EXPECT_EQ(ports.size(), GeneratorConfig::kMaxFlows);
  EXPECT_FALSE(ports.contains(0));
}

// Each packet is sent, is dropped under a reason, or waits in management for its neighbour.
TEST_F(GenerateTest, EveryGeneratedPacketLeavesByOneDoor) {
  struct Case {
    const char* what;
    const char* dst;
    std::uint16_t size;
    std::size_t room;
    bool up;
  };
  const Case cases[] = {{"sent", "10.0.0.2", 64, 1000, true},
                        {"the device takes some", "10.0.0.2", 64, 20, true},
                        {"no neighbour yet", "10.0.0.77", 64, 1000, true},
                        {"no route", "203.0.113.1", 64, 1000, true},
                        {"this node itself", "10.0.0.1", 64, 1000, true},
                        {"a broadcast address", "10.0.255.255", 64, 1000, true},
                        {"too big", "10.0.0.2", 2048, 1000, true},
                        {"link down", "10.0.0.2", 64, 1000, false}};
  settings.mode = ForwardMode::kTxonly;
  settings.forwarding = false;
  start_with_neighbours();
  std::uint64_t lost_before = 0, made_before = 0;
  for (const Case& c : cases) {
    GeneratorConfig config = config_to("192.168.1.10", c.dst);
    config.sizes = {c.size};
    prepare(config);
    links[0].room = c.room;
    entries[kIb0].up = c.up;
    settings.forwarding = true;
    loop();
    loop();
    settings.forwarding = false;
    const std::uint64_t sent = sent_by_link(kIb0).size(), up_there = punted().size();
    const std::uint64_t lost = all_drops() - lost_before, made = generated() - made_before;
    EXPECT_EQ(made, 64U) << c.what;
    EXPECT_EQ(sent + lost + up_there, made) << c.what << sent << ' ' << lost << ' ' << up_there;
    lost_before += lost;
    made_before += made;
  }
}

TEST_F(GenerateTest, WithoutMbufsNothingIsMade) {
  std::vector<rte_mbuf*> all(rte_mempool_avail_count(pool));
  settings.mode = ForwardMode::kTxonly;
  prepare(config_to("192.168.1.10", "10.0.0.2"));
  settings.forwarding = false;
  start_with_neighbours();
  all.resize(rte_mempool_avail_count(pool));
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool, all.data(), static_cast<unsigned>(all.size())), 0);
  settings.forwarding = true;
  loop();
  EXPECT_EQ(generated(), 0U);
  EXPECT_EQ(worker().stats().no_mbuf.get(), 32U);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  loop();
  EXPECT_EQ(generated(), 32U);
}

TEST_F(GenerateTest, MakesNothingWhileStopped) {
  settings.mode = ForwardMode::kTxonly;
  prepare(config_to("192.168.1.10", "10.0.0.2"));
  settings.forwarding = false;
  start_with_neighbours();
  for (int i = 0; i < 10; ++i) loop();
  EXPECT_EQ(generated(), 0U);
  EXPECT_TRUE(sent_by_link(kIb0).empty());
}

TEST_F(GenerateTest, FirstBurstsAreSentOnceInAnyMode) {
  settings.mode = ForwardMode::kIo;
  settings.burst = 10;
  prepare(config_to("192.168.1.10", "10.0.0.2"));
  settings.first_bursts = 3;
  settings.forwarding = false;
  start_with_neighbours();
  EXPECT_EQ(generated(), 0U) << "not before forwarding is on";
  settings.forwarding = true;
  for (int i = 0; i < 10; ++i) loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 30U);
  settings.first_bursts = 5;
  for (int i = 0; i < 10; ++i) loop();
  EXPECT_EQ(sent_by_link(kIb0).size(), 20U);
}

TEST_F(GenerateTest, ReceivedPacketsAreConsumedAndArpGoesUp) {
  settings.mode = ForwardMode::kFlowgen;
  prepare(config_to("192.168.1.10", "10.0.0.2"), true);
  start_with_neighbours();
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1"}.bytes()));
  feed(kIb0, encapsulated(0x0806, Bytes(56)));
  EXPECT_EQ(worker().stats().consumed.get(), 1U);
  EXPECT_EQ(only_punted().message.kind, msg::Up::Kind::kArp);
}

TEST_F(GenerateTest, GeneratorIsExchangedBetweenLoops) {
  GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
  config.flows = 1000;
  config.sizes = {64, 128, 256};
  prepare(config, true);
  settings.mode = ForwardMode::kFlowgen;
  start_with_neighbours();
  loop();
  sent_ip();
  config.sizes = {100};  // the worker's positions are beyond the ends of the new, shorter lists
  config.flows = 1;
  const auto old = std::move(generator);
  prepare(config, true);
  loop();
  const Frames sent = sent_ip();
  ASSERT_EQ(sent.size(), 32U);
  for (const Bytes& p : sent) EXPECT_EQ(p.size(), 100U);
}

TEST_F(GenerateTest, RefusesWhatCannotBeSent) {
  const auto refused = [](auto change) {
    GeneratorConfig config;
    change(config);
    const auto status = Generator::check(config);
    EXPECT_FALSE(status);
    return status ? "" : status.error().what;
  };
  const auto ip = [](std::string_view text) { return *wire::parse_ip(text); };
  EXPECT_TRUE(Generator::check({}));
  EXPECT_EQ(refused([&](auto& c) { c.ip.dst = ip("fd00::1"); }),
            "test packets from 198.18.0.1 to fd00::1: different IP versions");
  EXPECT_NE(refused([&](auto& c) { c.ip.dst = ip("239.1.1.1"); }), "");
  EXPECT_NE(refused([&](auto& c) { c.ip.dst = ip("223.255.255.255"), c.neighbours = 2; }), "");
  EXPECT_NE(refused([&](auto& c) { c.ip.dst = ip("255.255.255.255"), c.neighbours = 2; }), "");
  EXPECT_EQ(refused([](auto& c) {
              c.sizes = {64, 43};
            }),
            "invalid size 43 of test packets to 198.18.0.2, allowed: 44-9600 octets");
  EXPECT_NE(refused([&](auto& c) { c.ip = {ip("fd00::1"), ip("fd00::2")}, c.sizes = {63}; }), "");
  EXPECT_NE(refused([](auto& c) { c.sizes = {}; }), "");
  EXPECT_NE(refused([](auto& c) { c.flows = 0; }), "");
  EXPECT_NE(refused([](auto& c) { c.neighbours = 65'536; }), "");

  GeneratorConfig large;
  large.sizes = {2000};
  const auto made = Generator::create(large, {.tsc_hz = kHz, .max_size = 1999});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().what.find("at most 1999"), std::string::npos) << made.error().what;
}

TEST_F(GenerateTest, PercentOfAnUnknownLinkWaits) {
  GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
  config.rate = {50, PacketRate::Unit::kPercent};
  prepare(config);
  EXPECT_TRUE(generator->waiting());
  settings.mode = ForwardMode::kTxonly;
  start_with_neighbours();
  loop();
  EXPECT_EQ(generated(), 0U);
}

/// The parts of a worker without its loop; the test supplies the time.
class PacedTest : public GenerateTest {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    links[0].room = ~std::size_t{0};
    start();
    auto cache = table::NeighbourTable::create(64, 1);
    auto deliveries = table::DeliveryTable::create(64, 1);
    ASSERT_TRUE(cache && deliveries);
    context = std::make_unique<Context>(configs[0], std::move(*cache), std::move(*deliveries));
    context->neighbours->set(0, ib_neighbour(kIb0, "10.0.0.2", 7, 100));
  }
  struct Sent {
    double packets = 0, octets = 0;
  };
  /// Returns the packets sent within `seconds`, in loops of up to `longest` cycles.
  Sent run_for(double seconds, std::uint64_t longest) {
    std::mt19937_64 random{42};
    GeneratorState run{0};
    Sent sent;
    std::uint64_t tsc = 123'456'789;
    const auto end = tsc + static_cast<std::uint64_t>(seconds * kHz);
    while (tsc < end) {
      tsc += 1 + random() % longest;
      run.paced(*context, *generator, tsc, 64);
      context->tx.flush();
      for (const Bytes& p : sent_ip()) {
        sent.packets += 1;
        sent.octets += static_cast<double>(p.size());
      }
    }
    return sent;
  }
  std::unique_ptr<Context> context;
};

TEST_F(PacedTest, HoldsTheRateWithinOnePercent) {
  struct Case {
    PacketRate rate;
    double seconds;
    std::uint64_t longest;  ///< Most cycles of one loop.
  };
  using enum PacketRate::Unit;
  for (const Case& c : {Case{{1'000'000, kPps}, 0.2, 40'000}, Case{{333, kPps}, 20, 4'000'000},
                        Case{{12'345'678, kPps}, 0.02, 8'000}, Case{{1, kPps}, 1000, 20'000'000},
                        Case{{2.5, kGbps}, 0.1, 50'000}, Case{{0.01, kGbps}, 2, 5'000'000}}) {
    GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
    config.sizes = imix_sizes();
    config.rate = c.rate;
    prepare(config);
    const Sent sent = run_for(c.seconds, c.longest);
    const double got =
        c.rate.unit == kPps ? sent.packets / c.seconds : sent.octets * 8 / 1e9 / c.seconds;
    EXPECT_NEAR(got / c.rate.value, 1, 0.01) << c.rate.value;
  }
}

TEST_F(PacedTest, WorkersShareTheRateAndPercentIsOfTheLink) {
  GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
  config.rate = {25, PacketRate::Unit::kPercent};
  auto made = Generator::create(
      config, {.tsc_hz = kHz, .workers = 4, .max_size = 2048, .link_bps = 10'000'000'000});
  ASSERT_TRUE(made);
  generator = std::move(*made);
  const Sent sent = run_for(0.1, 40'000);
  EXPECT_NEAR(sent.octets * 8 / 0.1 / (2.5e9 / 4), 1, 0.01);
}

TEST_F(PacedTest, ALateLoopMakesGoodTenMillisecondsAtMost) {
  GeneratorConfig config = config_to("192.168.1.10", "10.0.0.2");
  config.rate = {6'000, PacketRate::Unit::kPps};
  prepare(config);
  GeneratorState run{0};
  std::uint64_t tsc = kHz;
  EXPECT_EQ(run.paced(*context, *generator, tsc, 64), 0U) << "nothing is saved before the start";
  tsc += 10 * kHz;
  std::uint32_t n = 0;
  while (const std::uint32_t more = run.paced(*context, *generator, tsc, 64)) n += more;
  EXPECT_NEAR(n, 61, 1);
  context->tx.flush();
  sent_ip();
}

}  // namespace
}  // namespace ipoib::fwd::test
