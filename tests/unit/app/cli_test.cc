// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "app/export/json.h"
#include "lib/base/log_level.h"
#include "tests/support/fake_node.h"
#include "tests/support/logged.h"

namespace ipoib::app {
namespace {

struct CliTest : testing::Test {
  CliTest() { fill(node.rows); }
  Json json(const std::string& line) { return Json::parse(cli.execute(line)); }
  std::string text(const std::string& line) { return cli.execute(line); }

  FakeNode node;
  Cli cli{node.faces};
};

/// A valid value of each parameter.
const std::map<std::string, std::string, std::less<>> kValues = {{"LINK", "ib0"},
                                                                 {"PORT", "eth0"},
                                                                 {"HCA", "soft0"},
                                                                 {"IFACE", "ib0"},
                                                                 {"WHERE", "soft0"},
                                                                 {"WORKER", "0"},
                                                                 {"ADDR", "10.0.0.9"},
                                                                 {"OWN", "10.0.0.9/24"},
                                                                 {"ADDRS", "10.0.0.2,10.0.0.3"},
                                                                 {"PREFIX", "10.9.0.0/16"},
                                                                 {"SRC", "10.9.0.0/16"},
                                                                 {"DST", "10.9.0.1"},
                                                                 {"PROTO", "udp"},
                                                                 {"RECORDS", "10"},
                                                                 {"LLADDR", "02:00:00:00:00:01"},
                                                                 {"LID", "9"},
                                                                 {"PORTLID", "9"},
                                                                 {"QUEUES", "2"},
                                                                 {"SMLID", "0"},
                                                                 {"PKEYS", "0xffff,0x8001"},
                                                                 {"PREFIX64", "0xfe80000000000000"},

                                                                 {"GROUP", "239.1.1.1"},
                                                                 {"GROUPS", "239.1.0.0/16"},
                                                                 {"SOURCE", "10.0.0.9"},
                                                                 {"IFACES", "eth0,ib0"},
                                                                 {"SL", "3"},
                                                                 {"VERBOSITY", "0"},
                                                                 {"AREA", "link"},
                                                                 {"LEVEL", "notice"},
                                                                 {"MODE", "rxonly"},
                                                                 {"BURSTS", "3"},
                                                                 {"PACKETS", "16"},
                                                                 {"CORES", "1"},
                                                                 {"COUNT", "7"},
                                                                 {"L4PORT", "53"},
                                                                 {"RULE", "2"},
                                                                 {"SPORTS", "1024-65535"},
                                                                 {"DPORTS", "53"},
                                                                 {"RATE", "10"},
                                                                 {"SIZES", "64,128"},
                                                                 {"ADDRPAIR", "10.0.0.1,10.0.0.2"},
                                                                 {"UDPPORTS", "9,10"},
                                                                 {"MTU", "1500"},
                                                                 {"CONNECTION", "7"},
                                                                 {"FILE", "x.pcap"},
                                                                 {"MEGABYTES", "100"},
                                                                 {"FRAMES", "7"},
                                                                 {"TOPIC", "show"}};

/// Two lines that use the command: one without the parts in brackets, and one with all of them.
std::vector<std::string> lines_of(std::string_view syntax) {
  std::string shortest, longest, token;
  int depth = 0;
  const auto flush = [&] {
    if (token.empty()) return;
    const auto value = kValues.find(token.substr(0, token.find('|')));
    const auto word = value != kValues.end() ? value->second : token.substr(0, token.find('|'));
    longest += word + ' ';
    if (depth == 0) shortest += word + ' ';
    token.clear();
  };
  for (const char c : syntax) {
    if (c == ' ' || c == '[' || c == ']') flush();
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c != ' ' && c != '[' && c != ']') token += c;
  }
  flush();
  return {shortest, longest};
}

// Lines of each command's syntax reach that command and no other. Each command has its help.
TEST_F(CliTest, EveryCommandIsReached) {
  std::vector<std::string_view> syntaxes;
  for (const auto& c : commands()) syntaxes.push_back(c.syntax);
  const Grammar grammar{syntaxes, parameters()};
  for (std::size_t i = 0; i < commands().size(); ++i) {
    EXPECT_FALSE(commands()[i].help.empty());
    for (const auto& line : lines_of(commands()[i].syntax)) {
      const auto [match, mismatch] = grammar.match(*split_words(line));
      ASSERT_TRUE(match) << line << mismatch->to_string();
      EXPECT_EQ(match->command, i) << line;
      node.trace.shown.state = mgmt::TraceInfo::State::kRunning;  // trace stop needs one
      const auto answer = text(line);
      EXPECT_FALSE(answer.starts_with("error")) << line << answer;
      EXPECT_TRUE(answer.empty() || answer.back() == '\n') << line;
    }
  }
}

TEST_F(CliTest, EveryShowHasJson) {
  for (const auto& c : commands()) {
    if (!c.syntax.starts_with("show ")) continue;
    EXPECT_TRUE(c.syntax.ends_with(" [json]")) << c.syntax;
    const auto answer = text(lines_of(c.syntax)[0] + "json");
    EXPECT_TRUE(Json::accept(answer)) << c.syntax << answer;
    EXPECT_EQ(answer.find('\n'), answer.size() - 1) << c.syntax;
  }
}

TEST_F(CliTest, ShowsRowsOrOneObject) {
  EXPECT_EQ(json("show link json").at(0).at("state"), "up");
  EXPECT_EQ(json("show link ib0 json").at("qpn"), 0x4a7);
  EXPECT_EQ(json("show worker 0 json").at("lcore"), 1);
  EXPECT_EQ(json("show route json").size(), 4U);
  EXPECT_EQ(json("show route ib0 json").size(), 3U);
  EXPECT_EQ(json("show drops soft0 json").at(0).at("packets"), 12);
  EXPECT_EQ(json("show neigh eth0 json").size(), 0U);
  EXPECT_EQ(json("show sa json").at(0).at("groups").at(0).at("members").size(), 1U);
  EXPECT_EQ(json("show config json").at("hca").at("soft0").at("lid"), 1);
  EXPECT_EQ(text("show neigh eth0"), "none\n");
  EXPECT_EQ(text("show route"),
            "TO              KIND       ACTION     METRIC  STATE     IFACE  VIA                 "
            "WEIGHTS  DEAD\n"
            "10.0.0.0/24     connected  forward         0  active    ib0\n"
            "172.16.0.0/12   static     blackhole       0  active\n"
            "192.168.2.0/24  static     forward         0  active    ib0    10.0.0.2, 10.0.0.3  "
            "         10.0.0.3\n"
            "192.168.2.0/24  kernel     forward        20  inactive  ib0    10.0.0.4, fe80::5   "
            "3, 1\n");
  EXPECT_EQ(text("show group"),
            "GROUP      IFACE  STATE   JOINS  SENDING    MLID  WORKER  LINK-LAYER ADDRESS       "
            "REASON\n"
            "239.1.1.1  ib0    member      1  no       0xc003       2  ff12:401b:ffff::f01:101\n");
  EXPECT_EQ(json("show group eth0 json").size(), 0U);
  EXPECT_EQ(text("show querier ib0"),
            "IFACE  FAMILY  QUERIER   ROLE   FORWARDER  AGE MS\n"
            "ib0    ipv4    10.0.0.1  other  other        3000\n"
            "ib0    ipv6              none   listening       0\n");
  EXPECT_EQ(text("show querier eth0"), "none\n");
  EXPECT_EQ(json("show mroute eth0 json").at(0).at("out"), Json{"ib0"});
  EXPECT_EQ(json("show mroute eth0 json").at(0).at("left_to_other"), Json{"ib1"});
  EXPECT_EQ(json("show mroute ib0 json").size(), 0U);
  EXPECT_EQ(text("show drops"),
            "REASON       WHERE  PACKETS\n"
            "ip_no_route  ib0          5\n"
            "ib_pkey      soft0       12\n");
  EXPECT_NE(text("show config").find("wire = \"net_memif0\"\n"), std::string::npos);
}

TEST_F(CliTest, P23_FilterRulesAreShownInOrder) {
  EXPECT_EQ(text("show filter"),
            "RULE  STATE    IFACE  DIRECTION  ACTION  SOURCE       DESTINATION  PROTOCOL  SOURCE "
            "PORTS  DESTINATION PORTS  PACKETS\n"
            "   1  active   eth0   in         drop    10.9.0.0/16               tcp              "
            "       20-22                   14\n"
            "   2  pending  all    out        accept                                             "
            "                                0\n");
  EXPECT_EQ(json("show filter json").at(0).at("destination_ports"), "20-22");
  node.rows.filters.clear();
  EXPECT_EQ(text("show filter"), "none\n");
}

TEST_F(CliTest, NamesThatAreNotThere) {
  EXPECT_EQ(text("show link ib7"), "error: no link ib7; available: ib0\n");
  EXPECT_EQ(text("show port ib0 json"), "error: no port ib0; available: eth0\n");
  EXPECT_EQ(text("show worker 3"), "error: no worker 3; available: 0\n");
  EXPECT_EQ(text("show neigh x"), "error: no x; available: ib0, eth0\n");
  EXPECT_EQ(text("show drops x"), "error: no x; available: ib0, eth0, soft0\n");
  node.rows.links.clear();
  EXPECT_EQ(text("show link ib0"), "error: no link ib0; available: none\n");
}

TEST_F(CliTest, WrongCommandsSayWhatWasExpected) {
  EXPECT_EQ(
      text("show lnik"),
      "error: at word 2 \"lnik\": expected one of link, port, fwd, latency, neigh, route, "
      "group, querier, connection, mroute, filter, drops, trace, capture, worker, management, "
      "hca, mirror, proxy, shared, sa, config, "
      "log\n");
  EXPECT_EQ(text("route add 1.2.3.4/99 via 10.0.0.2"),
            "error: at word 3 \"1.2.3.4/99\": expected PREFIX (IP prefix without host bits)\n");
  EXPECT_EQ(text("route add 10.9.0.0/16"),
            "error: at word 4, end of line: expected one of via, blackhole\n");
  EXPECT_EQ(text("link sideways ib0"), "error: at word 2 \"sideways\": expected one of up, down\n");
  EXPECT_EQ(text("neigh add ib0 10.0.0.9 lladdr 02:00"),
            "error: at word 6 \"02:00\": expected LLADDR (20 or 6 octets in hexadecimal, separated "
            "by colons)\n");
  EXPECT_EQ(
      text("set verbose 3"),
      "error: at word 3 \"3\": expected VERBOSITY (0: notices, 1: information, 2: everything)\n");
  EXPECT_EQ(text("set hca soft0 lid 0"), "error: at word 5 \"0\": expected PORTLID (1-49151)\n");
  EXPECT_EQ(text("set hca soft0 pkeys 0xffff,0x8000"),
            "error: at word 5 \"0xffff,0x8000\": expected PKEYS (P_Keys, 0x and hexadecimal "
            "digits, separated by commas)\n");
  EXPECT_EQ(text("set hca soft0 gid-prefix 12"),
            "error: at word 5 \"12\": expected PREFIX64 (GID prefix, 0x and up to 16 hexadecimal "
            "digits)\n");
  EXPECT_EQ(text("set hca soft0 colour red"),
            "error: at word 4 \"colour\": expected one of lid, sm-lid, pkeys, gid-prefix, state, "
            "reregister\n");
  EXPECT_EQ(text("quit now"), "error: at word 2 \"now\": expected end of line\n");
  EXPECT_TRUE(node.requests.lines.empty());
  EXPECT_FALSE(node.loop.stop_requested());
}

TEST_F(CliTest, Changes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"clear stats", "clear"},
      {"link up ib0", "ib0 up"},
      {"link down eth0", "eth0 down"},
      {"set node drain", "node drain"},
      {"set node undrain", "node undrain"},
      {"set hca soft0 lid 9", "hca soft0 lid 9"},
      {"set hca soft0 sm-lid 0", "hca soft0 sm-lid 0"},
      {"set hca soft0 pkeys 0xffff,0x1", "hca soft0 pkey 0xffff pkey 0x0001"},
      {"set hca soft0 gid-prefix 0xfec0000000000001", "hca soft0 gid-prefix 0xfec0000000000001"},
      {"set hca soft0 state up", "hca soft0 up"},
      {"set hca soft0 state down", "hca soft0 down"},
      {"set hca soft0 reregister", "hca soft0 reregister"},
      {"address add ib0 10.0.0.9/24", "address add ib0 10.0.0.9/24"},
      {"address add eth0 fe80::9/64", "address add eth0 fe80::9/64"},
      {"address add ib0 10.0.0.9", ""},
      {"address add ib0 10.0.0.0/24", ""},
      {"address add ib0 239.0.0.1/24", ""},
      {"address del ib0 10.0.0.9/24", "address del ib0 10.0.0.9/24"},
      {"address del ib0", ""},
      {"neigh add ib0 10.0.0.9 lladdr 02:00:00:00:00:01",
       "neigh add ib0 10.0.0.9 "
       "02:00:00:00:00:01 0 0"},
      {"neigh add ib0 10.0.0.9 lladdr 02:00:00:00:00:01 lid 9 sl 3",
       "neigh add ib0 10.0.0.9 "
       "02:00:00:00:00:01 9 3"},
      {"neigh del ib0 10.0.0.9", "neigh del ib0 10.0.0.9"},
      {"neigh flush all", "neigh flush []"},
      {"neigh flush ib0", "neigh flush [ib0]"},
      {"route add 10.9.0.0/16 via 10.0.0.2", "route add 10.9.0.0/16 10.0.0.2"},
      {"route add 10.9.0.0/16 via 10.0.0.2,10.0.0.3", "route add 10.9.0.0/16 10.0.0.2 10.0.0.3"},
      {"route add 0.0.0.0/0 blackhole", "route add 0.0.0.0/0 blackhole"},
      {"route del 10.9.0.0/16", "route del 10.9.0.0/16"},
      {"route add fd09::/64 via fd00::2", "route add fd09::/64 fd00::2"},
      {"route add ::/0 via fe80::1 dev ib0", "route add ::/0 fe80::1 dev ib0"},
      {"route add ::/0 via fe80::1%ib0", ""},
      {"group join ib0 239.1.1.1", "join ib0 239.1.1.1"},
      {"group leave eth0 ff15::9", "leave eth0 ff15::9"},
      {"group join ib0 10.0.0.1", ""},
      {"mroute add 239.1.1.1 in ib0 out eth0", "mroute add 239.1.1.1/32 from :: ib0 -> eth0"},
      {"mroute add 239.1.0.0/16 from 10.0.0.9 in eth0 out ib0,ib1",
       "mroute add 239.1.0.0/16 from 10.0.0.9 eth0 -> ib0 ib1"},
      {"mroute del ff15::9 in ib0", "mroute del ff15::9/128 from :: ib0"},
      {"mroute add 10.0.0.0/8 in ib0 out eth0", ""},
      {"set source-check eth0 strict", "eth0 source-check 2"},
      {"set source-check ib0 off", "ib0 source-check 0"},
      {"set directed-broadcast ib0 subnet", "ib0 directed-broadcast 1"},
      {"set directed-broadcast ib0 all-subnets", "ib0 directed-broadcast 2"},
      {"set directed-broadcast eth0 off", "eth0 directed-broadcast 0"},
      {"set directed-broadcast eth0 on", ""},
      {"filter add in drop", "filter add [] in drop * * * * * at 0"},
      {"filter add out accept at 3 iface ib0 src 10.0.0.0/8 dst 10.9.0.1 proto tcp sport "
       "1024-65535 "
       "dport 22",
       "filter add [ib0] out accept 10.0.0.0/8 10.9.0.1/32 6 1024-65535 22-22 at 3"},
      {"filter add in drop src fd00::/64 proto 47",
       "filter add [] in drop fd00::/64 * 47 * * at 0"},
      {"filter add in drop dport 70000", ""},
      {"filter add in drop dport 9-8", ""},
      {"filter add in drop src 10.0.0.1/8", ""},
      {"filter add in drop at 0", ""},
      {"filter add both drop", ""},
      {"filter del 7", "filter del 7"},
      {"filter del 0", ""},
      {"capture start /tmp/x y", ""},
      {"capture start dir/x.pcap", "capture dir/x.pcap limit 1000000000 frames 0 new"},
      {"capture start x.pcap limit 2", "capture x.pcap limit 2000000 frames 0 new"},
      {"capture start x.pcap limit 2 frames 9 replace",
       "capture x.pcap limit 2000000 frames 9 replace"},
      {"capture start x.pcap frames 4294967295",
       "capture x.pcap limit 1000000000 frames 4294967295 new"},
      {"capture start x.pcap frames 0", ""},
      {"capture start x.pcap limit 0", ""},
      {"capture start \"a dir/x.pcap\"", "capture a dir/x.pcap limit 1000000000 frames 0 new"}};
  for (const auto& [line, request] : cases) {
    node.requests.lines.clear();
    const auto answer = text(line);
    if (request.empty()) {
      EXPECT_TRUE(answer.starts_with("error: ")) << line;
      continue;
    }
    EXPECT_EQ(answer, "") << line;
    EXPECT_EQ(node.requests.lines, std::vector{request});
    node.requests.refuse = true;
    EXPECT_EQ(text(line), request == "clear" ? "" : "error: refused by the test\n") << line;
    node.requests.refuse = false;
  }
}

TEST_F(CliTest, StartStopModeCaptureQuit) {
  EXPECT_EQ(text("start"), "forwarding is on\n");
  EXPECT_EQ(text("start"), "forwarding was on\n");
  EXPECT_TRUE(node.rows.forward.forwarding);
  EXPECT_EQ(text("stop"), "forwarding is off\n");
  EXPECT_FALSE(node.rows.forward.forwarding);
  for (const auto name : fwd::kForwardModeNames) {
    EXPECT_EQ(text(fmt::format("set fwd {}", name)), "");
    EXPECT_EQ(fwd::mode_name(node.rows.forward.mode), name);
  }
  node.rows.capture.frames = 42;
  EXPECT_EQ(text("capture stop"), "42 frames are written so far; the file is being completed\n");
  node.requests.refuse = true;
  EXPECT_EQ(text("capture stop"), "error: refused by the test\n");
  EXPECT_EQ(text("quit"), "");
  EXPECT_TRUE(node.loop.stop_requested());
}

TEST_F(CliTest, StartSendsFirstBursts) {
  EXPECT_EQ(text("start tx_first"), "forwarding is on\n");
  EXPECT_EQ(text("start tx_first 5"), "forwarding was on\n");
  EXPECT_EQ(node.requests.lines, (std::vector<std::string>{"first 1", "first 5"}));
}

TEST_F(CliTest, TestPacketsAreDescribedOneByOne) {
  for (const char* line :
       {"set tx-ip 10.0.0.1,10.0.0.2", "set tx-udp 1000,2000", "set txpkts 64,1500", "set flows 77",
        "set neighbours 3", "set rate 2.5 gbps", "set burst 16", "set fwd flowgen"})
    EXPECT_EQ(text(line), "") << line;
  const auto& g = node.rows.config.generator;
  EXPECT_EQ(wire::to_string(g.ip.dst), "10.0.0.2");
  EXPECT_EQ(g.udp, (fwd::GeneratorConfig::Ports{1000, 2000}));
  EXPECT_EQ(g.sizes, (std::vector<std::uint16_t>{64, 1500}));
  EXPECT_EQ(g.flows, 77U);
  EXPECT_EQ(g.neighbours, 3U);
  EXPECT_EQ(g.rate, (fwd::PacketRate{2.5, fwd::PacketRate::Unit::kGbps}));
  EXPECT_EQ(node.rows.config.worker.burst, 16U);

  const Json shown = Json::parse(text("show fwd json"));
  EXPECT_EQ(shown.at("mode"), "flowgen");
  EXPECT_EQ(shown.at("generator").at("tx-ip"), "10.0.0.1,10.0.0.2");
  EXPECT_EQ(shown.at("generator").at("rate"), "2.5 gbps");
  EXPECT_EQ(Json::parse(text("show config fwd json")).at("forward-mode"), "flowgen");
  EXPECT_EQ(Json::parse(text("show config rxtx json")).at("rxd"), 512);
}

TEST_F(CliTest, TestPacketsThatCannotBeAreRefused) {
  EXPECT_EQ(text("set rate 101 percent"),
            "error: invalid rate 101 percent; allowed: 0, 1-10000000000 pps, 0.001-10000 gbps, "
            "0.01-100 percent\n");
  EXPECT_EQ(text("set neighbours 65535"), "");
  EXPECT_TRUE(text("set tx-ip 10.0.0.1,223.255.255.255").starts_with("error: test packets"));
  EXPECT_EQ(wire::to_string(node.rows.config.generator.ip.dst), "198.18.0.2") << "as it was";
  for (const char* line : {"set txpkts 43", "set txpkts 64,", "set flows 0", "set flows 65536",
                           "set burst 65", "set burst 0", "set tx-ip 10.0.0.1", "set rate -1 pps",
                           "set fwd nonsense", "start tx_first 0"})
    EXPECT_TRUE(text(line).starts_with("error: at word ")) << line;
}

TEST_F(CliTest, NumberOfWorkersStays) {
  EXPECT_EQ(text("set nbcore 1"), "");
  EXPECT_TRUE(text("set nbcore 2")
                  .starts_with("error: the number of worker lcores is 1 until the program ends"));
}

TEST_F(CliTest, StatisticsHaveTestpmdsNames) {
  auto& eth0 = node.rows.stats[0];
  eth0.traffic.rx_packets = 100;
  eth0.traffic.tx_packets = 60;
  eth0.traffic.drops[static_cast<std::size_t>(Drop::kIpNoRoute)] = 7;
  eth0.traffic.drops[static_cast<std::size_t>(Drop::kEthTxFull)] = 5;
  eth0.rx_missed = 3;
  eth0.tx_pps = 11;
  node.rows.stats[1].traffic.rx_packets = 50;
  node.rows.totals.icmp_errors = {7, 3};
  const Json all = Json::parse(text("show fwd stats all json"));
  EXPECT_EQ(all.at("ports")[0].at("RX-packets"), 93);
  EXPECT_EQ(all.at("ports")[0].at("RX-dropped"), 7);
  EXPECT_EQ(all.at("ports")[0].at("RX-total"), 100);
  EXPECT_EQ(all.at("ports")[0].at("TX-dropped"), 5);
  EXPECT_EQ(all.at("ports")[0].at("TX-total"), 65);
  EXPECT_EQ(all.at("all").at("RX-total"), 150);
  EXPECT_EQ(all.at("icmp_errors"), (Json{{"sent", 7}, {"suppressed", 3}}));
  const auto fwd = text("show fwd stats all");
  for (const char* part : {"sent: 7", "suppressed: 3", "GRO SEGMENTS", "GSO PACKETS"})
    EXPECT_NE(fwd.find(part), std::string::npos) << part << fwd;
  const auto port = text("show port stats eth0");
  for (const char* part :
       {"NIC statistics for eth0", "RX-packets: 100", "RX-missed: 3", "TX-errors: 5", "Tx-pps: 11"})
    EXPECT_NE(port.find(part), std::string::npos) << part << port;
  EXPECT_EQ(port.find("ib0"), std::string::npos);
  EXPECT_EQ(text("show port stats eth7"), "error: no eth7; available: eth0, ib0\n");
}

TEST_F(CliTest, BusyLcoresAndTheirBursts) {
  node.rows.workers.resize(1);
  auto& w = node.rows.workers[0];
  w.rx_packets = 300;
  w.generated = 100;
  w.busy_cycles = 40'000;
  w.cycles = 160'000;
  w.bursts = {9, 1, 2, 3, 4, 5, 6, 7};
  const Json lcore = Json::parse(text("show fwd stats json")).at("lcores")[0];
  EXPECT_EQ(lcore.at("cycles_per_packet"), 100.0);
  EXPECT_EQ(lcore.at("busy_percent"), 25.0);
  EXPECT_EQ(lcore.at("bursts").at("0"), 9);
  EXPECT_EQ(lcore.at("bursts").at("64"), 7);
  EXPECT_EQ(Json::parse(text("show config cores json")).at("lcores")[0], lcore);
}

TEST_F(CliTest, ReportsAreClearedOneByOne) {
  for (const char* line : {"clear port stats all", "clear fwd stats all", "clear latency"})
    EXPECT_EQ(text(line), "") << line;
  EXPECT_EQ(node.requests.lines,
            (std::vector<std::string>{"clear port []", "clear fwd", "clear latency"}));
}

TEST_F(CliTest, BlankLinesAndComments) {
  for (const char* line : {"", "  \t", "# show link", "\r\n", "#"}) EXPECT_EQ(text(line), "");
  EXPECT_EQ(text("show drops # all of them"), text("show drops"));
}

TEST_F(CliTest, Help) {
  const auto all = text("help");
  for (const auto& c : commands()) {
    EXPECT_NE(all.find(c.syntax), std::string::npos) << c.syntax;
    EXPECT_NE(all.find(c.help), std::string::npos) << c.syntax;
  }
  for (const auto& p : parameters()) EXPECT_NE(all.find(p.what), std::string::npos) << p.name;
  EXPECT_EQ(text("help all"), all);
  EXPECT_EQ(text("help quit"), "quit  leave every multicast group and exit\n");
  EXPECT_NE(
      text("help clear").find("clear stats" + std::string(20, ' ') + "reset all statistics\n"),
      std::string::npos);
  EXPECT_TRUE(text("help \xff\x01").find('\x01') == std::string::npos);
  EXPECT_EQ(text("help bogus"),
            "error: no command starts with \"bogus\"; enter help for a list of commands\n");
}

TEST_F(CliTest, P16_ShowsTheCapture) {
  EXPECT_TRUE(text("show capture").find("none") != std::string::npos) << text("show capture");
  node.rows.capture = {.state = mgmt::CaptureState::kFailed,
                       .file = "/x.pcap",
                       .frames = 5,
                       .octets = 600,
                       .lost = 7,
                       .max_octets = 1000,
                       .max_frames = 0,
                       .reason = "no room"};
  EXPECT_EQ(Json::parse(text("show capture json")), Json::parse(R"({"state": "failed",
      "file": "/x.pcap", "frames": 5, "octets": 600, "lost": 7, "max_octets": 1000,
      "max_frames": 0, "reason": "no room"})"));
}

TEST_F(CliTest, CompletesWithNamesOfTheNode) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(cli.complete({"show", "link"}), (Words{"ib0", "json"}));
  EXPECT_EQ(cli.complete({"show", "drops"}), (Words{"ib0", "eth0", "soft0", "json"}));
  EXPECT_EQ(cli.complete({"neigh", "flush"}), (Words{"all", "ib0", "eth0"}));
  EXPECT_EQ(cli.complete({"show", "worker"}), (Words{"0", "json"}));
  EXPECT_EQ(cli.complete({"set", "hca"}), Words{"soft0"});
  EXPECT_EQ(cli.complete({"set", "hca", "soft0"}),
            (Words{"lid", "sm-lid", "pkeys", "gid-prefix", "state", "reregister"}));
  EXPECT_EQ(cli.complete({"set", "hca", "soft0", "state"}), (Words{"up", "down"}));
  EXPECT_EQ(cli.complete({"capture"}), (Words{"start", "stop"}));
  EXPECT_EQ(cli.complete({"route", "del"}), Words{});
  EXPECT_EQ(cli.hints({"route", "del"}), Words{"PREFIX (IP prefix without host bits)"});
  EXPECT_EQ(cli.hints({"start"}), Words{"end of line"});
}

TEST_F(CliTest, CommandFile) {
  const std::string file = testing::TempDir() + "cli_test.cmds";
  std::ofstream{file} << "# first\nstart\n\nbogus\nroute del 10.9.0.0/16\nshow drops soft0 json";
  std::string printed;
  const auto print = [&](std::string_view t) { printed += t; };
  set_log_level(LogArea::kApp, LogLevel::kNotice);
  const std::string log = logged([&] { EXPECT_TRUE(run_command_file(cli, file, print)); });
  std::remove(file.c_str());
  EXPECT_NE(log.find(fmt::format("command from {}:2: \"start\"", file)), std::string::npos) << log;
  EXPECT_NE(log.find(fmt::format("command from {}:5: \"route del 10.9.0.0/16\"", file)),
            std::string::npos);
  EXPECT_EQ(log.find("show drops"), std::string::npos) << "it changes nothing";
  EXPECT_TRUE(printed.starts_with(
      fmt::format("forwarding is on\n{}:4: error: at word 1 \"bogus\": expected one of ", file)))
      << printed;
  EXPECT_TRUE(printed.ends_with("\"packets\":12}]\n")) << printed;
  EXPECT_EQ(node.requests.lines, std::vector<std::string>{"route del 10.9.0.0/16"});
  for (const char* bad : {"/nonexistent", "/"}) {
    const auto status = run_command_file(cli, bad, print);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().what, fmt::format("cannot read command file {}", bad));
    EXPECT_EQ(status.error().code, Errc::kInvalidArgument) << "a wrong option";
  }
}

TEST_F(CliTest, ConnectionsAreShownAndClosed) {
  const Json rows = Json::parse(text("show connection ib0 json"));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("neighbours"), Json::array({"10.0.0.2"}));
  EXPECT_EQ(rows[0].at("mtu"), 65'520);
  EXPECT_TRUE(text("show connection ib7").starts_with("error"));
  EXPECT_EQ(text("connection close ib0 2147483655"), "");
  EXPECT_EQ(text("connection close ib0 all"), "");
  EXPECT_EQ(node.requests.lines,
            (std::vector<std::string>{"close ib0 2147483655", "close ib0 2147483655"}));
  EXPECT_TRUE(text("connection close ib7 all").starts_with("error: no ib7"));
  EXPECT_TRUE(text("connection close ib0 4294967296").starts_with("error"));
}

}  // namespace
}  // namespace ipoib::app
