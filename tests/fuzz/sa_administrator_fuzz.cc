// A sequence of MADs into the embedded administrator, the last one cut short: whatever it is asked,
// every MAD ends in one counter and groups, members and ports stay consistent.
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

  const sa::AdministratorCounters& c = sa.counters();
  std::uint64_t ended = c.answered + c.ignored_length + c.ignored_class + c.ignored_source +
                        c.ignored_no_request + c.ignored_rmpp;
  for (const auto& [status, n] : c.refused) ended += n;
  require(ended == c.received);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto octets = ipoib::test::input(data, size);
  sa::Administrator sa = administrator();
  TimePoint now{std::chrono::seconds(1)};
  while (!octets.empty()) {
    const auto mad = octets.first(std::min(octets.size(), wire::kMadLen));
    octets = octets.subspan(mad.size());
    // The transaction ID, which the administrator only copies, says who asks and how much later.
    const auto tid = mad.size() > 15 ? std::to_integer<unsigned>(mad[15]) : 3U;
    now += std::chrono::seconds(tid);
    const auto from = static_cast<std::uint16_t>(tid % 8);
    const auto answer = sa.answer({from, 0, 1, wire::kDefaultPkey}, mad, now);
    if (answer) require((answer->hdr.mad.method & wire::kMethodResponse) != 0);
    require_consistent(sa);
  }
  return 0;
}
