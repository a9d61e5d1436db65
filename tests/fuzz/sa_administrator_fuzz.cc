// SPDX-License-Identifier: BSD-3-Clause
// A sequence of MADs to the embedded administrator, the last one cut short. For every input, each
// MAD ends in one counter; groups, members and ports stay consistent; the state and the sends for
// tables and subscriptions are bounded.
#include <algorithm>
#include <chrono>

#include "lib/sa/embedded/administrator.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib;
using ipoib::test::require;

sa::Administrator administrator() {
  sa::AdministratorConfig config;
  config.gid = wire::Gid::of(wire::kDefaultGidPrefix, 0x0002'c903'00a1'b201);
  config.lid = 1;
  config.partitions = {{0xffff}, {0x8002}};
  config.qkey = 0x0b1b;
  config.max_groups = 6;
  config.max_members = 8;
  config.max_ports = 4;
  config.max_subscriptions = 5;
  config.tables.max_tables = 3;
  config.tables.max_octets_unheard = 300;
  config.reports.max_waiting = 6;
  config.reports.max_outstanding = 2;
  return *sa::Administrator::create(config);
}

void require_consistent(const sa::Administrator& sa) {
  std::size_t members = 0;
  for (const auto& [mgid, group] : sa.groups()) {
    require(mgid.is_multicast() && wire::is_multicast_lid(group.record.mlid.host()));
    bool kept = group.configured;
    for (const auto& [gid, bits] : group.members) {
      require(sa.ports().count(gid) == 1 && bits != 0);
      kept = kept || (bits & 9) != 0;
      ++members;
    }
    require(kept);
  }
  require(sa.groups().size() <= 6 && members <= 8 && sa.ports().size() <= 4);

  require(sa.counters().ended() == sa.counters().received);
  require(sa.subscriptions().size() <= 5 && sa.tables().size() <= 3);
  require(sa.reporter().waiting() <= 6 && sa.reporter().outstanding() <= 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto octets = ipoib::test::input(data, size);
  sa::Administrator sa = administrator();
  TimePoint now{std::chrono::seconds(1)};
  while (!octets.empty()) {
    const auto mad = octets.first(std::min(octets.size(), wire::kMadLen));
    octets = octets.subspan(mad.size());
    // The transaction ID, which the administrator only copies, gives the sender and the time since
    // the last MAD.
    const auto tid = mad.size() > 15 ? std::to_integer<unsigned>(mad[15]) : 3U;
    now += std::chrono::seconds(tid);
    const auto from = static_cast<std::uint16_t>(tid % 8);
    const auto answer = sa.answer({from, 0, 1, wire::kDefaultPkey}, mad, now);
    if (answer) require((answer->hdr.mad.method & wire::kMethodResponse) != 0);
    unsigned sent = 0;
    sa.tick(now, [&sent](const fabric::MadAddress&, auto bytes) -> Status {
      const std::uint8_t method = wire::read<wire::MadHdr>(bytes)->method;
      require(method == 0x92 || method == 0x06);
      // Every third send finds the port full.
      return ++sent % 3 == 0 ? Status{fail(Errc::kUnavailable, "full")} : Status{};
    });
    require(sent <= 64 + 2);
    require_consistent(sa);
  }
  return 0;
}
