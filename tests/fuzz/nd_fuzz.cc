// SPDX-License-Identifier: BSD-3-Clause
// Neighbour discovery on every kind of link: a message that parses is built again and parses to the
// same. The octets are parsed as they are, and again with a correct length and checksum; otherwise
// the parser would stop at the checksum.
#include <cstring>
#include <vector>

#include "lib/wire/nd.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;

void check(const LinkFormat& format, std::span<const std::byte> octets) {
  const auto message = parse_nd(format, octets);
  if (!message) return;
  const auto again = parse_nd(format, build_nd(*message, format));
  ipoib::test::require(again.has_value() && *again == *message);
}

void check_all(std::span<const std::byte> octets) {
  check(LinkKind::kInfiniband, octets);
  check(LinkKind::kEthernet, octets);
  check(LinkKind::kIbarp, octets);
  LinkFormat twice = LinkKind::kIbarp;
  twice.gid_word_twice = true;
  check(twice, octets);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  check_all(octets);
  const auto ip = read<Ipv6Hdr>(octets);
  if (!ip || size < sizeof(Ipv6Hdr) + sizeof(IcmpHdr)) return 0;
  std::vector<std::byte> mended{octets.begin(), octets.end()};
  const Be16 payload{static_cast<std::uint16_t>(size - sizeof(Ipv6Hdr))};
  std::memcpy(mended.data() + offsetof(Ipv6Hdr, payload_len), &payload, sizeof payload);
  const auto icmp = std::span{mended}.subspan(sizeof(Ipv6Hdr));
  icmp[2] = icmp[3] = std::byte{0};
  const Be16 sum{icmp6_checksum(ip->src, ip->dst, icmp)};
  std::memcpy(icmp.data() + 2, &sum, sizeof sum);
  check_all(mended);
  return 0;
}
