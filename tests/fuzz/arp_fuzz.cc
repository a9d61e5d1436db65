// SPDX-License-Identifier: BSD-3-Clause
// ARP on both kinds of link: a message that parses is built again with the same octets.
#include <algorithm>

#include "lib/wire/ipoib.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;

template <class Hw>
void check(std::span<const std::byte> octets) {
  const auto arp = parse_arp<Hw>(octets);
  if (!arp) return;
  const auto made = make_arp(static_cast<ArpOp>(arp->op.host()), arp->sender_hw,
                             arp->sender_ip.host(), arp->target_hw, arp->target_ip.host());
  ipoib::test::require(std::ranges::equal(bytes_of(made), octets.first(sizeof(made))));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check<LinkAddr>(ipoib::test::input(data, size));
  check<MacAddr>(ipoib::test::input(data, size));
  return 0;
}
