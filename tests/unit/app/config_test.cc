// SPDX-License-Identifier: BSD-3-Clause
#include "app/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "tests/unit/app/config_text.h"

namespace ipoib::app {
namespace {

const std::string kFullConfig = kGoodConfig + R"(
[hca.soft9]
driver = "soft"
wire = "net_af_packet0"
guid = "0x1"
lid = 0xbffe
lmc = 1
sm-lid = 7
mad = "wire"
pkeys = 0x7fff
mtu = 4096
icrc = "off"
first-qpn = 0x100

[port.eth9]
device = "net_tap9"
mtu = 9000
tcp-offload = true
source-check = "strict"

[link.a-link_1]
hca = "soft9"
pkey = 0x7fff
dialect = "rfc4391"
mode = "datagram"
scope = 14
qpn = 0x48
create-broadcast = false
address = ["10.2.0.1/16", "10.3.0.1/32"]
shared-address = "10.2.0.100"
shared-vrid = 255
shared-interval = 0.25
shared-members = "0x1"
source-check = "loose"
directed-broadcast = "all-subnets"
multicast-router = false
mirror = false
last-member-interval = 1
query-interval = 60
query-response-interval = 2.5
query-robustness = 3
igmp-version = 2
mld-version = 1
max-groups = 512

[[route]]
to = "0.0.0.0/0"
via = ["10.0.0.2", "192.168.1.7"]

[[route]]
to = "172.16.0.0/12"
blackhole = true

[[filter]]
interface = "eth0"
direction = "out"
action = "accept"
source = "10.0.0.0/8"
destination = "192.168.1.7"
protocol = "tcp"
source-ports = "1024-65535"
destination-ports = 22

[[filter]]
direction = "in"
action = "drop"
protocol = 47

[[neighbour]]
link = "ib0"
address = "10.0.0.9"
lladdr = "00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:09"
lid = 9
sl = 3

[[neighbour]]
link = "eth0"
address = "192.168.1.9"
lladdr = "02:00:00:00:00:01"

[subnet]
mtu = 1024
qkey = 0xffffffff
rate = 2.5
sl = 15
sm-key = 0x123456789abcdef

[[multicast-route]]
groups = "239.1.0.0/16"
source = "10.9.0.9"
in = "eth0"
out = ["ib0", "a-link_1"]

[worker]
count = 3
burst = 64
idle-policy = "sleep"
assign = { soft0 = 0, soft9 = 2, eth0 = 1 }
forward-mode = "io"
pass-ip-options = ["rr", 30, "152"]
drop-ip-options = "rtralt"
pass-ip6-extensions = [253, "ipv6-route-3", "mobility-header"]
drop-ip6-extensions = ["ipv6-route", 0]
rxd = 1024
txd = 256
total-num-mbufs = 4096
mbuf-size = 2176

[neighbour-cache]
retransmit = 0.25
max-requests = 5
max-probes = 0
reachable = 3600
probe-delay = 2
negative = 1.5
idle = 60
max-held-per-neighbour = 4
max-held = 100
max-held-age = 1
max-entries = 9

[route-table]
max-prefixes = 1000000
max-prefixes6 = 64
max-networks = 8192

[linux]
mirror = true
namespace = "ipoib"
routes = false
table = 4294967295
multicast-routes = true
echo-reply = "linux"
drain-time = 12.5
drain-hold = 90
)";

// The output for a port with a subnet manager contains only attributes that the manager does not
// set, and reads back the same.
TEST(Config, ManagedPortIsPrintedAsRead) {
  const std::string text =
      "[hca.a]\nwire = \"w\"\nmad = \"umad:mlx5_0\"\n\n[hca.b]\nwire = \"x\"\nmad = \"umad:m:2\"\n";
  const auto result = parse_config(text, "t.toml", {});
  ASSERT_TRUE(result.ok()) << lines_of(result)[0];
  EXPECT_EQ(result.config.hcas.at(0).mad.device, "mlx5_0");
  EXPECT_EQ(result.config.hcas[0].mad.port, 0U);
  EXPECT_EQ(result.config.hcas.at(1).mad.port, 2U);
  const std::string printed = print_config(result.config);
  EXPECT_NE(printed.find("mad = \"umad:m:2\"\n"), std::string::npos);
  EXPECT_EQ(printed.find("\nguid"), std::string::npos);
  EXPECT_EQ(printed.find("\nlid"), std::string::npos);
  const auto again = parse_config(printed, "t.toml", {});
  EXPECT_TRUE(again.ok()) << lines_of(again)[0];
  EXPECT_EQ(print_config(again.config), printed);
}

// Options of a software HCA are not printed for a real one.
TEST(Config, PortOfVerbsIsPrintedAsRead) {
  const std::string text =
      "[hca.a]\ndriver = \"verbs\"\ndevice = \"mlx5_0\"\nmtu = 4096\n\n"
      "[hca.b]\ndriver = \"verbs\"\ndevice = \"rxe0\"\nport = 2\nsubnet-administrator = true\n"
      "connections-per-port = 1000\n";
  const auto result = parse_config(text, "t.toml", {});
  ASSERT_TRUE(result.ok()) << lines_of(result)[0];
  const auto& hcas = result.config.hcas;
  EXPECT_EQ(hcas.at(0).driver, mgmt::HcaDriver::kVerbs);
  EXPECT_EQ(hcas[0].device, "mlx5_0");
  EXPECT_EQ(hcas[0].port, 1U);
  EXPECT_EQ(hcas[0].mtu, 4096U);
  EXPECT_FALSE(hcas[0].subnet_administrator);
  EXPECT_EQ(hcas.at(1).port, 2U);
  EXPECT_FALSE(hcas[1].mtu);
  EXPECT_EQ(hcas[1].max_mtu(), 4096U) << "the port's own";
  EXPECT_TRUE(hcas[1].subnet_administrator);
  EXPECT_EQ(hcas[1].connections_per_port, 1000U);
  const std::string_view first =
      "[hca.a]\ndriver = \"verbs\"\ndevice = \"mlx5_0\"\nport = 1\nmtu = 4096\n"
      "subnet-administrator = false\nconnections-per-port = 256\n\n[hca.b]\n";
  EXPECT_EQ(print_config(result.config).substr(0, first.size()), first);
  const auto again = parse_config(print_config(result.config), "t.toml", {});
  EXPECT_TRUE(again.ok()) << lines_of(again)[0];
  EXPECT_EQ(print_config(again.config), print_config(result.config));
}

TEST(Config, ReadsEveryOption) {
  const auto result = parse_config(kFullConfig, "t.toml", {});
  EXPECT_EQ(lines_of(result), std::vector<std::string>{});
  const auto& c = result.config;
  ASSERT_EQ(c.hcas.size(), 2U);
  EXPECT_EQ(c.hcas[0].name, "soft0");
  EXPECT_EQ(c.hcas[0].sm_lid, 1);
  const auto& hca = c.hcas[1];
  EXPECT_EQ(hca.wire, "net_af_packet0");
  EXPECT_EQ(hca.guid, 1U);
  EXPECT_EQ(hca.lid, 0xbffe);
  EXPECT_EQ(hca.lmc, 1U);
  EXPECT_EQ(hca.sm_lid, 7);
  EXPECT_EQ(hca.pkeys, std::vector<std::uint16_t>{0x7fff});
  EXPECT_EQ(hca.mtu, 4096U);
  EXPECT_FALSE(hca.icrc);
  EXPECT_EQ(hca.first_qpn, 0x100U);
  const auto& link = c.links.at(1);
  EXPECT_EQ(link.name, "a-link_1");
  EXPECT_EQ(link.qpn, 0x48U);
  EXPECT_EQ(link.pkey, 0x7fff);
  EXPECT_EQ(link.scope, 14);
  EXPECT_EQ(link.addresses, (std::vector{wire::IpPrefix{wire::IpAddr::v4(0x0a02'0001), 16},
                                         wire::IpPrefix{wire::IpAddr::v4(0x0a03'0001), 32}}));
  EXPECT_EQ(link.shared.addresses, std::vector{wire::IpAddr::v4(0x0a02'0064)});
  EXPECT_EQ(link.shared.vrid, 255);
  EXPECT_EQ(link.shared.interval, std::chrono::milliseconds(250));
  EXPECT_EQ(link.shared.members, std::vector<std::uint64_t>{1});
  EXPECT_EQ(c.ports.at(1).mtu, 9000);
  EXPECT_TRUE(c.ports.at(1).tcp_offload);
  EXPECT_EQ(c.ports[1].ip.source_check, fwd::SourceCheck::kStrict);
  EXPECT_EQ(c.ports.at(0).ip.source_check, fwd::SourceCheck::kOff);
  EXPECT_EQ(link.ip.mirror, false);
  EXPECT_FALSE(c.ports.at(1).ip.mirror.has_value());
  EXPECT_TRUE(c.linux_plane.mirror);
  EXPECT_TRUE(c.linux_plane.multicast_routes);
  EXPECT_EQ(c.linux_plane.network_namespace, "ipoib");
  EXPECT_FALSE(c.linux_plane.routes);
  EXPECT_EQ(c.linux_plane.table, 0xffff'ffffU);
  EXPECT_TRUE(c.linux_plane.echo);
  EXPECT_EQ(c.linux_plane.drain_time, std::chrono::milliseconds(12'500));
  EXPECT_EQ(c.linux_plane.drain_hold, std::chrono::seconds(90));
  EXPECT_EQ(link.ip.query_interval, std::chrono::seconds(60));
  EXPECT_EQ(link.ip.query_response_interval, std::chrono::milliseconds(2500));
  EXPECT_EQ(link.ip.query_robustness, 3U);
  EXPECT_EQ(link.ip.igmp_version, 2U);
  EXPECT_EQ(link.ip.mld_version, 1U);
  EXPECT_EQ(link.ip.max_groups, 512U);
  EXPECT_EQ(link.ip.source_check, fwd::SourceCheck::kLoose);
  EXPECT_EQ(link.ip.directed_broadcast, fwd::DirectedBroadcast::kAllSubnets);
  EXPECT_EQ(c.ports.at(0).ip.directed_broadcast, fwd::DirectedBroadcast::kOff);
  EXPECT_EQ(c.routes.at(0).to, (wire::IpPrefix{wire::IpAddr::v4(0), 0}));
  EXPECT_EQ(c.routes[0].via,
            (std::vector{wire::IpAddr::v4(0x0a00'0002), wire::IpAddr::v4(0xc0a8'0107)}));
  EXPECT_TRUE(c.routes.at(1).blackhole);
  ASSERT_EQ(c.multicast_routes.size(), 1U);
  EXPECT_EQ(wire::to_string(c.multicast_routes[0].groups), "239.1.0.0/16");
  EXPECT_EQ(wire::to_string(c.multicast_routes[0].source), "10.9.0.9");
  EXPECT_EQ(c.multicast_routes[0].out, (std::vector<std::string>{"ib0", "a-link_1"}));
  EXPECT_EQ(c.neighbours.at(0).lid, 9);
  EXPECT_EQ(c.neighbours[0].sl, 3);
  EXPECT_EQ(c.neighbours.at(1).iface, "eth0");
  EXPECT_EQ(c.subnet.rate, 2U);
  EXPECT_EQ(c.subnet.qkey, 0xffff'ffffU);
  EXPECT_EQ(c.subnet.sm_key, 0x123'4567'89ab'cdefU);
  EXPECT_EQ(c.worker.count, 3U);
  EXPECT_EQ(c.worker.idle, mgmt::IdlePolicy::kSleep);
  EXPECT_EQ(c.worker.assign.at("soft9"), std::vector{2U});
  EXPECT_EQ(c.mode, mgmt::ForwardMode::kIo);
  EXPECT_EQ(c.mbuf_size, 2176U);
  EXPECT_EQ(c.neighbour.retransmit, std::chrono::milliseconds(250));
  EXPECT_EQ(c.neighbour.max_entries, 9U);
  const fwd::HeaderChanges& headers = c.worker.headers;
  EXPECT_EQ(headers.pass_options, (std::vector<std::uint8_t>{7, 30, 152}));
  EXPECT_EQ(headers.drop_options, std::vector<std::uint8_t>{148});
  EXPECT_EQ(headers.pass_extensions,
            (std::vector<fwd::Ip6Extension>{{253}, {43, std::uint8_t{3}}, {135}}));
  EXPECT_EQ(headers.drop_extensions, (std::vector<fwd::Ip6Extension>{{43}, {0}}));
  EXPECT_NE(print_config(c).find("pass-ip-options = [\"rr\", \"30\", \"ump\"]\n"
                                 "drop-ip-options = [\"rtralt\"]\n"
                                 "pass-ip6-extensions = [\"253\", \"ipv6-route-3\", "
                                 "\"mobility-header\"]\n"
                                 "drop-ip6-extensions = [\"ipv6-route\", \"hopopt\"]\n"),
            std::string::npos)
      << print_config(c);
}

// --check prints the effective configuration. A node started from that output runs the same.
TEST(Config, PrintReadsBackAsItself) {
  for (const auto& text : {kGoodConfig, kFullConfig}) {
    const auto first = parse_config(text, "t.toml", {});
    ASSERT_TRUE(first.ok());
    const auto printed = print_config(first.config);
    const auto second = parse_config(printed, "printed.toml", {});
    EXPECT_EQ(lines_of(second), std::vector<std::string>{}) << printed;
    EXPECT_EQ(print_config(second.config), printed);
  }
}

TEST(Config, EntriesKeepTheOrderOfTheFile) {
  const auto result = parse_config(
      "[port.z]\ndevice = \"net_a\"\n[port.a]\ndevice = \"net_b\"\n[port.m]\ndevice = \"net_c\"\n",
      "t.toml", {{"--set port.b.device=net_d", "port.b.device", "net_d"}});
  ASSERT_TRUE(result.ok());
  std::vector<std::string> names;
  for (const auto& p : result.config.ports) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"z", "a", "m", "b"}));
}

TEST(Config, SyntaxErrorsHavePositions) {
  for (const auto& [text, where] : std::vector<std::pair<std::string, std::string>>{
           {"[hca.soft0\nlid = 1\n", "t.toml:1:11: syntax: "},
           {"[subnet]\nmtu = \n", "t.toml:2:7: syntax: "},
           {"[subnet]\nmtu = 2048\nmtu = 1024\n", "t.toml:3:7: syntax: "},
           {"[subnet]\n[subnet]\n", "t.toml:2:1: syntax: "},
           {"a = \"\xff\"\n", "t.toml:1:5: syntax: "}}) {
    const auto lines = faults(text);
    ASSERT_EQ(lines.size(), 1U) << text;
    EXPECT_TRUE(lines[0].starts_with(where)) << lines[0];
  }
}

TEST(Config, OverridesWinOverTheFileInOrder) {
  const auto result = parse_config(kGoodConfig, "t.toml",
                                   {{"--set a", "hca.soft0.lid", "3"},
                                    {"--set b", "worker.burst", "16"},
                                    {"--burst=8", "worker.burst", "8"},
                                    {"--set c", "worker.idle-policy", "pause"},
                                    {"--set d", "link.ib0.address", "[\"10.9.0.1/24\"]"},
                                    {"--set e", "neighbour-cache.idle", "1.5"},
                                    {"--set f", "worker.assign.eth0", "0"}});
  EXPECT_EQ(lines_of(result), std::vector<std::string>{});
  EXPECT_EQ(result.config.hcas.at(0).lid, 3);
  EXPECT_EQ(result.config.hcas.at(0).sm_lid, 3);  // The LID of its own administrator.
  EXPECT_EQ(result.config.hcas.at(0).wire, "net_memif0");
  EXPECT_EQ(result.config.worker.burst, 8U);
  EXPECT_EQ(result.config.worker.idle, mgmt::IdlePolicy::kPause);
  EXPECT_EQ(wire::to_string(result.config.links.at(0).addresses.at(0)), "10.9.0.1/24");
  EXPECT_EQ(result.config.neighbour.idle, std::chrono::milliseconds(1500));
  EXPECT_EQ(result.config.worker.assign.at("eth0"), std::vector{0U});
}

TEST(Config, OverrideErrorsNameTheArgument) {
  const auto lines =
      faults(kGoodConfig, {{"--set hca.soft0.lid=0", "hca.soft0.lid", "0"},
                           {"--burst=many", "worker.burst", "many"},
                           {"--set nix=1", "nix", "1"},
                           {"--set a b=1", "a b", "1"},
                           {"--set worker.frob=1", "worker.frob", "1"},
                           {"--set hca=1", "hca", "1"},
                           {"--set worker.rxd=64\ntxd=1", "worker.rxd", "64\ntxd=1"}});
  ASSERT_GE(lines.size(), 6U);
  const auto has = [&](const std::string& start) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const auto& l) { return l.starts_with(start); });
  };
  EXPECT_TRUE(has("--burst=many: worker.burst: invalid value \"many\", allowed: integer 1-64"));
  EXPECT_TRUE(has("--set nix=1: unknown section \"nix\", allowed: [hca.NAME], "));
  EXPECT_TRUE(has("--set a b=1: invalid key \"a b\", allowed: section.key=value"));
  EXPECT_TRUE(has("--set worker.frob=1: worker: unknown key \"frob\", allowed: count, "));
  EXPECT_TRUE(has("--set hca=1: hca: invalid value 1, allowed: [hca.NAME] tables"));
  EXPECT_TRUE(
      has("--set worker.rxd=64\\u000atxd=1: worker.rxd: invalid value \"64\\u000atxd=1\", "));
}

TEST(Config, WholeNodeByArguments) {
  const auto result = load_config(
      "", {{"--set 1", "port.a.device", "net_pcap0"}, {"--set 2", "port.b.device", "net_null0"}});
  ASSERT_TRUE(result && result->ok());
  EXPECT_EQ(result->config.ports.at(1).device, "net_null0");
}

TEST(Config, FileThatCannotBeRead) {
  for (const std::string file : {"/nonexistent/x.toml", "/"}) {
    const auto result = load_config(file, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().what, "cannot read configuration file " + file);
  }
}

TEST(Config, FileIsRead) {
  const std::string file = testing::TempDir() + "config_test.toml";
  std::ofstream{file} << kGoodConfig << "# " << std::string(10'000, 'x') << "\nend = 1\n";
  const auto result = load_config(file, {});
  std::remove(file.c_str());
  ASSERT_TRUE(result);
  ASSERT_EQ(result->diagnostics.size(), 1U);
  EXPECT_EQ(
      result->diagnostics[0].to_string(),
      file +
          ":17:1: port.eth0: unknown key \"end\", allowed: device, address, mtu, "
          "tcp-offload, multicast-router, mirror, proxy, last-member-interval, query-interval, "
          "query-response-interval, query-robustness, igmp-version, mld-version, "
          "multicast-forwarder, max-groups, groups, source-check, "
          "directed-broadcast, ask-rarp, rarp-prefix-length, ipv6, router-advertisement, "
          "accept-ra");
}

// The example files have no fault and are consistent with each other.
TEST(Config, ExamplesAreGood) {
  const std::string folder = IPOIB_EXAMPLES;
  const auto a = load_config(folder + "/lab-node-a.toml", {});
  const auto b = load_config(folder + "/lab-node-b.toml", {});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(lines_of(*a), std::vector<std::string>{});
  EXPECT_EQ(lines_of(*b), std::vector<std::string>{});
  EXPECT_TRUE(a->config.hcas.at(0).subnet_administrator);
  EXPECT_EQ(b->config.hcas.at(0).sm_lid, a->config.hcas.at(0).lid);
  EXPECT_NE(b->config.hcas.at(0).guid, a->config.hcas.at(0).guid);
  EXPECT_EQ(b->config.routes.at(0).via.at(0), a->config.links.at(0).addresses.at(0).addr);
  EXPECT_EQ(a->config.routes.at(0).via.at(0), b->config.links.at(0).addresses.at(0).addr);
}

TEST(Config, ControlCharactersStayOnOneLine) {
  const auto lines = faults(kGoodConfig + "[port.\"x\\ny\"]\ndevice = \"a\\tb\"\n");
  ASSERT_EQ(lines.size(), 2U);
  for (const auto& line : lines) EXPECT_EQ(line.find_first_of("\n\t"), std::string::npos) << line;
}

}  // namespace
}  // namespace ipoib::app
