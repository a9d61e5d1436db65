// SPDX-License-Identifier: BSD-3-Clause
#include "app/export/render.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/cli/text_table.h"
#include "tests/support/fake_node.h"

namespace ipoib::app {
namespace {

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> result;
  for (const auto& [key, value] : object.items()) result.push_back(key);
  return result;
}

// All keys that telemetry promises are present, in that order.
TEST(Render, Link) {
  FakeNode node;
  fill(node.rows);
  const Json link = to_json(node.view.links())[0];
  std::vector<std::string> known;
  const std::vector<std::string> promised = {"name",
                                             "state",
                                             "reason",
                                             "hca",
                                             "lid",
                                             "gid",
                                             "qpn",
                                             "pkey",
                                             "qkey",
                                             "mtu",
                                             "mode",
                                             "dialect",
                                             "broadcast_mgid",
                                             "broadcast_mlid",
                                             "addresses",
                                             "rx_packets",
                                             "tx_packets",
                                             "rx_bytes",
                                             "tx_bytes",
                                             "drops"};
  for (const auto& key : keys(link))
    if (std::find(promised.begin(), promised.end(), key) != promised.end()) known.push_back(key);
  EXPECT_EQ(known, promised);
  EXPECT_EQ(link["gid"], "fe80::2:c903:a:b01");
  EXPECT_EQ(link["qkey"], 0x8001'0b1bU);
  EXPECT_EQ(link["broadcast_mgid"], "ff12:401b:ffff::ffff:ffff");
  EXPECT_EQ(link["broadcast_mlid"], 0xc000);
  EXPECT_EQ(link["rate_mbps"], 10'000);
  EXPECT_EQ(link["addresses"], Json::array({"10.0.0.1/24"}));
  EXPECT_EQ(link["drops"], (Json{{"ip_no_route", 5}}));
  EXPECT_EQ(link["counters"]["joins_sent"], 2);
  EXPECT_EQ(link["counters"]["nd_errors"].size(), 1U);
  EXPECT_EQ(link["counters"]["nd_invalid"], 4);
  EXPECT_EQ(link["counters"]["sidr_errors"], (Json{{"dlid", 2}}));
  EXPECT_EQ(link["counters"]["path_records_refused"], 4);
  EXPECT_EQ(link["counters"]["paths_left"], 3);
  EXPECT_EQ(link["counters"]["paths_refused"], 6);
  EXPECT_EQ(link["counters"]["path_claims_refused"], 7);
}

TEST(Render, OtherObjects) {
  FakeNode node;
  fill(node.rows);
  EXPECT_EQ(
      dump(to_json(node.view.ports())),
      R"([{"name":"eth0","state":"up","device":"net_tap0","driver":"net_tap",)"
      R"("mac":"02:00:00:00:00:01","mtu":1500,"link_speed_mbps":0,"started":true,"rx_queues":1,"tx_queues":1,"workers":[],"socket":null,"promiscuous":false,)"
      R"("capabilities":{"max_segments":8,"receives_chains":false,"multicast":"joined groups","removal_events":true},)"
      R"("problem":"","addresses":[],)"
      R"("ipv6":{"mtu":2044,"reason":"","addresses":[{"address":"fe80::1/64",)"
      R"("state":"duplicate","reason":"02:00:00:00:00:09 has it"}]},)"
      R"("rx_packets":0,"tx_packets":0,"rx_bytes":0,"tx_bytes":0,"drops":{},"counters":{)"
      R"("arp_sent":0,"arp_received":0,"arp_invalid":0,"nd_unsent":0,)"
      R"("address_conflicts":0,"contradictions":0,"nd_sent":0,"nd_received":0,)"
      R"("nd_invalid":0,"nd_errors":{},"nd_mtus_ignored":0,"rarp_requests":0,"rarp_answered":0,"rarp_asked":0,)"
      R"("rarp_invalid":0,"neighbours_evicted":0,"neighbours_refused":0}}])");
  Json hcas = to_json(node.view.hcas());
  EXPECT_EQ(hcas[0]["cm"]["sent_req"], 3) << "of messages and faults only what there was";
  EXPECT_FALSE(hcas[0]["cm"].contains("sent_rep"));
  EXPECT_EQ(hcas[0]["cm"]["closed_too_many_half_open"], 0);
  for (const char* event : {"requests", "answered", "timed_out", "served", "refused"})
    EXPECT_TRUE(hcas[0]["cm"].contains(std::string{"sidr_"} + event)) << event;
  EXPECT_EQ(hcas[0]["cm"]["sidr_refused"], 5);
  hcas[0].erase("cm");
  EXPECT_EQ(
      dump(hcas),
      R"([{"name":"soft0","state":"active","driver":"soft","wire":"net_memif0","link_layer":"infiniband",)"
      R"("mad":"wire","problem":"","capabilities":{"max_segments":null,"receives_chains":true,)"
      R"("multicast":"joined groups","removal_events":false},"guid":"0x0002c903000a0b01","gid":"fe80::2:c903:a:b01","lid":1,"lmc":0,"sm_lid":1,)"
      R"("mtu":2048,"rate_mbps":10000,"pkeys":[65535,32769],"subnet_administrator":true,)"
      R"("drops":{}}])");
  EXPECT_EQ(
      dump(to_json(node.rows.neighbours)),
      R"([{"address":"10.0.0.2","iface":"ib0","state":"reachable",)"
      R"("lladdr":"00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:02","lid":2,"paths":[],)"
      R"("qpn":1191,"sl":0,"worker":"","mode":"UD","rate_mbps":0,"mtu":2044,"held":0,"age_ms":1500}])");
  EXPECT_EQ(dump(to_json(node.rows.routes[2])),
            R"({"to":"192.168.2.0/24","kind":"static","action":"forward","metric":0,)"
            R"("state":"active","iface":"ib0","via":["10.0.0.2","10.0.0.3"],"weights":[],)"
            R"("dead":["10.0.0.3"]})");
  EXPECT_EQ(dump(to_json(node.rows.routes[3])),
            R"({"to":"192.168.2.0/24","kind":"kernel","action":"forward","metric":20,)"
            R"("state":"inactive","iface":"ib0","via":["10.0.0.4","fe80::5"],"weights":[3,1],)"
            R"("dead":[]})");
  EXPECT_EQ(
      dump(to_json(node.stats.workers())),
      R"([{"worker":0,"lcore":1,"interfaces":["ib0","eth0"],"neighbours":0,"table_bytes":8192,"connections":3,)"
      R"("rx_packets":0,"handed_on":0,"spread_over":[],"punts":0,"answers":0,"loops":100,"busy_loops":0,"busy_cycles":0}])");
  EXPECT_EQ(dump(to_json(node.stats.drops()[1])),
            R"({"reason":"ib_pkey","where":"soft0","packets":12})");
  EXPECT_EQ(
      dump(to_json(node.view.subnet_administration()[0])),
      R"({"hca":"soft0","sm_lid":1,"problem":"","administrator":true,"client":{"sent":9,"retried":0,)"
      R"("answered":0,"refused":0,"timed_out":0,"unmatched":0,"malformed":0,)"
      R"("busy":0,"send_failed":0,"overflowed":0,"segments":0,"tables_stopped":0,)"
      R"("tables_given_up":0,"reports":0,"reports_repeated":0,"reports_garbled":0,)"
      R"("reports_foreign":0},"mads":{"sent":12,"undeliverable":1},)"
      R"("smps":{"sent":5,"resent":1,"answered":3,"silent":1,"send_failed":0},"groups":[)"
      R"({"mgid":"ff12:401b:ffff::ffff:ffff","mlid":49152,"pkey":65535,"qkey":2147552027,)"
      R"("mtu":2048,"members":[{"port_gid":"fe80::2:c903:a:b01","join_state":1}]}],)"
      R"("ports":[{"gid":"fe80::2:c903:a:b01","lid":1}]})");
}

TEST(Render, ConfigHasSectionsAndKeysOfTheFile) {
  const FakeNode node;
  const Json config = to_json(node.rows.config);
  EXPECT_EQ(config["hca"]["soft0"]["guid"], "0x0002c903000a0b01");
  EXPECT_EQ(config["hca"]["soft0"]["pkeys"], Json::array({0xffff}));
  EXPECT_EQ(config["link"]["ib0"]["address"], Json::array({"10.0.0.1/24"}));
  EXPECT_EQ(config["subnet"]["qkey"], 0x8001'0b1bU);
  EXPECT_EQ(config["neighbour-cache"]["negative"], 3);
  EXPECT_FALSE(config.contains("route"));
}

TEST(Render, P18_SharedAddressesOfALink) {
  link::SharedGroupInfo group;
  group.iface = "ib0";
  group.addresses = {wire::IpAddr::v4(0x0a00'0064)};
  group.state = "member";
  group.members.push_back({wire::Gid::of(wire::kDefaultGidPrefix, 1), "", true, "member", {}, 3});
  group.counters.taken_over = 2;
  group.counters.refused[static_cast<std::size_t>(link::SharedRefusal::kStranger)] = 5;
  const Json row = to_json(group);
  EXPECT_EQ(row["addresses"], Json::array({"10.0.0.100"}));
  EXPECT_EQ(row["taken_over"], 2);
  EXPECT_EQ(row["adverts_refused"], (Json{{"stranger", 5}}));
  EXPECT_EQ(row["members"][0]["hosts"], 3);
  EXPECT_EQ(row["members"][0]["self"], true);
}

TEST(Render, TextThatIsNotUtf8) {
  mgmt::LinkInfo link;
  link.reason = "a\xff";
  EXPECT_NE(dump(to_json(link)).find("a\xef\xbf\xbd"), std::string::npos);
}

TEST(TextTable, AlignsColumnsAndNumbers) {
  const Json rows = Json::parse(R"([{"n":"a","v":5,"x":{"y":1}},{"n":"longer","v":12345,"x":{}}])");
  EXPECT_EQ(list_text(rows, {{"NAME", "n"}, {"V", "v"}, {"XY", "x.y"}, {"NONE", "q"}}),
            "NAME        V  XY  NONE\n"
            "a           5   1\n"
            "longer  12345\n");
  EXPECT_EQ(list_text(Json::array(), {{"NAME", "n"}}), "none\n");
}

TEST(TextTable, NumbersThatPeopleWriteInHexadecimal) {
  const Json rows = Json::parse(R"([{"pkey":32769,"qkey":1,"qpn":1191,"lid":1191,"pkeys":[1,2]}])");
  EXPECT_EQ(
      list_text(rows,
                {{"P", "pkey"}, {"Q", "qkey"}, {"QPN", "qpn"}, {"LID", "lid"}, {"T", "pkeys"}}),
      "     P           Q       QPN   LID  T\n"
      "0x8001  0x00000001  0x0004a7  1191  0x0001, 0x0002\n");
}

TEST(TextTable, ObjectsAreOneLineAKey) {
  const Json object = Json::parse(
      R"({"name":"a","on":true,"none":{},"list":["x","y"],"inner":{"k":1,"longer":2},)"
      R"("rows":[{"mlid":49152,"members":[{"g":"x","j":1},{"g":"y","j":2}]}],"after":null})");
  EXPECT_EQ(object_text(object),
            "name   a\n"
            "on     yes\n"
            "none   none\n"
            "list   x, y\n"
            "inner\n"
            "  k       1\n"
            "  longer  2\n"
            "rows\n"
            "    mlid  members\n"
            "  0xc000  g=x j=1, g=y j=2\n"
            "after\n");
}

}  // namespace
}  // namespace ipoib::app
