// SPDX-License-Identifier: BSD-3-Clause
// MADs as the answer to each kind of request of a client, with the right transaction ID, so that
// the contents are read. The handler is called once, and never with octets that do not exist. All
// segments of a table may be present. Each report is acknowledged each time, and delivered at most
// once.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "lib/sa/client.h"
#include "lib/sa/queries.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib;
using ipoib::test::require;

constexpr std::size_t kMaxOctets = 2000;

void look_at(const sa::Outcome& outcome) {
  if (!outcome) {
    require(!sa::describe(outcome.error()).empty());
    return;
  }
  require(outcome->data.size() <= kMaxOctets);
  require(outcome->record_len == 0 || outcome->data.size() % outcome->record_len == 0);
  for (std::size_t i = 0; i < outcome->count(); ++i) (void)outcome->record<wire::PathRecord>(i);
  require(!outcome->record<wire::McMemberRecord>(outcome->count() + wire::kSaDataLen));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size % wire::kMadLen != 0) return 0;
  const TimePoint start{std::chrono::seconds(1)};
  const wire::Gid gid = wire::Gid::of(wire::kDefaultGidPrefix, 1);
  const std::array<sa::Request, 6> requests = {sa::join_group(gid, gid, 0xffff, 1),
                                               sa::leave_group(gid, gid, 0xffff, 1),
                                               sa::list_groups(0xffff),
                                               sa::find_path(gid, gid, 0xffff),
                                               sa::class_port_info(),
                                               sa::subscribe()};
  for (const sa::Request& request : requests) {
    TimePoint now = start;
    std::uint64_t sent = 0;
    sa::ClientConfig config;
    config.window = 3;
    config.max_table_octets = kMaxOctets;
    sa::Client client{[&sent](const auto&, auto) {
                        ++sent;
                        return Status{};
                      },
                      config, 1};
    client.set_sm(1, 0, now);
    int called = 0;
    std::uint64_t told = 0;
    client.set_report_handler([&told](const wire::Notice& n, TimePoint) {
      ++told;
      require(n.is_generic());
    });
    const auto id = client.submit(
        request,
        [&called](const sa::Outcome& outcome, TimePoint) {
          ++called;
          look_at(outcome);
        },
        now);
    const std::size_t n = size / wire::kMadLen;
    for (std::size_t i = 0; i < 2 * n; ++i) {  // All MADs, twice.
      fabric::ReceivedMad mad{{1, 0, 1, wire::kDefaultPkey}, {}};
      std::memcpy(mad.bytes.data(), data + (i % n) * wire::kMadLen, wire::kMadLen);
      if (mad.bytes[3] != std::byte{0x06}) {
        const wire::Be32 tid{id};
        std::memcpy(mad.bytes.data() + 12, &tid, sizeof(tid));
      }
      const std::uint64_t before = sent;
      client.on_mad(mad, now);
      require(sent <= before + 1);
      now += std::chrono::milliseconds(10);
    }
    require(called <= 1);
    const sa::ClientCounters& c = client.counters();
    require(c.answered + c.refused + c.busy + c.unmatched + c.malformed + c.segments +
                c.segments_repeated + c.segments_beyond + c.tables_stopped + c.tables_given_up +
                c.reports + c.reports_foreign >=
            2 * n);
    require(told + c.reports_repeated + c.reports_vendor + c.reports_garbled == c.reports);
    client.shutdown(now);
    require(called == 1);
  }
  return 0;
}
