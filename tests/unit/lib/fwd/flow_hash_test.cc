// SPDX-License-Identifier: BSD-3-Clause
// The flow hash spreads flows evenly over the paths of a group, for many seeds.
#include "lib/fwd/flow_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

namespace ipoib::fwd {
namespace {

using wire::Ipv4Hdr;
using wire::Ipv6Hdr;

using HashPacket = std::uint32_t (*)(const rte_mbuf*, std::uint64_t seed, std::size_t at);

/// Hashes a packet that consists of a header and, if given, a source port.
template <class Hdr>
std::uint32_t hash(HashPacket function, const Hdr& hdr, std::optional<std::uint32_t> port,
                   std::uint64_t seed) {
  std::array<std::byte, sizeof(Hdr) + 4> bytes{};
  std::memcpy(bytes.data(), &hdr, sizeof(hdr));
  const wire::Be16 source{static_cast<std::uint16_t>(port.value_or(0))};
  std::memcpy(&bytes[sizeof(hdr)], &source, sizeof(source));
  rte_mbuf m{};
  m.buf_addr = bytes.data();
  m.data_len = static_cast<std::uint16_t>(sizeof(Hdr) + (port ? 4 : 0));
  return function(&m, seed, 0);
}

Ipv4Hdr header4(std::uint32_t host) {
  Ipv4Hdr hdr{};
  hdr.version_ihl = 0x45;
  hdr.protocol = static_cast<std::uint8_t>(wire::IpProto::kTcp);
  hdr.src = wire::Be32{0x0a00'0000 + host};
  hdr.dst = wire::Be32{0x0a01'0001};
  return hdr;
}
Ipv6Hdr header6(std::uint32_t host) {
  Ipv6Hdr hdr{};
  hdr.next_header = static_cast<std::uint8_t>(wire::IpProto::kUdp);
  hdr.src = *wire::parse_ip("fd00::");
  hdr.src.bytes[14] = static_cast<std::byte>(host >> 8);
  hdr.src.bytes[15] = static_cast<std::byte>(host);
  hdr.dst = *wire::parse_ip("fd00:1::1");
  return hdr;
}

// These hash flows that differ only in the source port, or only in the source host.
std::uint32_t hash_of_port4(std::uint32_t flow, std::uint64_t seed) {
  return hash<Ipv4Hdr>(&flow_hash4, header4(1), flow, seed);
}
std::uint32_t hash_of_host4(std::uint32_t flow, std::uint64_t seed) {
  return hash<Ipv4Hdr>(&flow_hash4, header4(flow), {}, seed);
}
std::uint32_t hash_of_port6(std::uint32_t flow, std::uint64_t seed) {
  return hash<Ipv6Hdr>(&flow_hash6, header6(1), flow, seed);
}
std::uint32_t hash_of_host6(std::uint32_t flow, std::uint64_t seed) {
  return hash<Ipv6Hdr>(&flow_hash6, header6(flow), {}, seed);
}

using Hash = std::uint32_t (*)(std::uint32_t flow, std::uint64_t seed);
constexpr std::uint32_t kFlows = 8192;

class FlowHashTest : public testing::TestWithParam<Hash> {
 protected:
  static std::uint32_t path(std::uint32_t hash, std::uint32_t paths) {
    return static_cast<std::uint32_t>(std::uint64_t{hash} * paths >> 32);
  }
  /// Each share is within six standard deviations of the mean of random choice.
  static void expect_even(const std::vector<std::uint32_t>& shares, double flows) {
    const double mean = flows / static_cast<double>(shares.size());
    for (const std::uint32_t n : shares) EXPECT_NEAR(n, mean, 6 * std::sqrt(mean));
  }
};

TEST_P(FlowHashTest, EachPathHasItsShareWhateverTheSeed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const std::uint32_t paths : {2U, 3U, 7U, 64U}) {
      std::vector<std::uint32_t> shares(paths);
      for (std::uint32_t i = 0; i < kFlows; ++i) ++shares[path(GetParam()(i, seed), paths)];
      SCOPED_TRACE(seed);
      expect_even(shares, kFlows);
    }
  }
}

TEST_P(FlowHashTest, TheSecondOfTwoRoutersUsesAllItsPaths) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (const std::uint32_t paths : {2U, 4U}) {
      std::vector<std::uint32_t> shares(paths);
      std::uint32_t arrived = 0;
      for (std::uint32_t i = 0; i < kFlows; ++i) {
        if (path(GetParam()(i, seed), paths) != 0) continue;  // it goes to another second router
        ++arrived;
        ++shares[path(GetParam()(i, seed + 1), paths)];
      }
      SCOPED_TRACE(seed);
      expect_even(shares, arrived);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllFlows, FlowHashTest,
                         testing::Values(&hash_of_port4, &hash_of_host4, &hash_of_port6,
                                         &hash_of_host6));

}  // namespace
}  // namespace ipoib::fwd
