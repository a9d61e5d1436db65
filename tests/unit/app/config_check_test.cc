// SPDX-License-Identifier: BSD-3-Clause
// Faults of the configuration, each with its error line.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/app/config_text.h"

namespace ipoib::app {
namespace {

using Lines = std::vector<std::string>;

struct Case {
  const char* name;
  std::string text;  ///< Follows kGoodConfig, from line 16 on.
  std::vector<std::string> lines;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class ConfigFault : public testing::TestWithParam<Case> {};

TEST_P(ConfigFault, IsOneLine) {
  EXPECT_EQ(faults(kGoodConfig + GetParam().text), GetParam().lines);
}

/// `n` routes, three lines each.
std::string routes(int n) {
  std::string text;
  for (int i = 0; i < n; ++i)
    text += "[[route]]\nto = \"20.0." + std::to_string(i) + ".0/24\"\nblackhole = true\n";
  return text;
}

/// "0, 1, ..." up to `n` - 1.
std::string numbers(int n) {
  std::string text = "0";
  for (int i = 1; i < n; ++i) text += ", " + std::to_string(i);
  return text;
}

const std::string kHca1 =
    "[hca.soft1]\nwire = \"net_memif1\"\nguid = \"0x2\"\nlid = 2\n";              // Lines 16-19
const std::string kVerbs = "[hca.b]\ndriver = \"verbs\"\ndevice = \"mlx5_0\"\n";  // Lines 16-18
const std::string kOfVerbs = "because driver is \"verbs\"";
const std::string kMad = "string \"wire\" | \"umad:DEVICE\" | \"umad:DEVICE:PORT\"";
const std::string kManaged = "because the subnet manager behind mad assigns it";
const std::string kOptions =
    "string rr, zsu, mtup, mtur, encode, qs, ts, tr, sec, e-sec, cipso, sid, visa, imitd, eip, "
    "addext, rtralt, sdb, dps, ump, or 2-255, except source routes (131, 137), which never pass";
const std::string kExtensions =
    "string hopopt, ipv6-route, ipv6-frag, esp, ah, ipv6-opts, mobility-header, hip, shim6, "
    "ipv6-route-1 to ipv6-route-255 (type 0, source routes, never passes), 253, 254, or the number "
    "of such a header";
const std::string kHostAddress = "string IP address of a host and prefix length, \"10.0.0.1/24\"";

const std::vector<Case> kCases = {
    {"none", "", {}},
    {"unknown_section",
     "[switch]\na = 1\n",
     {"t.toml:16:2: unknown section \"switch\", allowed: [hca.NAME], [link.NAME], [port.NAME], "
      "[[route]], [[multicast-route]], [[filter]], [[neighbour]], [[rarp]], [subnet], [worker], "
      "[generator], "
      "[neighbour-cache], [route-table], [linux]"}},
    {"mirrors_with_long_names",
     "[port.sixteen-octets-p]\ndevice = \"d1\"\n"
     "[port.fifteen-octets-]\ndevice = \"d2\"\n"
     "[port.sixteen-octets-q]\ndevice = \"d3\"\nmirror = false\n"
     "[linux]\nmirror = true\ntable = 0\n",
     {"t.toml:16:1: port.sixteen-octets-p: invalid name \"sixteen-octets-p\", allowed with mirror: "
      "1-15 characters",
      "t.toml:25:9: linux.table: invalid value 0, allowed: integer 1-4294967295"}},
    {"two_multicast_routers",
     "[port.p1]\ndevice = \"d1\"\nmulticast-router = true\n"
     "[port.p2]\ndevice = \"d2\"\nmulticast-router = true\nmirror = false\n"
     "[linux]\nmirror = true\nmulticast-routes = true\n",
     {"t.toml:18:20: port.p1.multicast-router: value true is not allowed on a mirrored interface "
      "with linux.multicast-routes"}},
    {"route_table_limits",
     "[route-table]\nmax-prefixes = 63\nmax-prefixes6 = 2097153\nmax-networks = 131073\n",
     {"t.toml:17:16: route-table.max-prefixes: invalid value 63, allowed: integer 64-2097152",
      "t.toml:18:17: route-table.max-prefixes6: invalid value 2097153, allowed: integer 64-2097152",
      "t.toml:19:16: route-table.max-networks: invalid value 131073, allowed: integer 64-131072"}},
    {"routes_beyond_the_table",
     "[route-table]\nmax-prefixes = 64\nmax-prefixes6 = 64\n" + routes(57),
     {"t.toml:188:6: route.to: no room for this prefix, allowed: 56 IPv4 routes, because "
      "route-table.max-prefixes is 64 and the addresses of the node need 8"}},
    {"routes_beyond_the_table_with_broadcasts_to_all_subnets",
     "[port.eth1]\ndevice = \"net_tap1\"\naddress = [\"10.1.0.1/24\"]\n"
     "directed-broadcast = \"all-subnets\"\n"
     "[route-table]\nmax-prefixes = 64\nmax-prefixes6 = 64\n" +
         routes(52),
     {"t.toml:177:6: route.to: no room for this prefix, allowed: 51 IPv4 routes, because "
      "route-table.max-prefixes is 64 and the addresses of the node need 13"}},
    // 10.255.255.255 is a host's address then, and not that of all subnets of 10.0.0.0/8.
    {"routes_beyond_the_table_of_a_net_with_a_host",
     "[port.eth1]\ndevice = \"net_tap1\"\naddress = [\"10.1.0.1/24\", \"10.255.255.254/31\"]\n"
     "directed-broadcast = \"all-subnets\"\n"
     "[route-table]\nmax-prefixes = 64\nmax-prefixes6 = 64\n" +
         routes(52),
     {"t.toml:174:6: route.to: no room for this prefix, allowed: 50 IPv4 routes, because "
      "route-table.max-prefixes is 64 and the addresses of the node need 14"}},
    {"directed_broadcast_of_before",
     "[port.eth1]\ndevice = \"net_tap1\"\ndirected-broadcast = true\n",
     {"t.toml:18:22: port.eth1.directed-broadcast: invalid value true, allowed: string \"off\" | "
      "\"subnet\" | \"all-subnets\""}},
    {"lid_within_a_subnet",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\nscope = 2\ninterface-id = \"lid\"\n",
     {}},
    {"U17_lid_beyond_a_subnet",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\nscope = 5\ninterface-id = \"lid\"\n",
     {"t.toml:20:16: link.ib1.interface-id: invalid value \"lid\", because LIDs are unique within "
      "one InfiniBand subnet only: allowed with scope 2"}},
    {"answers_after_the_next_query",
     "[port.eth1]\ndevice = \"net_tap1\"\nquery-interval = 5\nquery-response-interval = 5\n",
     {"t.toml:19:27: port.eth1.query-response-interval: invalid value 5, allowed: less than "
      "query-interval, which is 5"}},
    {"P18_shared_addresses_outside_the_network",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\naddress = \"10.1.0.2/24\"\n"
     "shared-address = [\"10.1.0.255\", \"10.2.0.1\", \"10.1.0.2\", \"10.1.0.3\"]\n"
     "shared-interval = 0.155\n",
     {"t.toml:20:19: link.ib1.shared-address: invalid value \"10.1.0.255\", allowed: addresses of "
      "hosts within a prefix of address",
      "t.toml:20:33: link.ib1.shared-address: invalid value \"10.2.0.1\", allowed: addresses of "
      "hosts within a prefix of address",
      "t.toml:20:45: link.ib1.shared-address: duplicate address \"10.1.0.2/32\", first used by "
      "link.ib1.address (line 19)",
      "t.toml:21:19: link.ib1.shared-interval: invalid value 0.155, allowed: multiples of 0.01"}},
    {"P18_shared_members_without_the_node",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\naddress = \"10.1.0.2/24\"\n"
     "shared-address = \"10.1.0.3\"\nshared-members = [\"0x2\"]\n",
     {"t.toml:21:19: link.ib1.shared-members: 0x0002c903000a0b01 is missing, the guid of "
      "hca.soft0"}},
    {"P18_shared_address_of_a_proxy_group",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\naddress = \"10.1.0.2/24\"\n"
     "shared-address = \"10.1.0.3\"\nproxy = \"lan\"\n"
     "[port.eth1]\ndevice = \"net_tap1\"\naddress = \"10.1.0.4/24\"\nproxy = \"lan\"\n",
     {"t.toml:20:18: link.ib1.shared-address: allowed: links without proxy, because hosts on the "
      "other side would not learn of another node"}},
    {"P18_shared_options_without_an_address",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\nshared-vrid = 5\n",
     {"t.toml:19:15: link.ib1.shared-vrid: value 5 is not allowed, because there is no "
      "shared-address"}},
    {"routes_of_a_full_table", "[route-table]\nmax-prefixes = 64\n" + routes(55), {}},
    {"unknown_key",
     "[port.eth1]\ndevice = \"net_tap1\"\n  speed = 10\n",
     {"t.toml:18:3: port.eth1: unknown key \"speed\", allowed: device, address, mtu, tcp-offload, "
      "multicast-router, mirror, proxy, last-member-interval, query-interval, "
      "query-response-interval, "
      "query-robustness, igmp-version, mld-version, multicast-forwarder, max-groups, groups, "
      "source-check, directed-broadcast, ask-rarp, rarp-prefix-length, "
      "ipv6, "
      "router-advertisement, accept-ra"}},
    {"missing_key",
     "[port.eth1]\nmtu = 1500\n",
     {"t.toml:16:1: port.eth1: missing key device, allowed: string 1-63 printable characters"}},
    {"several_at_once",
     "[port.eth1]\nmtu = 1\nmut = 2\n",
     {"t.toml:16:1: port.eth1: missing key device, allowed: string 1-63 printable characters",
      "t.toml:17:7: port.eth1.mtu: invalid value 1, allowed: integer 68-9600",
      "t.toml:18:1: port.eth1: unknown key \"mut\", allowed: device, address, mtu, tcp-offload, "
      "multicast-router, mirror, proxy, last-member-interval, query-interval, "
      "query-response-interval, "
      "query-robustness, igmp-version, mld-version, multicast-forwarder, max-groups, groups, "
      "source-check, directed-broadcast, ask-rarp, rarp-prefix-length, "
      "ipv6, "
      "router-advertisement, accept-ra"}},
    {"section_shape",
     "[[worker]]\nburst = 1\n",
     {"t.toml:16:1: worker: invalid value a list of 1, allowed: a table [worker]"}},
    {"list_shape",
     "[route]\nto = \"10.1.0.0/16\"\n",
     {"t.toml:16:1: route: invalid value a table, allowed: [[route]] tables"}},

    // Names.
    {"name",
     "[port.\"a b\"]\ndevice = \"d\"\n",
     {"t.toml:16:1: port.a b: invalid name \"a b\", allowed: 1-31 letters, digits, _ and -, except "
      "all, info, json, stats, summary, xstats"}},
    {"reserved_name",
     "[port.json]\ndevice = \"d\"\n",
     {"t.toml:16:1: port.json: invalid name \"json\", allowed: 1-31 letters, digits, _ and -, "
      "except all, info, json, stats, summary, xstats"}},
    {"name_twice",
     "[port.ib0]\ndevice = \"d\"\n",
     {"t.toml:16:1: port.ib0: duplicate name \"ib0\", first used by link.ib0 (line 8)"}},

    // HCAs.
    {"driver_unknown",
     kHca1 + "driver = \"hard\"\n",
     {"t.toml:20:10: hca.soft1.driver: invalid value \"hard\", allowed: string \"soft\" | "
      "\"verbs\""}},
    // The needs of an unknown driver are not known.
    {"driver_unknown_device",
     "[hca.b]\ndriver = \"hard\"\ndevice = \"mlx5_0\"\n",
     {"t.toml:17:10: hca.b.driver: invalid value \"hard\", allowed: string \"soft\" | \"verbs\""}},
    {"verbs", kVerbs, {}},
    {"verbs_all",
     kVerbs + "port = 2\nmtu = 4096\nsubnet-administrator = true\n[link.ib1]\nhca = \"b\"\n"
              "pkey = 0x8003\n",
     {}},
    {"verbs_no_device",
     "[hca.b]\ndriver = \"verbs\"\nport = 2\n",
     {"t.toml:16:1: hca.b: missing key device, allowed: string 1-19 printable characters"}},
    {"verbs_device",
     "[hca.b]\ndriver = \"verbs\"\ndevice = \"a234567890b234567890\"\n",
     {"t.toml:18:10: hca.b.device: invalid value \"a234567890b234567890\", allowed: string 1-19 "
      "printable characters"}},
    {"verbs_port",
     kVerbs + "port = 0\n",
     {"t.toml:19:8: hca.b.port: invalid value 0, allowed: integer 1-254"}},
    {"verbs_and_what_is_of_soft",
     kVerbs + "wire = \"w\"\nmad = \"wire\"\nguid = \"0x2\"\nlid = 1\nsm-lid = 7\npkeys = 1\n"
              "icrc = true\nfirst-qpn = 9\n",
     {"t.toml:19:8: hca.b.wire: value \"w\" is not allowed, " + kOfVerbs,
      "t.toml:20:7: hca.b.mad: value \"wire\" is not allowed, " + kOfVerbs,
      "t.toml:21:8: hca.b.guid: value \"0x2\" is not allowed, " + kOfVerbs,
      "t.toml:22:7: hca.b.lid: value 1 is not allowed, " + kOfVerbs,
      "t.toml:23:10: hca.b.sm-lid: value 7 is not allowed, " + kOfVerbs,
      "t.toml:24:9: hca.b.pkeys: value 1 is not allowed, " + kOfVerbs,
      "t.toml:25:8: hca.b.icrc: value true is not allowed, " + kOfVerbs,
      "t.toml:26:13: hca.b.first-qpn: value 9 is not allowed, " + kOfVerbs}},
    {"soft_and_what_is_of_verbs",
     kHca1 + "device = \"mlx5_0\"\nport = 1\n",
     {"t.toml:20:10: hca.soft1.device: value \"mlx5_0\" is not allowed, because driver is \"soft\"",
      "t.toml:21:8: hca.soft1.port: value 1 is not allowed, because driver is \"soft\""}},
    {"verbs_twice",
     kVerbs + "[hca.c]\ndriver = \"verbs\"\ndevice = \"mlx5_0\"\nport = 1\n"
              "[hca.d]\ndriver = \"verbs\"\ndevice = \"mlx5_0\"\nport = 2\n",
     {"t.toml:21:10: hca.c.device: duplicate device and port \"mlx5_0:1\", first used by "
      "hca.b.device (line 18)"}},
    {"verbs_and_umad_of_the_same_port",
     kVerbs + "[hca.c]\nwire = \"w\"\nmad = \"umad:mlx5_0:1\"\n"
              "[hca.d]\nwire = \"x\"\nmad = \"umad:mlx5_0:2\"\n",
     {"t.toml:21:7: hca.c.mad: duplicate mad \"umad:mlx5_0:1\", first used by hca.b.device (line "
      "18)"}},
    {"verbs_mtu",
     kVerbs + "mtu = 1024\nsubnet-administrator = true\n[subnet]\nmtu = 2048\n",
     {"t.toml:22:7: subnet.mtu: invalid value 2048, allowed: at most 1024, the mtu of hca.b"}},
    {"verbs_mtu_of_the_port",
     kVerbs + "[link.ib1]\nhca = \"b\"\ncreate-broadcast = true\nmtu = 4096\n",
     {}},
    {"mad_no_device",
     kHca1 + "mad = \"umad\"\n",
     {"t.toml:20:7: hca.soft1.mad: invalid value \"umad\", allowed: " + kMad}},
    {"mad_empty_device",
     kHca1 + "mad = \"umad::1\"\n",
     {"t.toml:20:7: hca.soft1.mad: invalid value \"umad::1\", allowed: " + kMad}},
    {"mad_port",
     kHca1 + "mad = \"umad:mlx5_0:0\"\n",
     {"t.toml:20:7: hca.soft1.mad: invalid value \"umad:mlx5_0:0\", allowed: " + kMad}},
    {"mad_device_too_long",
     kHca1 + "mad = \"umad:a234567890b234567890\"\n",
     {"t.toml:20:7: hca.soft1.mad: invalid value \"umad:a234567890b234567890\", allowed: " + kMad}},
    // A faulty option causes no error in options that depend on it.
    {"mad_faulty",
     "[hca.b]\nwire = \"w\"\nmad = 1\n",
     {"t.toml:18:7: hca.b.mad: invalid value 1, allowed: " + kMad}},
    {"umad", "[hca.b]\nwire = \"w\"\nmad = \"umad:mlx5_0:2\"\n", {}},
    {"umad_twice",
     "[hca.b]\nwire = \"w\"\nmad = \"umad:m\"\n[hca.c]\nwire = \"x\"\nmad = \"umad:m\"\n",
     {"t.toml:21:7: hca.c.mad: duplicate mad \"umad:m\", first used by hca.b.mad (line 18)"}},
    {"umad_and_what_it_tells",
     "[hca.b]\nwire = \"w\"\nmad = \"umad:m\"\nguid = \"0x2\"\nlid = 1\nsm-lid = 7\npkeys = 1\n"
     "subnet-administrator = true\n",
     {"t.toml:19:8: hca.b.guid: value \"0x2\" is not allowed, " + kManaged,
      "t.toml:20:7: hca.b.lid: value 1 is not allowed, " + kManaged,
      "t.toml:21:10: hca.b.sm-lid: value 7 is not allowed, " + kManaged,
      "t.toml:22:9: hca.b.pkeys: value 1 is not allowed, " + kManaged,
      "t.toml:23:24: hca.b.subnet-administrator: value true is not allowed, " + kManaged}},
    // The configured partitions are not known at this time.
    {"umad_pkey",
     "[hca.b]\nwire = \"w\"\nmad = \"umad:m\"\n[link.ib1]\nhca = \"b\"\npkey = 0x8123\n",
     {}},
    {"device_twice",
     "[port.eth1]\ndevice = \"net_memif0\"\n",
     {"t.toml:17:10: port.eth1.device: duplicate device \"net_memif0\", first used by "
      "hca.soft0.wire (line 2)"}},
    {"guid_twice",
     "[hca.b]\nwire = \"w\"\nguid = \"0x2c903000A0B01\"\nlid = 2\n",
     {"t.toml:18:8: hca.b.guid: duplicate guid 0x0002c903000a0b01, first used by hca.soft0.guid "
      "(line 3)"}},
    {"guid_zero",
     "[hca.b]\nwire = \"w\"\nguid = \"0x0\"\nlid = 2\n",
     {"t.toml:18:8: hca.b.guid: invalid value \"0x0\", allowed: string \"0x\" and 1-16 hexadecimal "
      "digits, not 0"}},
    {"lid_twice",
     "[hca.b]\nwire = \"w\"\nguid = \"0x2\"\nlid = 1\n",
     {"t.toml:19:7: hca.b.lid: duplicate lid 1, first used by hca.soft0.lid (line 4)"}},
    {"lid_multicast",
     "[hca.b]\nwire = \"w\"\nguid = \"0x2\"\nlid = 0xC000\n",
     {"t.toml:19:7: hca.b.lid: invalid value 0xC000, allowed: integer 1-49151"}},
    {"lid_of_lmc",
     "[hca.b]\nwire = \"w\"\nguid = \"0x2\"\nlid = 6\nlmc = 2\n",
     {"t.toml:19:7: hca.b.lid: invalid value 6, allowed: multiples of 4, because lmc is 2"}},
    {"lid_in_the_range_of_another",
     "[hca.b]\nwire = \"w\"\nguid = \"0x2\"\nlid = 8\nlmc = 1\n"
     "[hca.c]\nwire = \"x\"\nguid = \"0x3\"\nlid = 9\n",
     {"t.toml:24:7: hca.c.lid: duplicate lid 9, first used by hca.b.lid (line 19)"}},
    {"lmc",
     kHca1 + "lmc = 8\n",
     {"t.toml:20:7: hca.soft1.lmc: invalid value 8, allowed: integer 0-7"}},
    {"partition_twice",
     kHca1 + "pkeys = [0xffff, 0x8001, 0x7fff]\n",
     {"t.toml:20:26: hca.soft1.pkeys: invalid value 0x7fff: 0xffff in the same list is the same "
      "partition, allowed: each partition once"}},
    {"pkey_zero",
     kHca1 + "pkeys = [0xffff, 0x8000]\n",
     {"t.toml:20:18: hca.soft1.pkeys: invalid value 0x8000, allowed: integer 0x0001-0x7fff, "
      "0x8001-0xffff"}},
    {"pkeys_empty",
     kHca1 + "pkeys = []\n",
     {"t.toml:20:9: hca.soft1.pkeys: invalid value a list of 0, allowed: list of integer 1-128 of: "
      "0x0001-0x7fff, 0x8001-0xffff"}},
    {"sm_lid_of_another",
     kHca1 + "subnet-administrator = true\nsm-lid = 1\n",
     {"t.toml:21:10: hca.soft1.sm-lid: invalid value 1, allowed: 2, the port's own lid, because it "
      "runs the subnet administrator"}},
    {"hca_mtu",
     kHca1 + "mtu = 2000\n",
     {"t.toml:20:7: hca.soft1.mtu: invalid value 2000, allowed: integer 256 | 512 | 1024 | 2048 | "
      "4096"}},
    {"icrc",
     kHca1 + "icrc = \"maybe\"\n",
     {"t.toml:20:8: hca.soft1.icrc: invalid value \"maybe\", allowed: string or boolean \"on\" | "
      "\"off\" | true | false"}},

    // Subnet.
    {"subnet_mtu_over_hca",
     "[subnet]\nmtu = 4096\n",
     {"t.toml:17:7: subnet.mtu: invalid value 4096, allowed: at most 2048, the mtu of hca.soft0"}},
    {"subnet_rate",
     "[subnet]\nrate = 11\n",
     {"t.toml:17:8: subnet.rate: invalid value 11, allowed: number 2.5 | 5 | 10 | 14 | 20 | 25 | "
      "28 | 30 | 40 | 50 | 56 | 60 | 80 | 100 | 112 | 120 | 168 | 200 | 300 | 400 | 600 | 800 | "
      "1200"}},
    {"subnet_sl",
     "[subnet]\nsl = 16\n",
     {"t.toml:17:6: subnet.sl: invalid value 16, allowed: integer 0-15"}},

    // Links.
    {"unknown_hca",
     "[link.ib1]\nhca = \"soft7\"\n",
     {"t.toml:17:7: link.ib1.hca: invalid value \"soft7\", allowed: soft0"}},
    {"pkey_not_in_table",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x0001\n",
     {"t.toml:18:8: link.ib1.pkey: invalid value 0x0001, allowed: the pkeys of hca.soft0: 0xffff, "
      "0x8001"}},
    {"mode",
     "[link.ib1]\nhca = \"soft0\"\nmode = \"connected-ud\"\n",
     {"t.toml:18:8: link.ib1.mode: invalid value \"connected-ud\", allowed: string \"datagram\" | "
      "\"connected-rc\" | \"connected-uc\" | \"connected\""}},
    {"connections_without_mode",
     "[link.ib1]\nhca = \"soft0\"\nconnect = \"always\"\n",
     {"t.toml:18:11: link.ib1.connect: value \"always\" is not allowed, because mode is "
      "\"datagram\""}},
    {"dialect",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"rfc826\"\n",
     {"t.toml:18:11: link.ib1.dialect: invalid value \"rfc826\", allowed: string \"rfc4391\" | "
      "\"ibarp2001\""}},
    {"connections_of_2001",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\nmode = \"connected\"\npkey = 0x8001\n",
     {"t.toml:19:8: link.ib1.mode: invalid value \"connected\", allowed with dialect "
      "\"ibarp2001\": \"datagram\""}},
    {"option_of_2001",
     "[link.ib1]\nhca = \"soft0\"\nsidr-server = true\n",
     {"t.toml:18:15: link.ib1.sidr-server: value true is not allowed, because dialect is "
      "\"rfc4391\""}},
    {"option_of_rfc4391",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\ninterface-id = \"lid\"\n"
     "pkey = 0x8001\n",
     {"t.toml:19:16: link.ib1.interface-id: value \"lid\" is not allowed, because dialect is "
      "\"ibarp2001\""}},
    {"creation_of_2001",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\ncreate-broadcast = true\n"
     "pkey = 0x8001\n",
     {"t.toml:19:20: link.ib1.create-broadcast: value true is not allowed, because dialect is "
      "\"ibarp2001\" without sidr-server"}},
    {"servers_of_2001",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\nsidr-server = true\npkey = 0x8001\n"
     "[link.ib2]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\nsidr-server = true\npkey = 0x8001\n",
     {"t.toml:24:15: link.ib2.sidr-server: duplicate SIDR service 0x0200000000000806 of soft0 in "
      "partition 0x8001, first used by link.ib1.sidr-server (line 19)"}},
    {"qpn_of_two_links",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\nqpn = 0x48\n"
     "[link.ib2]\nhca = \"soft0\"\nqpn = 0x48\n",
     {"t.toml:22:7: link.ib2.qpn: duplicate QPN 0x48 of soft0, first used by link.ib1.qpn (line "
      "19)"}},
    {"dialects_of_a_partition",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\n",
     {"t.toml:18:11: link.ib1.dialect: invalid value \"ibarp2001\", allowed: \"rfc4391\", that of "
      "link.ib0 in partition 0xffff of soft0"}},
    {"neighbour_of_2001",
     "[link.ib1]\nhca = \"soft0\"\ndialect = \"ibarp2001\"\naddress = \"10.9.0.1/24\"\n"
     "pkey = 0x8001\n[[neighbour]]\nlink = \"ib1\"\naddress = \"10.9.0.9\"\n"
     "lladdr = \"00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:09\"\n",
     {"t.toml:24:10: neighbour.lladdr: invalid value "
      "\"00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:09\", allowed on link ib1: 32 "
      "octets with a queue pair and a unicast GID"}},
    {"scope",
     "[link.ib1]\nhca = \"soft0\"\nscope = 3\n",
     {"t.toml:18:9: link.ib1.scope: invalid value 3, allowed: integer auto | 2 | 5 | 8 | 14"}},
    {"ack_timeout",
     "[link.ib1]\nhca = \"soft0\"\nmode = \"connected-rc\"\nack-timeout = 21\n"
     "[link.ib2]\nhca = \"soft0\"\nmode = \"connected-rc\"\nack-timeout = \"short\"\n",
     {"t.toml:19:15: link.ib1.ack-timeout: invalid value 21, allowed: integer auto | 1-20",
      "t.toml:23:15: link.ib2.ack-timeout: invalid value \"short\", allowed: integer auto | 1-20"}},
    {"create_mtu",
     "[link.ib1]\nhca = \"soft0\"\ncreate-broadcast = true\nmtu = 4096\n",
     {"t.toml:19:7: link.ib1.mtu: invalid value 4096, allowed: at most 2048, the mtu of "
      "hca.soft0"}},
    {"rarp",
     "[[rarp]]\nlink = \"eth0\"\nlladdr = \"02:00:00:00:00:01\"\naddress = \"fd00::9\"\n"
     "[[rarp]]\nlink = \"ib0\"\nlladdr = \"02:00:00:00:00:01\"\naddress = \"10.0.0.8\"\n"
     "[[rarp]]\nlink = \"ib7\"\nlladdr = \"02:00:00:00:00:01\"\naddress = \"10.0.0.9\"\n",
     {"t.toml:19:11: rarp.address: invalid value \"fd00::9\", allowed: IPv4 addresses",
      "t.toml:22:10: rarp.lladdr: invalid value \"02:00:00:00:00:01\", allowed on link ib0: 20 "
      "octets with a queue pair and a unicast GID",
      "t.toml:25:8: rarp.link: unknown interface \"ib7\", allowed: links: ib0; ports: eth0"}},
    {"all_nodes_with_ipv4",
     "[link.ib1]\nhca = \"soft0\"\nall-nodes = \"instead\"\n"
     "address = [\"fd00::1/64\", \"10.1.0.1/24\"]\n",
     {"t.toml:18:13: link.ib1.all-nodes: invalid value \"instead\": it disables IPv4 on the link, "
      "and address contains 10.1.0.1/24, allowed: \"auto\" | \"joined\""}},
    {"all_nodes_with_rarp",
     "[link.ib1]\nhca = \"soft0\"\nall-nodes = \"instead\"\nask-rarp = true\n",
     {"t.toml:18:13: link.ib1.all-nodes: invalid value \"instead\": it disables IPv4 on the link, "
      "and ask-rarp requests an IPv4 address, allowed: \"auto\" | \"joined\""}},

    // Addresses.
    {"addresses_of_links_only",
     "[link.ib1]\nhca = \"soft0\"\npkey = 0x8001\naddress = [\"fd00::1/64\", \"fe80::1/64\"]\n"
     "[port.eth1]\ndevice = \"net_tap1\"\naddress = [\"fe80::1/64\"]\n",
     {}},
    {"address_of_loopback6",
     "[link.ib1]\nhca = \"soft0\"\naddress = [\"fd00::1/64\", \"::1/128\"]\n",
     {"t.toml:18:26: link.ib1.address: invalid value \"::1/128\", allowed: " + kHostAddress}},
    {"address6_of_network",
     "[link.ib1]\nhca = \"soft0\"\naddress = \"fd00::/64\"\n",
     {"t.toml:18:11: link.ib1.address: invalid value \"fd00::/64\", allowed: " + kHostAddress}},
    {"groups",
     "[link.ib1]\nhca = \"soft0\"\ngroups = [\"239.1.1.1\", \"10.0.0.9\"]\n",
     {"t.toml:18:24: link.ib1.groups: invalid value \"10.0.0.9\", allowed: string IP multicast "
      "address, \"239.1.1.1\""}},
    {"address_of_network",
     "[link.ib1]\nhca = \"soft0\"\naddress = [\"10.1.0.0/24\"]\n",
     {"t.toml:18:12: link.ib1.address: invalid value \"10.1.0.0/24\", allowed: " + kHostAddress}},
    {"address_of_broadcast",
     "[link.ib1]\nhca = \"soft0\"\naddress = [\"10.1.0.255/24\"]\n",
     {"t.toml:18:12: link.ib1.address: invalid value \"10.1.0.255/24\", allowed: " + kHostAddress}},
    {"address_multicast",
     "[link.ib1]\nhca = \"soft0\"\naddress = \"224.0.0.1/24\"\n",
     {"t.toml:18:11: link.ib1.address: invalid value \"224.0.0.1/24\", allowed: " + kHostAddress}},
    {"address_number",
     "[link.ib1]\nhca = \"soft0\"\naddress = [10]\n",
     {"t.toml:18:12: link.ib1.address: invalid value 10, allowed: " + kHostAddress}},
    {"address_twice",
     "[link.ib1]\nhca = \"soft0\"\naddress = \"192.168.1.1/32\"\n",
     {"t.toml:18:11: link.ib1.address: duplicate address \"192.168.1.1/32\", first used by "
      "port.eth0.address (line 14)"}},
    {"prefix_twice",
     "[port.eth1]\ndevice = \"d\"\naddress = \"10.0.0.77/24\"\n",
     {"t.toml:18:11: port.eth1.address: invalid value \"10.0.0.77/24\": link.ib0.address has the "
      "same prefix (line 10), allowed: each prefix on one interface, or on those of one proxy "
      "group"}},
    {"proxy_of_one_interface",
     "[port.eth1]\ndevice = \"d\"\naddress = \"10.7.0.1/24\"\nproxy = \"lab\"\n",
     {"t.toml:19:9: port.eth1.proxy: group \"lab\" has one interface, allowed: two or more"}},
    {"proxy_without_address",
     "[port.eth1]\ndevice = \"d\"\nproxy = \"lab\"\n"
     "[port.eth2]\ndevice = \"e\"\naddress = \"10.7.0.1/24\"\nproxy = \"lab\"\n",
     {"t.toml:18:9: port.eth1.proxy: eth1 has no address, allowed: interfaces with addresses"}},
    {"proxy_of_other_prefixes",
     "[port.eth1]\ndevice = \"d\"\naddress = \"10.7.0.1/24\"\nproxy = \"lab\"\n"
     "[port.eth2]\ndevice = \"e\"\naddress = \"10.7.0.2/25\"\nproxy = \"lab\"\n",
     {"t.toml:23:9: port.eth2.proxy: eth2 has no address in the prefix of \"10.7.0.1/24\" of eth1, "
      "allowed: the same prefixes on all interfaces of group \"lab\""}},
    {"proxy_of_more_prefixes",
     "[port.eth1]\ndevice = \"d\"\naddress = \"10.7.0.1/24\"\nproxy = \"lab\"\n"
     "[port.eth2]\ndevice = \"e\"\naddress = [\"10.7.0.2/24\", \"fd07::2/64\"]\nproxy = \"lab\"\n",
     {"t.toml:23:9: port.eth2.proxy: eth1 has no address in the prefix of \"fd07::2/64\" of eth2, "
      "allowed: the same prefixes on all interfaces of group \"lab\""}},
    {"proxy",
     "[port.eth1]\ndevice = \"d\"\naddress = [\"10.7.0.1/24\", \"fd07::1/64\"]\nproxy = \"lab\"\n"
     "[port.eth2]\ndevice = \"e\"\naddress = [\"10.7.0.2/24\", \"fd07::2/64\"]\nproxy = \"lab\"\n",
     {}},
    {"proxy_of_another_group",
     "[port.eth1]\ndevice = \"d\"\naddress = \"10.7.0.1/24\"\nproxy = \"lab\"\n"
     "[port.eth2]\ndevice = \"e\"\naddress = \"10.7.0.2/24\"\nproxy = \"lab\"\n"
     "[port.eth3]\ndevice = \"f\"\naddress = \"10.7.0.3/24\"\n",
     {"t.toml:26:11: port.eth3.address: invalid value \"10.7.0.3/24\": port.eth1.address has the "
      "same "
      "prefix (line 18), allowed: each prefix on one interface, or on those of one proxy group"}},

    // Routes.
    {"route_twice",
     "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.2\"\n"
     "[[route]]\nto = \"10.9.0.0/16\"\nblackhole = true\n",
     {"t.toml:20:6: route.to: duplicate destination \"10.9.0.0/16\", first used by route.to (line "
      "17)"}},
    {"route_host_bits",
     "[[route]]\nto = \"10.9.0.1/16\"\nvia = \"10.0.0.2\"\n",
     {"t.toml:17:6: route.to: invalid value \"10.9.0.1/16\", allowed: string IP prefix without "
      "host bits, \"192.168.2.0/24\""}},
    {"route_connected",
     "[[route]]\nto = \"10.0.0.0/24\"\nvia = \"10.0.0.2\"\n",
     {"t.toml:17:6: route.to: invalid value \"10.0.0.0/24\": it is the connected prefix of "
      "link.ib0.address (line 10), allowed: prefixes that are not connected"}},
    {"route_off_link",
     "[[route]]\nto = \"10.9.0.0/16\"\nvia = [\"10.0.0.2\", \"10.8.0.1\"]\n",
     {"t.toml:18:20: route.via: invalid value \"10.8.0.1\", allowed: an address within a prefix of "
      "a link or port"}},
    {"route_to_self",
     "[[route]]\nto = \"10.9.0.0/16\"\nvia = [\"10.0.0.1\"]\n",
     {"t.toml:18:8: route.via: invalid value \"10.0.0.1\", allowed: an address of another node"}},
    {"route_next_hop_twice",
     "[[route]]\nto = \"10.9.0.0/16\"\nvia = [\"10.0.0.2\", \"10.0.0.2\"]\n",
     {"t.toml:18:20: route.via: invalid value \"10.0.0.2\", allowed: each next hop once"}},
    {"route_nowhere",
     "[[route]]\nto = \"10.9.0.0/16\"\n",
     {"t.toml:16:1: route: neither via nor blackhole, allowed: either via or blackhole = true"}},
    {"route_both",
     "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.2\"\nblackhole = true\n",
     {"t.toml:16:1: route: both via and blackhole, allowed: either via or blackhole = true"}},

    {"route_family",
     "[[route]]\nto = \"fd09::/64\"\nvia = [\"10.0.0.2\"]\n",
     {"t.toml:18:8: route.via: invalid value \"10.0.0.2\", allowed: an address of the IP version "
      "of route.to"}},

    {"P05_route_link_local",
     "[[route]]\nto = \"fd09::/64\"\nvia = \"fe80::1\"\ninterface = \"ib0\"\n",
     {}},
    {"P05_route_link_local_alone",
     "[[route]]\nto = \"fd09::/64\"\nvia = \"fe80::1\"\n",
     {"t.toml:18:7: route.via: invalid value \"fe80::1\", allowed: with link-local next hops, "
      "route.interface names their link"}},
    {"P05_route_via_zone",
     "[[route]]\nto = \"fd09::/64\"\nvia = [\"fe80::1%ib0\"]\ninterface = \"ib0\"\n",
     {"t.toml:18:8: route.via: invalid value \"fe80::1%ib0\", allowed: string IP address of a "
      "host, "
      "\"10.0.0.2\", without a zone: the key interface names the interface"}},
    {"P05_addresses_with_zone",
     "[link.ib1]\nhca = \"soft0\"\naddress = \"fe80::1%ib1/64\"\ngroups = \"ff15::1%ib1\"\n"
     "[[neighbour]]\nlink = \"ib0\"\naddress = \"fd00::9%ib0\"\n"
     "lladdr = \"00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:09\"\n",
     {"t.toml:18:11: link.ib1.address: invalid value \"fe80::1%ib1/64\", allowed: " + kHostAddress +
          ", without a zone: the section names the interface",
      "t.toml:19:10: link.ib1.groups: invalid value \"ff15::1%ib1\", allowed: string IP multicast "
      "address, \"239.1.1.1\", without a zone: the section names the interface",
      "t.toml:22:11: neighbour.address: invalid value \"fd00::9%ib0\", allowed: string IP address "
      "of a host, \"10.0.0.2\", without a zone: the key link names the interface"}},
    {"route_of_no_interface",
     "[[route]]\nto = \"fd09::/64\"\nvia = \"fe80::1\"\ninterface = \"ib7\"\n",
     {"t.toml:19:13: route.interface: unknown interface \"ib7\", allowed: links: ib0; ports: "
      "eth0"}},
    {"route_of_another_interface",
     "[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.0.0.2\"\ninterface = \"eth0\"\n",
     {"t.toml:18:7: route.via: invalid value \"10.0.0.2\", allowed: an address within a prefix of "
      "route.interface"}},
    {"route_blackhole_of_an_interface",
     "[[route]]\nto = \"10.9.0.0/16\"\nblackhole = true\ninterface = \"eth0\"\n",
     {"t.toml:19:13: route: both interface and blackhole, allowed: interface with via"}},

    // Multicast routes.
    {"mroute_interfaces",
     "[[multicast-route]]\ngroups = \"239.1.1.1\"\nin = \"ib7\"\nout = [\"eth0\", \"ib7\"]\n",
     {"t.toml:18:6: multicast-route.in: unknown interface \"ib7\", allowed: links: ib0; ports: "
      "eth0",
      "t.toml:19:16: multicast-route.out: unknown interface \"ib7\", allowed: links: ib0; ports: "
      "eth0",
      "t.toml:19:16: multicast-route.out: invalid value \"ib7\", allowed: interfaces other than "
      "in"}},
    {"mroute_no_groups",
     "[[multicast-route]]\ngroups = \"10.0.0.0/8\"\nin = \"ib0\"\nout = \"eth0\"\n",
     {"t.toml:17:10: multicast-route.groups: invalid value \"10.0.0.0/8\", allowed: string IP "
      "multicast address or prefix, \"239.1.1.1\" or \"239.1.0.0/16\""}},

    // Filters.
    {"filter_incomplete",
     "[[filter]]\nsource = \"10.0.0.1/8\"\n",
     {"t.toml:16:1: filter: missing key direction, allowed: string \"in\" | \"out\"",
      "t.toml:16:1: filter: missing key action, allowed: string \"accept\" | \"drop\"",
      "t.toml:17:10: filter.source: invalid value \"10.0.0.1/8\", allowed: string IP prefix "
      "without host bits, or IP address"}},
    {"filter_interface",
     "[[filter]]\ninterface = \"ib7\"\ndirection = \"in\"\naction = \"drop\"\n",
     {"t.toml:17:13: filter.interface: unknown interface \"ib7\", allowed: all; links: ib0; ports: "
      "eth0"}},
    {"filter_ports",
     "[[filter]]\ndirection = \"in\"\naction = \"drop\"\ndestination-ports = 53\n",
     {"t.toml:16:1: filter: ports require a protocol that has them: tcp, udp, 33 (DCCP), 132 "
      "(SCTP), 136 (UDP-Lite)"}},
    {"filter_versions",
     "[[filter]]\ndirection = \"in\"\naction = \"drop\"\nsource = \"10.0.0.0/8\"\n"
     "destination = \"fd00::/8\"\n",
     {"t.toml:16:1: filter: source and destination are of different IP versions"}},

    // Neighbours.
    {"neighbour_link",
     "[[neighbour]]\nlink = \"ib7\"\naddress = \"10.0.0.9\"\nlladdr = \"02:00:00:00:00:01\"\n",
     {"t.toml:17:8: neighbour.link: unknown interface \"ib7\", allowed: links: ib0; ports: eth0"}},
    {"neighbour_short_lladdr",
     "[[neighbour]]\nlink = \"ib0\"\naddress = \"10.0.0.9\"\nlladdr = \"02:00:00:00:00:01\"\n",
     {"t.toml:19:10: neighbour.lladdr: invalid value \"02:00:00:00:00:01\", allowed on link ib0: "
      "20 octets with a queue pair and a unicast GID"}},
    {"neighbour_bad_lladdr",
     "[[neighbour]]\nlink = \"eth0\"\naddress = \"192.168.1.9\"\nlladdr = \"02:00\"\n",
     {"t.toml:19:10: neighbour.lladdr: invalid value \"02:00\", allowed: string 20 octets "
      "(link; 32 with dialect ibarp2001) or 6 octets (port) in hexadecimal, separated by colons"}},
    {"neighbour_lid_on_port",
     "[[neighbour]]\nlink = \"eth0\"\naddress = \"192.168.1.9\"\nlladdr = \"02:00:00:00:00:01\"\n"
     "lid = 3\n",
     {"t.toml:20:7: neighbour.lid: value 3 is not allowed, because eth0 is a port"}},
    {"neighbour_own",
     "[[neighbour]]\nlink = \"eth0\"\naddress = \"192.168.1.1\"\nlladdr = \"02:00:00:00:00:01\"\n",
     {"t.toml:18:11: neighbour.address: invalid value \"192.168.1.1\", allowed: an address of "
      "another node"}},
    {"neighbour_twice",
     "[[neighbour]]\nlink = \"eth0\"\naddress = \"192.168.1.9\"\nlladdr = \"02:00:00:00:00:01\"\n"
     "[[neighbour]]\nlink = \"eth0\"\naddress = \"192.168.1.9\"\nlladdr = \"02:00:00:00:00:02\"\n",
     {"t.toml:22:11: neighbour.address: duplicate address \"192.168.1.9\", first used by "
      "neighbour.address (line 18)"}},

    // Workers.
    {"assign_unknown",
     "[worker]\nassign = { eth9 = 0 }\n",
     {"t.toml:17:12: worker.assign: unknown name \"eth9\", allowed: hcas: soft0; ports: eth0"}},
    {"assign_beyond",
     "[worker]\ncount = 2\nassign = { eth0 = 2 }\n",
     {"t.toml:18:19: worker.assign.eth0: invalid value 2, allowed: 0-1, because worker.count is "
      "2"}},
    {"assign_word",
     "[worker]\nassign = \"manual\"\n",
     {"t.toml:17:10: worker.assign: invalid value \"manual\", allowed: string or table \"auto\" | "
      "{ NAME = WORKER | [WORKER, ...], ... }, workers from 0"}},
    {"assign_twice",
     "[worker]\ncount = 2\nassign = { eth0 = [1, 1] }\n",
     {"t.toml:18:19: worker.assign: invalid value a list of 2, allowed: integer or list WORKER | "
      "[WORKER, ...], each once, 0-127"}},
    {"assign_nobody",
     "[worker]\nassign = { eth0 = [] }\n",
     {"t.toml:17:19: worker.assign: invalid value a list of 0, allowed: integer or list WORKER | "
      "[WORKER, ...], each once, 0-127"}},
    {"assign_list_beyond",
     "[worker]\ncount = 2\nassign = { eth0 = [0, 2, 1] }\n",
     {"t.toml:18:19: worker.assign.eth0: invalid value 2, allowed: 0-1, because worker.count is "
      "2"}},
    {"assign_link",
     "[worker]\nassign = { ib0 = 0 }\n",
     {"t.toml:17:12: worker.assign: unknown name \"ib0\", allowed: hcas: soft0; ports: eth0"}},
    {"assign_verbs_to_two",
     kVerbs + "[worker]\ncount = 2\nassign = { b = [0, 1] }\n",
     {"t.toml:21:16: worker.assign.b: 2 workers, but only the cable of a soft hca has receive "
      "queues to share"}},
    {"assign_verbs_to_many",
     kVerbs + "[worker]\ncount = 65\nassign = { b = [" + numbers(65) + "] }\n",
     {"t.toml:21:16: worker.assign.b: 65 workers, but only the cable of a soft hca has receive "
      "queues to share"}},
    {"assign_cable_to_many",
     "[worker]\ncount = 65\nassign = { soft0 = [" + numbers(65) + "] }\n",
     {"t.toml:18:20: worker.assign.soft0: 65 workers, allowed: 1-64"}},
    {"assign_cable_to_two", "[worker]\ncount = 2\nassign = { soft0 = [0, 1] }\n", {}},
    {"P05_options_that_no_rule_changes",
     "[worker]\npass-ip-options = [\"rr\", \"lsr\", 137]\ndrop-ip-options = [131, 0, 1, 256, -1]\n",
     {"t.toml:17:26: worker.pass-ip-options: invalid value \"lsr\", allowed: " + kOptions,
      "t.toml:17:33: worker.pass-ip-options: invalid value 137, allowed: " + kOptions,
      "t.toml:18:20: worker.drop-ip-options: invalid value 131, allowed: " + kOptions,
      "t.toml:18:25: worker.drop-ip-options: invalid value 0, allowed: " + kOptions,
      "t.toml:18:28: worker.drop-ip-options: invalid value 1, allowed: " + kOptions,
      "t.toml:18:31: worker.drop-ip-options: invalid value 256, allowed: " + kOptions,
      "t.toml:18:36: worker.drop-ip-options: invalid value -1, allowed: " + kOptions}},
    {"P05_option_passed_and_dropped",
     "[worker]\npass-ip-options = [\"ts\", \"rr\"]\ndrop-ip-options = [\"cipso\", 7]\n",
     {"t.toml:18:29: worker.drop-ip-options: invalid value \"rr\", allowed: none of "
      "worker.pass-ip-options"}},
    {"P05_headers_that_are_no_extensions",
     "[worker]\npass-ip6-extensions = [\"ipv6-route-0\", \"ipv6-route-256\", \"hbh\"]\n"
     "drop-ip6-extensions = [6, 256]\n",
     {"t.toml:17:24: worker.pass-ip6-extensions: invalid value \"ipv6-route-0\", allowed: " +
          kExtensions,
      "t.toml:17:40: worker.pass-ip6-extensions: invalid value \"ipv6-route-256\", allowed: " +
          kExtensions,
      "t.toml:17:58: worker.pass-ip6-extensions: invalid value \"hbh\", allowed: " + kExtensions,
      "t.toml:18:24: worker.drop-ip6-extensions: invalid value 6, allowed: " + kExtensions,
      "t.toml:18:27: worker.drop-ip6-extensions: invalid value 256, allowed: " + kExtensions}},
    {"P05_extension_passed_and_dropped",
     "[worker]\npass-ip6-extensions = [\"ipv6-route-4\", \"esp\", 253]\n"
     "drop-ip6-extensions = [\"ipv6-route\", \"253\", 50]\n",
     {"t.toml:18:38: worker.drop-ip6-extensions: invalid value \"253\", allowed: none of "
      "worker.pass-ip6-extensions",
      "t.toml:18:45: worker.drop-ip6-extensions: invalid value \"esp\", allowed: none of "
      "worker.pass-ip6-extensions"}},
    {"burst",
     "[worker]\nburst = 65\n",
     {"t.toml:17:9: worker.burst: invalid value 65, allowed: integer 1-64"}},
    {"seconds",
     "[neighbour-cache]\nidle = 0\nreachable = nan\nnegative = 86401\n",
     {"t.toml:17:8: neighbour-cache.idle: invalid value 0, allowed: seconds 0.001-86400",
      "t.toml:18:13: neighbour-cache.reachable: invalid value nan, allowed: seconds 0.001-86400",
      "t.toml:19:12: neighbour-cache.negative: invalid value 86401, allowed: seconds 0.001-86400"}},
};

INSTANTIATE_TEST_SUITE_P(Table, ConfigFault, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string{c.param.name}; });

TEST(ConfigCheck, NothingConfigured) {
  EXPECT_EQ(faults(""),
            (Lines{"t.toml:1:1: neither an hca nor a port is configured, allowed: at least one"}));
}

// The warning is reported, and the configuration is used.
TEST(ConfigCheck, NeighbourNobodyCanReachIsAWarning) {
  const auto result = parse_config(kGoodConfig +
                                       "[[neighbour]]\nlink = \"eth0\"\naddress = \"10.0.0.9\"\n"
                                       "lladdr = \"02:00:00:00:00:01\"\n",
                                   "t.toml", {});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(lines_of(result),
            (Lines{"t.toml:18:11: warning: neighbour.address: \"10.0.0.9\" is outside the prefixes "
                   "of eth0: no packets will be sent to it"}));
  EXPECT_EQ(result.config.neighbours.size(), 1U);
}

TEST(ConfigCheck, SubnetWithoutAdministratorIsAWarning) {
  const auto lines = faults("[port.a]\ndevice = \"d\"\n[subnet]\nmtu = 4096\n");
  EXPECT_EQ(lines, (Lines{"t.toml:3:1: warning: subnet: section ignored, because no hca has "
                          "subnet-administrator = true"}));
}

// A refused value causes no second error elsewhere.
TEST(ConfigCheck, OneSlipIsOneLine) {
  EXPECT_EQ(
      faults("[hca.a]\nwire = \"w\"\nguid = \"0x1\"\nlid = -1\nsubnet-administrator = true\n"
             "pkeys = 0\n[link.b]\nhca = \"a\"\npkey = 0x8002\n"
             "[[route]]\nto = \"x\"\nvia = 3\n"),
      (Lines{
          "t.toml:4:7: hca.a.lid: invalid value -1, allowed: integer 1-49151",
          "t.toml:6:9: hca.a.pkeys: invalid value 0, allowed: integer 0x0001-0x7fff, 0x8001-0xffff",
          "t.toml:11:6: route.to: invalid value \"x\", allowed: string IP prefix without host "
          "bits, \"192.168.2.0/24\"",
          "t.toml:12:7: route.via: invalid value 3, allowed: string IP address of a host, "
          "\"10.0.0.2\""}));
}

}  // namespace
}  // namespace ipoib::app
