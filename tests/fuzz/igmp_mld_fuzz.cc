// SPDX-License-Identifier: BSD-3-Clause
// IGMP and MLD from the IP header on: a parsed message is bounded by the octets, and parses to the
// same after being built again.
#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;
using ipoib::test::require;

/// Parses the octets, and the packet that is built from the message again.
template <auto kParse, class Make>
void check(std::span<const std::byte> octets, std::size_t address, Make make) {
  const auto parsed = kParse(octets);
  if (!parsed) {
    require(parsed.error() < MembershipFault::kCount);
    return;
  }
  if (const auto* report = std::get_if<MembershipReport>(&parsed->message)) {
    std::size_t size = 0;
    for (const auto& r : report->records) size += 4 + address + r.sources.size() * address;
    require(size <= octets.size());
  }
  const auto again =
      kParse(std::visit([&](const auto& m) { return make(parsed->src, m); }, parsed->message));
  require(again.has_value());
  if (const auto* report = std::get_if<MembershipReport>(&parsed->message)) {
    MembershipReport said = *report;
    said.unknown_records = 0;
    require(std::get<MembershipReport>(again->message) == said);
  } else {
    require(std::get<MembershipQuery>(again->message) ==
            std::get<MembershipQuery>(parsed->message));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  check<parse_igmp>(octets, 4, [](const IpAddr& s, const auto& m) { return make_igmp(s, m); });
  check<parse_mld>(octets, 16, [](const IpAddr& s, const auto& m) { return make_mld(s, m); });
  return 0;
}
