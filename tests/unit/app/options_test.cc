// SPDX-License-Identifier: BSD-3-Clause
#include "app/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ipoib::app {
namespace {

TEST(Options, P01_NoneGiven) {
  const auto o = parse_options({});
  ASSERT_TRUE(o);
  EXPECT_FALSE(o->interactive || o->auto_start || o->check || o->help || o->help_config ||
               o->help_cli || o->help_options || o->help_telemetry || o->version);
  EXPECT_TRUE(o->starts_forwarding());  // A service forwards packets.
  EXPECT_EQ(o->stats_period_s, 0U);
  EXPECT_FALSE(o->mgmt_lcore);
  EXPECT_TRUE(o->overrides.empty());
}

TEST(Options, P01_AllGiven) {
  const auto o =
      parse_options({"-i", "-a", "--cmdline-file=cmds", "--stats-period", "5", "--config", "n.toml",
                     "--mgmt-lcore=3", "--cli-socket", "/run/s", "--cli-read-socket", "/run/r",
                     "--prometheus=127.0.0.1:9400", "--check"});
  ASSERT_TRUE(o) << o.error().what;
  EXPECT_TRUE(o->interactive && o->auto_start && o->check);
  EXPECT_EQ(o->cmdline_file, "cmds");
  EXPECT_EQ(o->stats_period_s, 5U);
  EXPECT_EQ(o->config_file, "n.toml");
  EXPECT_EQ(o->mgmt_lcore, 3U);
  EXPECT_EQ(o->cli_socket, "/run/s");
  EXPECT_EQ(o->cli_read_socket, "/run/r");
  EXPECT_EQ(o->prometheus, "127.0.0.1:9400");
}

TEST(Options, InteractiveWaitsForStart) {
  EXPECT_FALSE(parse_options({"-i"})->starts_forwarding());
  EXPECT_TRUE(parse_options({"-ia"})->starts_forwarding());
}

// Names of testpmd are shorthands for options of the file. Later options of the command line
// override earlier ones.
TEST(Options, ShorthandsAndSetAreOverridesInOrder) {
  const auto o =
      parse_options({"--burst=64", "--set", "hca.a.lid=3", "--nb-cores", "2",
                     "--set=link.b.address=[\"10.0.0.1/24\"]", "--forward-mode=io", "--rxd=1",
                     "--txd=2", "--total-num-mbufs=3", "--mbuf-size=4", "--idle-policy=sleep"});
  ASSERT_TRUE(o) << o.error().what;
  std::vector<std::string> got;
  for (const auto& x : o->overrides) got.push_back(x.argument + " | " + x.path + " | " + x.value);
  const std::vector<std::string> want = {
      "--burst=64 | worker.burst | 64",
      "--set hca.a.lid=3 | hca.a.lid | 3",
      "--nb-cores=2 | worker.count | 2",
      "--set link.b.address=[\"10.0.0.1/24\"] | link.b.address | [\"10.0.0.1/24\"]",
      "--forward-mode=io | worker.forward-mode | io",
      "--rxd=1 | worker.rxd | 1",
      "--txd=2 | worker.txd | 2",
      "--total-num-mbufs=3 | worker.total-num-mbufs | 3",
      "--mbuf-size=4 | worker.mbuf-size | 4",
      "--idle-policy=sleep | worker.idle-policy | sleep"};
  EXPECT_EQ(got, want);
}

// Every shorthand names an existing option.
TEST(Options, P01_ShorthandsReachTheConfiguration) {
  const auto o = parse_options({"--burst=8", "--nb-cores=2", "--forward-mode=io", "--rxd=64",
                                "--txd=128", "--total-num-mbufs=999", "--mbuf-size=1000",
                                "--idle-policy=sleep", "--set", "port.a.device=net_null0",
                                "--tx-ip=fd00::1,fd00::2", "--tx-udp=7", "--txpkts=64,1500",
                                "--flowgen-flows=99", "--txonly-multi-flow", "--tx-first"});
  ASSERT_TRUE(o);
  const auto r = load_config("", o->overrides);
  ASSERT_TRUE(r && r->ok()) << r->diagnostics[0].to_string();
  EXPECT_EQ(r->config.worker.burst, 8U);
  EXPECT_EQ(r->config.worker.count, 2U);
  EXPECT_EQ(r->config.mode, mgmt::ForwardMode::kIo);
  EXPECT_EQ(r->config.rxd, 64U);
  EXPECT_EQ(r->config.txd, 128U);
  EXPECT_EQ(r->config.total_num_mbufs, 999U);
  EXPECT_EQ(r->config.mbuf_size, 1000U);
  EXPECT_EQ(r->config.worker.idle, mgmt::IdlePolicy::kSleep);
  const auto& g = r->config.generator;
  EXPECT_EQ(wire::to_string(g.ip.dst), "fd00::2");
  EXPECT_EQ(g.udp, (fwd::GeneratorConfig::Ports{7, 7}));
  EXPECT_EQ(g.sizes, (std::vector<std::uint16_t>{64, 1500}));
  EXPECT_EQ(g.flows, 99U);
  EXPECT_TRUE(g.multi_flow);
  EXPECT_EQ(r->config.tx_first, 1U);
}

TEST(Options, TestPacketsThatCannotBeAreRefused) {
  const auto o = parse_options({"--txpkts=44", "--tx-ip=fd00::1,fd00::2"});
  ASSERT_TRUE(o);
  const auto r = load_config("", o->overrides);
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->ok());
  EXPECT_NE(r->diagnostics[1].to_string().find("invalid size 44 of test packets"),
            std::string::npos)
      << r->diagnostics[1].to_string();
}

TEST(Options, ErrorsSayWhatWasRead) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--nix"}, "--nix"},
      {{"stray"}, "stray"},
      {{"--burst"}, "--burst"},
      {{"--mgmt-lcore", "x"}, "x"},
      {{"--mgmt-lcore", "1024"}, "1023"},
      {{"--mgmt-lcore=1", "--mgmt-lcore=2"}, "--mgmt-lcore"},
      {{"--stats-period=-1"}, "86400"},
      {{"--prometheus", "localhost:9400"}, "\"localhost:9400\", allowed: ADDRESS:PORT"},
      {{"--set", "nothing"}, "\"nothing\", allowed: section.key=value"},
      {{"--config"}, "--config"},
      {{"--num-procs=2"}, "--num-procs"},
  };
  for (const auto& [args, part] : cases) {
    const auto o = parse_options(args);
    ASSERT_FALSE(o) << args[0];
    EXPECT_EQ(o.error().code, Errc::kInvalidArgument);
    EXPECT_NE(o.error().what.find(part), std::string::npos) << o.error().what;
    EXPECT_EQ(o.error().what.find('\n'), std::string::npos) << o.error().what;
  }
}

TEST(Options, HelpListsEveryArgument) {
  const std::string help = options_help();
  for (const char* name : {"--interactive",
                           "--auto-start",
                           "--cmdline-file FILE",
                           "--stats-period N",
                           "--forward-mode MODE",
                           "--burst N",
                           "--nb-cores N",
                           "--rxd N",
                           "--txd N",
                           "--total-num-mbufs N",
                           "--mbuf-size N",
                           "--config FILE",
                           "--mgmt-lcore N",
                           "--cli-socket PATH",
                           "--cli-read-socket PATH",
                           "--prometheus ADDRESS:PORT",
                           "--idle-policy POLICY",
                           "--set SECTION.KEY=VALUE",
                           "--check",
                           "--help-config",
                           "--help",
                           "--version"})
    EXPECT_NE(help.find(name), std::string::npos) << name;
  EXPECT_NE(help.find("integer 1-64"), std::string::npos);
}

}  // namespace
}  // namespace ipoib::app
