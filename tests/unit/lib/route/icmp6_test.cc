// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp6.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "tests/support/addresses.h"

namespace ipoib::route {
namespace {

using wire::Be16;
using wire::Be32;
using wire::IcmpHdr;
using wire::IpAddr;
using wire::Ipv6Hdr;
using Bytes = std::vector<std::byte>;
using ipoib::test::ip;

const IpAddr kHost6 = ip("fd00::2");
const IpAddr kRouter6 = ip("fd00::1");
const IpAddr kGroup = ip("ff0e::7");

constexpr std::uint8_t kPacketTooBig = 2, kTimeExceeded = 3, kParameterProblem = 4;

Bytes octets(std::initializer_list<int> values) {
  Bytes out;
  for (const int v : values) out.push_back(static_cast<std::byte>(v));
  return out;
}
Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes packet6(std::uint8_t next_header, const Bytes& body, const IpAddr& src = kHost6,
              const IpAddr& dst = kRouter6) {
  const Ipv6Hdr hdr{
      Be32{0x6000'0000}, Be16{static_cast<std::uint16_t>(body.size())}, next_header, 9, src, dst};
  Bytes out(sizeof hdr);
  std::memcpy(out.data(), &hdr, sizeof hdr);
  return out + body;
}

/// Returns the ones' complement sum over pseudo header and message, computed octet by octet. It is
/// 0xffff if the checksum is right.
std::uint32_t sum6(const Bytes& p) {
  const auto hdr = *wire::read<Ipv6Hdr>(p);
  std::uint32_t sum = static_cast<std::uint32_t>(p.size() - sizeof hdr) + 58;
  const auto add = [&sum](std::size_t at, std::byte b) {
    sum += std::to_integer<std::uint32_t>(b) << (at % 2 == 0 ? 8 : 0);
  };
  for (std::size_t i = 0; i < 16; ++i) add(i, hdr.src.bytes[i]), add(i, hdr.dst.bytes[i]);
  for (std::size_t i = sizeof hdr; i < p.size(); ++i) add(i, p[i]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

/// Returns an echo request from `src` to `dst` with the right checksum.
Bytes echo(const IpAddr& src, const IpAddr& dst, std::size_t data = 9) {
  Bytes p =
      packet6(58, octets({128, 0, 0, 0, 0, 1, 0, 2}) + Bytes(data, std::byte{0x5a}), src, dst);
  const Be16 checksum{static_cast<std::uint16_t>(~sum6(p))};
  std::memcpy(&p[42], &checksum, 2);
  return p;
}

TEST(Icmp6Error, P05_QuotesUpTo1280OctetsAndIsAddressedToTheSender) {
  for (const std::size_t len : {60U, 1280U, 2044U}) {
    const Bytes offending = packet6(17, Bytes(len - 40, std::byte{1}));
    const auto error = icmp6_error(offending, {kPacketTooBig, 0, 1400}, kRouter6);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->size(), std::min<std::size_t>(48 + len, 1280));
    const auto hdr = *wire::read<Ipv6Hdr>(*error);
    EXPECT_EQ(hdr.version(), 6U);
    EXPECT_EQ(hdr.payload_len.host(), error->size() - 40);
    EXPECT_EQ(hdr.next_header, 58);
    EXPECT_EQ(hdr.src, kRouter6);
    EXPECT_EQ(hdr.dst, kHost6);
    const auto icmp = *wire::read<IcmpHdr>(*error, 40);
    EXPECT_EQ(icmp.type, 2);
    EXPECT_EQ(icmp.code, 0);
    EXPECT_EQ(icmp.rest.host(), 1400U);
    EXPECT_TRUE(std::equal(error->begin() + 48, error->end(), offending.begin()));
    EXPECT_EQ(sum6(*error), 0xffffU);
  }
}

TEST(Icmp6Error, P05_IsNotSentWhereItMayNotBe) {
  const wire::IcmpError expired{kTimeExceeded, 0, 0};
  const auto sent = [](const Bytes& offending, const wire::IcmpError& error) {
    return icmp6_error(offending, error, kRouter6).has_value();
  };
  const Bytes udp(8);
  EXPECT_TRUE(sent(packet6(17, udp), expired));
  for (const char* src : {"::", "::1", "ff02::1", "::1.2.3.4"})
    EXPECT_FALSE(sent(packet6(17, udp, ip(src)), expired)) << src;
  EXPECT_FALSE(sent(packet6(17, udp, IpAddr::v4(0x0a000001)), expired));
  EXPECT_FALSE(sent(Bytes(39), expired));
  EXPECT_FALSE(icmp6_error(packet6(17, udp), expired, kGroup));

  EXPECT_FALSE(sent(packet6(17, udp, kHost6, kGroup), expired));
  EXPECT_TRUE(sent(packet6(17, udp, kHost6, kGroup), {kPacketTooBig, 0, 1280}));
  EXPECT_TRUE(sent(packet6(17, udp, kHost6, kGroup), {kParameterProblem, 2, 40}));
  EXPECT_FALSE(sent(packet6(17, udp, kHost6, kGroup), {kParameterProblem, 1, 40}));

  for (const int type : {1, 2, 3, 4, 100, 127, 137})
    EXPECT_FALSE(sent(packet6(58, octets({type, 0, 0, 0, 0, 0, 0, 0})), expired)) << type;
  for (const int type : {128, 129, 135, 255})
    EXPECT_TRUE(sent(packet6(58, octets({type, 0, 0, 0, 0, 0, 0, 0})), expired)) << type;
}

TEST(Icmp6Error, P05_LooksBehindExtensionHeaders) {
  const wire::IcmpError expired{kTimeExceeded, 0, 0};
  const Bytes error = octets({1, 0, 0, 0, 0, 0, 0, 0});
  const auto may = [&](std::uint8_t next, const Bytes& body) {
    return icmp6_error(packet6(next, body), expired, kRouter6).has_value();
  };
  EXPECT_FALSE(may(0, octets({58, 0, 1, 4, 0, 0, 0, 0}) + error)) << "hop-by-hop";
  EXPECT_FALSE(may(60, octets({58, 1, 1, 12}) + Bytes(12) + error)) << "destination options";
  EXPECT_FALSE(may(43, octets({58, 0, 0, 0, 0, 0, 0, 0}) + error)) << "routing";
  EXPECT_FALSE(may(44, octets({58, 0, 0, 1, 0, 0, 0, 1}) + error)) << "first fragment";
  EXPECT_FALSE(may(44, octets({58, 0, 0, 8, 0, 0, 0, 1}) + Bytes(8, std::byte{200})))
      << "later fragments do not tell";
  EXPECT_TRUE(may(44, octets({17, 0, 0, 8, 0, 0, 0, 1}) + Bytes(8)));
  EXPECT_FALSE(may(0, octets({58, 1, 1, 4, 0, 0, 0, 0}))) << "longer than the packet";
  EXPECT_FALSE(may(0, octets({58, 0, 1}))) << "cut off";
  EXPECT_FALSE(may(58, {})) << "no type";
}

TEST(AnswerLocal6, P05_EchoRequestsAreAnswered) {
  for (const std::size_t data : {0U, 1U, 8U, 1400U}) {
    Bytes p = echo(kHost6, kRouter6, data);
    const Bytes request = p;
    ASSERT_EQ(answer_local6(p, kRouter6).verdict, LocalVerdict::kEchoReply) << data;
    const auto hdr = *wire::read<Ipv6Hdr>(p);
    EXPECT_EQ(hdr.src, kRouter6);
    EXPECT_EQ(hdr.dst, kHost6);
    EXPECT_EQ(hdr.hop_limit, 64);
    EXPECT_EQ(p[40], std::byte{129});
    EXPECT_TRUE(std::equal(p.begin() + 44, p.end(), request.begin() + 44));
    EXPECT_EQ(sum6(p), 0xffffU);
  }
}

TEST(AnswerLocal6, P05_EchoToAGroupIsAnsweredFromAnAddress) {
  Bytes p = echo(kHost6, kGroup);
  ASSERT_EQ(answer_local6(p, kRouter6).verdict, LocalVerdict::kEchoReply);
  EXPECT_EQ(wire::read<Ipv6Hdr>(p)->src, kRouter6);
  EXPECT_EQ(sum6(p), 0xffffU);
}

TEST(AnswerLocal6, P05_BadEchoRequestsAreIgnored) {
  const auto verdict = [](Bytes p) { return answer_local6(p, kRouter6).verdict; };
  Bytes wrong = echo(kHost6, kRouter6);
  wrong.back() ^= std::byte{1};
  EXPECT_EQ(verdict(wrong), LocalVerdict::kIgnore) << "checksum";
  EXPECT_EQ(verdict(echo(ip("ff02::1"), kRouter6)), LocalVerdict::kIgnore);
  EXPECT_EQ(verdict(echo(ip("::"), kRouter6)), LocalVerdict::kIgnore);
  Bytes reply = echo(kHost6, kRouter6);
  reply[40] = std::byte{129};
  EXPECT_EQ(verdict(reply), LocalVerdict::kIgnore);
  Bytes short_one = echo(kHost6, kRouter6);
  short_one.resize(44);
  EXPECT_EQ(verdict(short_one), LocalVerdict::kIgnore);
  EXPECT_EQ(verdict(Bytes(10)), LocalVerdict::kIgnore);
  EXPECT_EQ(verdict(packet6(44, octets({58, 0, 0, 1, 0, 0, 0, 1}) + Bytes(8))),
            LocalVerdict::kIgnore)
      << "a fragment";
}

TEST(AnswerLocal6, P05_WhatNobodyWantsIsTold) {
  Bytes udp = packet6(17, Bytes(8));
  auto answer = answer_local6(udp, kRouter6);
  EXPECT_EQ(answer.verdict, LocalVerdict::kError);
  EXPECT_EQ(answer.error.type, 1);
  EXPECT_EQ(answer.error.code, 4);
  Bytes unknown = packet6(60, octets({200, 0, 1, 4, 0, 0, 0, 0}) + Bytes(8));
  answer = answer_local6(unknown, kRouter6);
  EXPECT_EQ(answer.error.type, 4);
  EXPECT_EQ(answer.error.code, 1);
  EXPECT_EQ(answer.error.value, 40U) << "where the header is named";
  unknown = packet6(200, Bytes(8));
  EXPECT_EQ(answer_local6(unknown, kRouter6).error.value, 6U);
  Bytes nothing = packet6(59, {});
  EXPECT_EQ(answer_local6(nothing, kRouter6).verdict, LocalVerdict::kIgnore);
}

}  // namespace
}  // namespace ipoib::route
