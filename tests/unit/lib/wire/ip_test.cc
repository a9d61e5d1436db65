// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace ipoib::wire {
namespace {

TEST(InternetChecksum, KnownValues) {
  EXPECT_EQ(internet_checksum({}), 0xffff);
  // The octets are those of RFC 1071 §3; their sum is ddf2.
  const std::array<std::byte, 8> rfc1071{std::byte{0x00}, std::byte{0x01}, std::byte{0xf2},
                                         std::byte{0x03}, std::byte{0xf4}, std::byte{0xf5},
                                         std::byte{0xf6}, std::byte{0xf7}};
  EXPECT_EQ(internet_checksum(rfc1071), static_cast<std::uint16_t>(~0xddf2U));
  EXPECT_EQ(internet_checksum(std::span{rfc1071}.first(3)), static_cast<std::uint16_t>(~0xf201U));
}

/// Computes the checksum as RFC 1071 describes it: the sum of 16-bit big-endian words, with an odd
/// octet padded on the right.
std::uint16_t checksum_by_words(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

TEST(InternetChecksum, AgreesWithWordsAtEveryLength) {
  std::mt19937 random{1071};
  std::vector<std::byte> bytes(1600);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t len = 0; len <= bytes.size(); ++len)
    ASSERT_EQ(internet_checksum(std::span{bytes}.first(len)),
              checksum_by_words(std::span{bytes}.first(len)))
        << len;
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  EXPECT_EQ(internet_checksum(bytes), checksum_by_words(bytes));
}

TEST(ParseIp, ReadsBothFamilies) {
  EXPECT_EQ(parse_ip("10.0.0.1"), IpAddr::v4(0x0a000001));
  EXPECT_EQ(parse_ip("255.255.255.255"), IpAddr::v4(0xffffffff));
  const auto v6 = parse_ip("fd00::1");
  ASSERT_TRUE(v6);
  EXPECT_FALSE(v6->is_v4());
  EXPECT_EQ(v6->bytes[0], std::byte{0xfd});
  EXPECT_EQ(v6->bytes[15], std::byte{1});
  for (const char* text :
       {"0.0.0.0", "10.0.0.1", "::", "fd00::1", "fe80::202:c903:a1:b204", "2001:db8:1:2:3:4:5:6"})
    EXPECT_EQ(to_string(parse_ip(text).value()), text);
}

TEST(ParseIp, RefusesAllElse) {
  for (const std::string& text :
       {std::string{}, std::string{"10.0.0"}, std::string{"10.0.0.256"}, std::string{"10.0.0.1 "},
        std::string{" 10.0.0.1"}, std::string{"10.0.0.1/24"}, std::string{"010.0.0.1"},
        std::string{"1:2"}, std::string{"fd00:::1"}, std::string{"fd00::1%ib0"},
        std::string{"::ffff:10.0.0.1"}, std::string("10.0.0.1\0x", 10), std::string(100, '1'),
        std::string(100, ':')})
    EXPECT_FALSE(parse_ip(text)) << text;
}

struct PrefixCase {
  const char* text;
  const char* network;
  const char* broadcast;  ///< Null if there is none.
};

TEST(IpPrefix, NetworkAndDirectedBroadcast) {
  for (const auto& c :
       std::initializer_list<PrefixCase>{{"0.0.0.0/0", "0.0.0.0", "255.255.255.255"},
                                         {"10.1.2.3/8", "10.0.0.0", "10.255.255.255"},
                                         {"192.0.2.77/24", "192.0.2.0", "192.0.2.255"},
                                         {"10.1.7.9/13", "10.0.0.0", "10.7.255.255"},
                                         {"10.1.9.9/17", "10.1.0.0", "10.1.127.255"},
                                         {"10.0.0.6/30", "10.0.0.4", "10.0.0.7"},
                                         {"10.0.0.7/31", "10.0.0.6", nullptr},
                                         {"10.0.0.7/32", "10.0.0.7", nullptr},
                                         {"::/0", "::", nullptr},
                                         {"fd00:1:2:3ff:4::1/54", "fd00:1:2::", nullptr},
                                         {"fd00::1/64", "fd00::", nullptr},
                                         {"fd00::1/128", "fd00::1", nullptr}}) {
    const auto prefix = parse_prefix(c.text);
    ASSERT_TRUE(prefix) << c.text;
    EXPECT_EQ(to_string(*prefix), c.text);
    EXPECT_EQ(to_string(network(*prefix)), c.network) << c.text;
    const auto broadcast = directed_broadcast(*prefix);
    EXPECT_EQ(broadcast ? to_string(*broadcast) : "none", c.broadcast ? c.broadcast : "none")
        << c.text;
  }
}

TEST(IpPrefix, U03_BroadcastOfTheClassfulNetOfASubnet) {
  struct Case {
    const char* prefix;
    const char* net;        ///< Null if there is none.
    const char* broadcast;  ///< Null if there is none.
  };
  for (const auto& c :
       std::initializer_list<Case>{{"10.1.2.3/24", "10.0.0.0/8", "10.255.255.255"},
                                   {"1.2.3.4/9", "1.0.0.0/8", "1.255.255.255"},
                                   {"126.128.0.0/9", "126.0.0.0/8", "126.255.255.255"},
                                   {"128.0.1.1/30", "128.0.0.0/16", "128.0.255.255"},
                                   {"172.16.5.1/17", "172.16.0.0/16", "172.16.255.255"},
                                   {"191.255.7.1/24", "191.255.0.0/16", "191.255.255.255"},
                                   {"192.0.2.77/25", "192.0.2.0/24", "192.0.2.255"},
                                   {"223.255.255.9/30", "223.255.255.0/24", "223.255.255.255"},
                                   {"10.1.2.3/8", nullptr, nullptr},        // the whole net
                                   {"172.16.5.1/16", nullptr, nullptr},     // the same of class B
                                   {"192.168.1.1/24", nullptr, nullptr},    // the same of class C
                                   {"172.16.5.1/12", nullptr, nullptr},     // several nets
                                   {"192.168.0.1/23", nullptr, nullptr},    // two nets
                                   {"0.0.0.0/0", nullptr, nullptr},         // all nets
                                   {"10.1.2.4/31", nullptr, nullptr},       // no broadcasts
                                   {"10.1.2.4/32", nullptr, nullptr},       // a host
                                   {"0.1.2.3/24", nullptr, nullptr},        // this net
                                   {"127.1.2.3/24", nullptr, nullptr},      // loopback
                                   {"224.1.2.3/25", nullptr, nullptr},      // class D
                                   {"240.1.2.3/25", nullptr, nullptr},      // class E
                                   {"255.255.255.0/25", nullptr, nullptr},  // the same
                                   {"fd00::1/64", nullptr, nullptr}}) {
    const auto prefix = parse_prefix(c.prefix);
    ASSERT_TRUE(prefix) << c.prefix;
    const auto net = subnetted_net(*prefix);
    EXPECT_EQ(net ? to_string(*net) : "none", c.net ? c.net : "none") << c.prefix;
    const auto broadcast = net_broadcast(*prefix);
    EXPECT_EQ(broadcast ? to_string(*broadcast) : "none", c.broadcast ? c.broadcast : "none")
        << c.prefix;
  }
}

TEST(IpPrefix, ContainsItsFamilyOnly) {
  struct Case {
    const char* prefix;
    const char* addr;
    bool inside;
  };
  for (const auto& c : std::initializer_list<Case>{{"10.0.0.1/24", "10.0.0.255", true},
                                                   {"10.0.0.1/24", "10.0.1.0", false},
                                                   {"0.0.0.0/0", "203.0.113.9", true},
                                                   {"0.0.0.0/0", "fd00::1", false},
                                                   {"::/0", "fd00::1", true},
                                                   {"::/0", "10.0.0.1", false},
                                                   {"10.0.0.1/32", "10.0.0.1", true},
                                                   {"10.0.0.1/32", "10.0.0.2", false},
                                                   {"fd00:0:0:8::/61", "fd00:0:0:f::1", true},
                                                   {"fd00:0:0:8::/61", "fd00:0:0:10::1", false}})
    EXPECT_EQ(contains(parse_prefix(c.prefix).value(), parse_ip(c.addr).value()), c.inside)
        << c.prefix << ' ' << c.addr;
}

TEST(IpPrefix, RefusesAllElse) {
  for (const char* text :
       {"", "/", "10.0.0.1", "10.0.0.1/", "/24", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/+8",
        "10.0.0.1/024", "10.0.0.1/24 ", "10.0.0.1/24/8", "10.0.0.1/256", "10.0.0.1/280",
        "10.0.0.1/x", "fd00::1/129", "fd00::/64x", "10.0.0.1/255.255.255.0"})
    EXPECT_FALSE(parse_prefix(text)) << text;
}

TEST(IpAddr, AddressesHaveTheOrderOfTheirOctets) {
  std::mt19937 random{7};
  for (int i = 0; i < 10'000; ++i) {
    IpAddr a, b;
    for (std::byte& octet : a.bytes) octet = static_cast<std::byte>(random());
    b = a;
    if (i % 17 != 0)
      for (std::size_t at = random() % 16; at < 16; ++at)
        b.bytes[at] = static_cast<std::byte>(random());
    EXPECT_EQ(a <=> b, a.bytes <=> b.bytes) << to_string(a) << " " << to_string(b);
  }
}

TEST(IpAddr, MappedFormKeepsFamiliesApart) {
  EXPECT_TRUE(IpAddr::v4(0).is_v4());
  EXPECT_EQ(IpAddr::v4(0xc0000201).v4_host(), 0xc0000201U);
  EXPECT_FALSE(parse_ip("::1").value().is_v4());
}

}  // namespace
}  // namespace ipoib::wire
