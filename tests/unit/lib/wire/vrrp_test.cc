// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/vrrp.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace ipoib::wire {
namespace {

IpAddr vrrp_addr(std::string_view text) {
  return *parse_ip(text);
}

VrrpAdvertisement advertisement4() {
  return {vrrp_addr("10.0.0.1"), 7, 100, 30, {vrrp_addr("10.0.0.100"), vrrp_addr("10.0.0.101")}};
}
VrrpAdvertisement advertisement6() {
  return {vrrp_addr("fe80::1"), 7, 100, 30, {vrrp_addr("fd00::100")}};
}

VrrpError vrrp_error_of(std::span<const std::byte> packet) {
  const auto parsed = parse_vrrp(packet);
  return parsed ? VrrpError::kNone : parsed.error();
}

// Written by hand from the figures of RFC 5798 §5.1 and §5.2; a script computed the checksums.
TEST(Vrrp, P18_ReadsAnAdvertisementOctetByOctet) {
  const std::vector<std::uint8_t> octets = {0x45, 0xc0, 0x00, 0x20, 0x00, 0x01, 0x00, 0x00,
                                            0xff, 0x70, 0xd0, 0x99, 0x0a, 0x00, 0x00, 0x01,
                                            0xe0, 0x00, 0x00, 0x12, 0x31, 0x33, 0x96, 0x01,
                                            0x00, 0x1e, 0x43, 0xb9, 0x0a, 0x00, 0x00, 0x64};
  const auto parsed = parse_vrrp(std::as_bytes(std::span{octets}));
  ASSERT_TRUE(parsed) << vrrp_error_name(parsed.error());
  EXPECT_EQ(*parsed,
            (VrrpAdvertisement{vrrp_addr("10.0.0.1"), 51, 150, 30, {vrrp_addr("10.0.0.100")}}));
}

TEST(Vrrp, P18_ReadsAdvertisementsThatItBuilds) {
  for (const auto& a : {advertisement4(), advertisement6()}) {
    const auto packet = build_vrrp(a);
    EXPECT_EQ(vrrp_router_of(packet), 7);
    const auto parsed = parse_vrrp(packet);
    ASSERT_TRUE(parsed) << vrrp_error_name(parsed.error());
    EXPECT_EQ(*parsed, a);
    auto padded = packet;
    padded.resize(padded.size() + 9);
    EXPECT_EQ(vrrp_error_of(padded), VrrpError::kNone);
  }
}

TEST(Vrrp, P18_NamesEachError) {
  const auto v4 = build_vrrp(advertisement4());
  const auto v6 = build_vrrp(advertisement6());
  const auto changed = [](std::vector<std::byte> packet, std::size_t at, unsigned value) {
    packet.at(at) = static_cast<std::byte>(value);
    return packet;
  };
  EXPECT_EQ(vrrp_error_of(changed(v4, 8, 254)), VrrpError::kHops);
  EXPECT_EQ(vrrp_error_of(changed(v6, 7, 64)), VrrpError::kHops);
  EXPECT_EQ(vrrp_error_of(changed(v4, 20, 0x21)), VrrpError::kVersion);
  EXPECT_EQ(vrrp_error_of(changed(v4, 20, 0x32)), VrrpError::kVersion);
  EXPECT_EQ(vrrp_error_of(changed(v4, 22, 1)), VrrpError::kChecksum);
  EXPECT_EQ(vrrp_error_of(changed(v4, 15, 9)), VrrpError::kChecksum) << "another source";
  EXPECT_EQ(vrrp_error_of(changed(v6, 23, 9)), VrrpError::kChecksum);
  EXPECT_EQ(vrrp_error_of(changed(v4, 23, 3)), VrrpError::kLength);
  EXPECT_EQ(vrrp_error_of(changed(v4, 23, 0)), VrrpError::kLength);
  EXPECT_EQ(vrrp_error_of(changed(v4, 6, 0x20)), VrrpError::kLength) << "a fragment";
  EXPECT_EQ(vrrp_router_of(changed(v4, 20, 0x21)), std::nullopt) << "version 2 is for others";
  EXPECT_EQ(vrrp_router_of(changed(v4, 9, 6)), std::nullopt);
  for (std::size_t n = 0; n < v4.size(); ++n)
    EXPECT_EQ(vrrp_error_of(std::span{v4}.first(n)), VrrpError::kLength) << n;
  for (std::size_t n = 0; n < v6.size(); ++n)
    EXPECT_EQ(vrrp_error_of(std::span{v6}.first(n)), VrrpError::kLength) << n;
}

// Sanitizers watch the reads.
TEST(Vrrp, P18_ReadsNothingBeyondGarbage) {
  std::mt19937_64 random{1};
  for (int i = 0; i < 20'000; ++i) {
    auto packet = build_vrrp(i % 2 == 0 ? advertisement4() : advertisement6());
    for (unsigned n = 0; n < 1 + random() % 4; ++n)
      packet[random() % packet.size()] = static_cast<std::byte>(random());
    packet.resize(random() % (packet.size() + 1));
    const std::vector<std::byte> exact{packet};
    static_cast<void>(vrrp_router_of(exact));
    static_cast<void>(parse_vrrp(exact));
  }
}

}  // namespace
}  // namespace ipoib::wire
