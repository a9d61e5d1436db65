// SPDX-License-Identifier: BSD-3-Clause
// ARP on both kinds of link: a message that parses is built again with the same octets.
#include <algorithm>

#include "lib/wire/arp.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;

void check(LinkKind kind, std::span<const std::byte> octets) {
  const auto arp = parse_arp(kind, octets);
  if (!arp) return;
  ipoib::test::require(std::ranges::equal(build_arp(*arp), octets.first(arp_len(kind))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(LinkKind::kInfiniband, ipoib::test::input(data, size));
  check(LinkKind::kEthernet, ipoib::test::input(data, size));
  return 0;
}
