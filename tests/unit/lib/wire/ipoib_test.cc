// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ipoib.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using test::number;
using test::to_hex;

const nlohmann::json& addressing() {
  static const auto json = test::load_vectors("addressing.json");
  return json;
}

TEST(Mgid, U01_U02_U04_U05_VectorsOfBothFamilies) {
  const auto& cases = addressing().at("mgid");
  ASSERT_EQ(cases.size(), 49U);
  for (const auto& c : cases) {
    const auto group = parse_ip(c.at("ip").get<std::string>());
    ASSERT_TRUE(group) << c;
    const Gid mgid = mgid_of(*group, static_cast<std::uint16_t>(number(c.at("link_pkey"))),
                             static_cast<std::uint8_t>(number(c.at("scope"))));
    EXPECT_EQ(to_hex(mgid.bytes), c.at("hex")) << c;
    EXPECT_EQ(to_string(mgid), c.at("mgid")) << c;
    EXPECT_EQ(parse_gid(c.at("mgid").get<std::string>()), mgid) << c;
  }
}

TEST(Mgid, DirectedBroadcastOfPrefixes) {
  for (const auto& c : addressing().at("directed_broadcast")) {
    const auto prefix = parse_prefix(c.at("prefix").get<std::string>());
    ASSERT_TRUE(prefix) << c;
    const auto broadcast = directed_broadcast(*prefix);
    ASSERT_TRUE(broadcast) << c;
    EXPECT_EQ(to_string(*broadcast), c.at("address"));
    EXPECT_EQ(to_string(broadcast_mgid(0xffff, 2)), c.at("mgid"));
  }
}

TEST(InterfaceId, U16_SetsTheUniversalBit) {
  const auto& cases = addressing().at("interface_id");
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    const std::uint64_t id =
        interface_id(std::stoull(c.at("guid").get<std::string>(), nullptr, 16));
    EXPECT_EQ(id, std::stoull(c.at("interface_id").get<std::string>(), nullptr, 16)) << c;
    EXPECT_EQ(to_string(Gid::of(kDefaultGidPrefix, id)), c.at("link_local")) << c;
  }
}

TEST(InterfaceId, U16_StrictRulesFollowTheFormOfTheGuid) {
  for (const auto& c : addressing().at("interface_id")) {
    const auto guid = std::stoull(c.at("guid").get<std::string>(), nullptr, 16);
    const bool plain = c.at("guid_is") == "EUI-64";
    const auto rule = plain ? InterfaceIdRule::kEui64 : InterfaceIdRule::kModifiedEui64;
    EXPECT_EQ(interface_id(guid, rule),
              std::stoull(c.at("interface_id").get<std::string>(), nullptr, 16))
        << c;
  }
  // The GUIDs have the universal/local bit of an EUI-64 of local scope; only the strict rules
  // change it.
  EXPECT_EQ(interface_id(0x0202'c903'00a1'b204, InterfaceIdRule::kEui64), 0x0002'c903'00a1'b204U);
  EXPECT_EQ(interface_id(0x0002'c903'00a1'b204, InterfaceIdRule::kModifiedEui64),
            0x0002'c903'00a1'b204U);
}

TEST(InterfaceId, U17_FromTheLid) {
  EXPECT_EQ(interface_id(0x0002'c903'00a1'b204, InterfaceIdRule::kLid, 0x1234), 0x1234U);
}

TEST(InterfaceId, OfAMacAddress) {
  const auto mac = parse_mac("00:11:22:33:44:55");
  ASSERT_TRUE(mac);
  EXPECT_EQ(interface_id(*mac), 0x0211'22ff'fe33'4455U);
}

TEST(LinkAddr, U19_VectorsDecodeAndEncode) {
  const auto& cases = addressing().at("lladdr");
  ASSERT_FALSE(cases.empty());
  for (const auto& c : cases) {
    const auto gid = parse_gid(c.at("gid").get<std::string>());
    ASSERT_TRUE(gid) << c;
    const LinkAddr built{static_cast<std::uint8_t>(number(c.at("flags"))),
                         Be24{static_cast<std::uint32_t>(number(c.at("qpn")))}, *gid};
    EXPECT_EQ(to_hex(bytes_of(built)), c.at("hex")) << c;

    const auto decoded = read<LinkAddr>(test::octets(c.at("hex")));
    ASSERT_TRUE(decoded) << c;
    EXPECT_EQ(*decoded, built);
    EXPECT_EQ(parse_link_addr(to_string(built)), built) << to_string(built);
  }
}

TEST(LinkAddr, SameInterfaceWhateverTheFlags) {
  const LinkAddr a{0, Be24{0x48}, Gid::of(kDefaultGidPrefix, 1)};
  LinkAddr b = a;
  b.flags = LinkAddr::kFlagRc;
  EXPECT_TRUE(a.same_interface(b));
  EXPECT_NE(a, b);
  b.qpn.set(0x49);
  EXPECT_FALSE(a.same_interface(b));
}

TEST(LinkAddr, TextForm) {
  const std::string text = "00:00:04:a7:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:0b:09";
  const auto addr = parse_link_addr(text);
  ASSERT_TRUE(addr);
  EXPECT_EQ(addr->flags, 0);
  EXPECT_EQ(addr->qpn.host(), 0x4a7U);
  EXPECT_EQ(addr->gid, Gid::of(kDefaultGidPrefix, 0x0002c903000a0b09));
  EXPECT_EQ(to_string(*addr), text);
  EXPECT_EQ(parse_link_addr("00:00:04:A7:FE:80:00:00:00:00:00:00:00:02:C9:03:00:0A:0B:09"), addr);

  for (std::size_t len = 0; len < text.size(); ++len)
    EXPECT_FALSE(parse_link_addr(std::string_view{text}.substr(0, len))) << len;
  EXPECT_FALSE(parse_link_addr(text + ":"));
  EXPECT_FALSE(parse_link_addr(text + "0"));
  // Each character of the text, in turn, is replaced by characters that are invalid at its
  // position.
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char wrong : {'g', '-', ' ', '\0', text[i] == ':' ? '0' : ':'}) {
      std::string bad = text;
      bad[i] = wrong;
      EXPECT_FALSE(parse_link_addr(bad)) << bad;
    }
  }
}

TEST(MacAddr, TextForm) {
  const auto mac = parse_mac("02:49:42:00:c0:FE");
  ASSERT_TRUE(mac);
  EXPECT_EQ(to_string(*mac), "02:49:42:00:c0:fe");
  for (const char* bad : {"", "02:49:42:00:c0", "02:49:42:00:c0:f", "02:49:42:00:c0:fe:00",
                          "02-49-42-00-c0-fe", "2:49:42:00:c0:fe0", "02:49:42:00:c0:fg"})
    EXPECT_FALSE(parse_mac(bad)) << bad;
}

TEST(Gid, TextForm) {
  EXPECT_EQ(to_string(Gid::of(kDefaultGidPrefix, 0x0002c903000a0b09)), "fe80::2:c903:a:b09");
  EXPECT_EQ(parse_gid("fe80::2:c903:a:b09"), Gid::of(kDefaultGidPrefix, 0x0002c903000a0b09));
  for (const std::string& bad :
       {std::string{}, std::string{"fe80"}, std::string{"fe80::g"}, std::string("fe80::1\0", 8),
        std::string(64, ':'), std::string{"10.0.0.1"}})
    EXPECT_FALSE(parse_gid(bad)) << bad;
}

}  // namespace
}  // namespace ipoib::wire
