// One MAD as the answer to each kind of request a client makes, its transaction put right so that
// the contents are read: the handler is called at most once, and never told of octets that are not
// there.
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

void look_at(const sa::Outcome& outcome) {
  if (!outcome) {
    require(!sa::describe(outcome.error()).empty());
    return;
  }
  require(outcome->data.size() <= wire::kSaDataLen);
  require(outcome->record_len == 0 || outcome->data.size() % outcome->record_len == 0);
  for (std::size_t i = 0; i < outcome->count(); ++i) (void)outcome->record<wire::PathRecord>(i);
  require(!outcome->record<wire::McMemberRecord>(200));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fabric::ReceivedMad mad{{1, 0, 1, wire::kDefaultPkey}, {}};
  if (size != mad.bytes.size()) return 0;
  std::memcpy(mad.bytes.data(), data, size);
  const TimePoint now{std::chrono::seconds(1)};
  const wire::Gid gid = wire::Gid::of(wire::kDefaultGidPrefix, 1);
  const std::array<sa::Request, 5> requests = {
      sa::join_group(gid, gid, 0xffff, 1), sa::leave_group(gid, gid, 0xffff, 1),
      sa::list_groups(0xffff), sa::find_path(gid, gid, 0xffff), sa::class_port_info()};
  for (const sa::Request& request : requests) {
    sa::Client client{[](const auto&, auto) { return Status{}; }, {}, 1};
    client.set_sm(1, 0, now);
    int called = 0;
    const auto id = client.submit(
        request,
        [&called](const sa::Outcome& outcome, TimePoint) {
          ++called;
          look_at(outcome);
        },
        now);
    const wire::Be32 tid{id};
    std::memcpy(mad.bytes.data() + 12, &tid, sizeof(tid));
    client.on_mad(mad, now);
    client.on_mad(mad, now);
    require(called <= 1);
    const sa::ClientCounters& c = client.counters();
    require(c.answered + c.refused + c.busy + c.unmatched + c.malformed + c.segmented >= 2);
    client.shutdown(now);
    require(called == 1);
  }
  return 0;
}
