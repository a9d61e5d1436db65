// SPDX-License-Identifier: BSD-3-Clause
// ARP on every kind of link: a message that parses is built again with the same octets. Where a
// word is written twice the parser ignores the first one, so there only the message must be the
// same.
#include <algorithm>

#include "lib/wire/arp.h"
#include "lib/wire/ibarp.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;
using ipoib::test::require;

void check(const LinkFormat& format, std::span<const std::byte> octets) {
  const auto arp = parse_arp(format, octets);
  if (!arp) return;
  const auto built = build_arp(*arp, format);
  if (format.gid_word_twice)
    require(parse_arp(format, built) == arp);
  else
    require(std::ranges::equal(built, octets.first(arp_len(format))));
}

void check_private_data(std::span<const std::byte> octets) {
  const auto broadcast = parse_ibarp_broadcast(octets);
  if (!broadcast) return require(!to_string(broadcast.error()).empty());
  require(parse_ibarp_broadcast(build_ibarp_broadcast(*broadcast)) == broadcast);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  for (const auto kind : {LinkKind::kInfiniband, LinkKind::kEthernet, LinkKind::kIbarp})
    check(kind, octets);
  LinkFormat twice = LinkKind::kIbarp;
  twice.gid_word_twice = true;
  check(twice, octets);
  check_private_data(octets);
  return 0;
}
