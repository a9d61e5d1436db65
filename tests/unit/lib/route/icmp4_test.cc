// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::IcmpHdr;
using wire::IpAddr;
using wire::Ipv4Hdr;

constexpr std::uint32_t kHost4 = 0xc0a8'0102;    // 192.168.1.2
constexpr std::uint32_t kRouter4 = 0xc0a8'0101;  // 192.168.1.1
constexpr IpAddr kOwn = IpAddr::v4(kRouter4);

std::vector<std::byte> packet4(std::uint8_t protocol, std::vector<std::byte> body,
                               std::uint16_t flags_offset = 0, std::uint32_t src = kHost4,
                               std::uint32_t dst = kRouter4) {
  Ipv4Hdr ip{0x45,
             0,
             Be16{static_cast<std::uint16_t>(20 + body.size())},
             Be16{7},
             Be16{flags_offset},
             9,
             protocol,
             Be16{},
             Be32{src},
             Be32{dst}};
  ip.checksum.set(wire::internet_checksum(wire::bytes_of(ip)));
  std::vector<std::byte> p(20 + body.size());
  std::memcpy(p.data(), &ip, 20);
  std::copy(body.begin(), body.end(), p.begin() + 20);
  return p;
}

std::vector<std::byte> icmp(std::uint8_t type, std::uint8_t code, std::size_t data,
                            std::uint32_t rest = 0x0001'0002) {
  std::vector<std::byte> b(8 + data, std::byte{0x5a});
  IcmpHdr h{type, code, Be16{}, Be32{rest}};
  std::memcpy(b.data(), &h, 8);
  h.checksum.set(wire::internet_checksum(b));
  std::memcpy(b.data(), &h, 8);
  return b;
}

Ipv4Hdr header_of(const std::vector<std::byte>& p) {
  return *wire::read<Ipv4Hdr>(p);
}

TEST(Icmp4Error, QuotesThePacketAndIsAddressedToItsSender) {
  const auto offending = packet4(17, std::vector<std::byte>(1000, std::byte{1}));
  const auto error = icmp4_error(offending, {3, 4, 1480}, kOwn);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->size(), 576U);
  const auto ip = header_of(*error);
  EXPECT_EQ(ip.src.host(), kRouter4);
  EXPECT_EQ(ip.dst.host(), kHost4);
  EXPECT_EQ(ip.total_len.host(), 576);
  EXPECT_EQ(wire::internet_checksum(std::span{*error}.first(20)), 0);
  EXPECT_EQ(wire::internet_checksum(std::span{*error}.subspan(20)), 0);
  const auto h = *wire::read<IcmpHdr>(*error, 20);
  EXPECT_EQ(h.type, 3);
  EXPECT_EQ(h.code, 4);
  EXPECT_EQ(h.rest.host(), 1480U);
  EXPECT_EQ(std::memcmp(error->data() + 28, offending.data(), 548), 0);
}

TEST(Icmp4Error, IsNotSentWhereRfc1812ForbidsIt) {
  const struct {
    const char* what;
    std::vector<std::byte> offending;
  } rows[] = {
      {"ICMP error", packet4(1, icmp(3, 1, 20))},
      {"ICMP redirect", packet4(1, icmp(5, 0, 20))},
      {"later fragment", packet4(17, std::vector<std::byte>(16), 0x0010)},
      {"multicast destination", packet4(17, std::vector<std::byte>(16), 0, kHost4, 0xe000'0001)},
      {"broadcast destination", packet4(17, std::vector<std::byte>(16), 0, kHost4, 0xffff'ffff)},
      {"multicast source", packet4(17, std::vector<std::byte>(16), 0, 0xe000'0001)},
      {"zero source", packet4(17, std::vector<std::byte>(16), 0, 0)},
      {"loopback source", packet4(17, std::vector<std::byte>(16), 0, 0x7f00'0001)},
      {"runt", std::vector<std::byte>(19, std::byte{0x45})},
      {"ICMP without a type", packet4(1, {})},
  };
  for (const auto& row : rows)
    EXPECT_FALSE(icmp4_error(row.offending, {11, 0, 0}, kOwn)) << row.what;
  EXPECT_TRUE(icmp4_error(packet4(1, icmp(8, 0, 8)), {11, 0, 0}, kOwn)) << "echo requests are told";
}

TEST(AnswerLocal4, TurnsAnEchoRequestIntoItsReply) {
  auto p = packet4(1, icmp(8, 0, 57));
  const auto asked = p;
  ASSERT_EQ(answer_local4(p, kOwn).verdict, LocalVerdict::kEchoReply);
  const auto ip = header_of(p);
  EXPECT_EQ(ip.src.host(), kRouter4);
  EXPECT_EQ(ip.dst.host(), kHost4);
  EXPECT_EQ(ip.ttl, 64);
  EXPECT_EQ(wire::internet_checksum(std::span{p}.first(20)), 0);
  EXPECT_EQ(wire::internet_checksum(std::span{p}.subspan(20)), 0);
  EXPECT_EQ(wire::read<IcmpHdr>(p, 20)->type, 0);
  EXPECT_EQ(std::memcmp(p.data() + 24, asked.data() + 24, p.size() - 24), 0)
      << "id, sequence, data";
}

// A request of Linux that forbids fragments has no identification. Its answer may be fragmented.
TEST(AnswerLocal4, P05_RepliesMayBeFragmented) {
  std::set<std::uint16_t> identifications;
  for (const std::uint32_t sequence : {1U, 2U, 3U}) {
    auto p = packet4(1, icmp(8, 0, 57, 0x0001'0000 | sequence), Ipv4Hdr::kDontFragment);
    ASSERT_EQ(answer_local4(p, kOwn).verdict, LocalVerdict::kEchoReply);
    EXPECT_EQ(header_of(p).flags_offset.host(), 0);
    EXPECT_EQ(wire::internet_checksum(std::span{p}.first(20)), 0);
    identifications.insert(header_of(p).id.host());
  }
  EXPECT_EQ(identifications.size(), 3U);

  auto p = packet4(1, icmp(8, 0, 57));
  ASSERT_EQ(answer_local4(p, kOwn).verdict, LocalVerdict::kEchoReply);
  EXPECT_EQ(header_of(p).id.host(), 7) << "the identification of the request is as good";
}

TEST(AnswerLocal4, EverythingElseHasItsVerdict) {
  auto bad_sum = packet4(1, icmp(8, 0, 8));
  bad_sum.back() ^= std::byte{1};
  struct {
    const char* what;
    std::vector<std::byte> p;
    LocalAnswer answer;
  } rows[] = {
      {"UDP", packet4(17, std::vector<std::byte>(8)), {LocalVerdict::kError, {3, 3, 0}}},
      {"TCP", packet4(6, std::vector<std::byte>(20)), {LocalVerdict::kError, {3, 2, 0}}},
      {"IGMP", packet4(2, std::vector<std::byte>(8)), {}},
      {"echo reply", packet4(1, icmp(0, 0, 8)), {}},
      {"echo of code 1", packet4(1, icmp(8, 1, 8)), {}},
      {"first fragment", packet4(1, icmp(8, 0, 8), 0x2000), {}},
      {"wrong ICMP checksum", bad_sum, {}},
      {"broadcast source", packet4(1, icmp(8, 0, 8), 0, 0xffff'ffff), {}},
      {"ICMP runt", packet4(1, std::vector<std::byte>(7)), {}},
      {"echo to a group", packet4(1, icmp(8, 0, 8), 0, kHost4, 0xe000'0001), {}},
      {"UDP to a group", packet4(17, std::vector<std::byte>(8), 0, kHost4, 0xe000'0001), {}},
  };
  for (auto& row : rows) {
    const auto before = row.p;
    EXPECT_EQ(answer_local4(row.p, kOwn), row.answer) << row.what;
    EXPECT_EQ(row.p, before) << row.what;
  }
}

TEST(AnswerLocal4, TruncatedPacketsOfEveryLengthAreIgnoredOrRefused) {
  const auto whole = packet4(1, icmp(8, 0, 32));
  for (std::size_t len = 0; len < whole.size(); ++len) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(len));
    EXPECT_NE(answer_local4(cut, kOwn).verdict, LocalVerdict::kEchoReply) << len;
  }
}

}  // namespace
}  // namespace ipoib::route
