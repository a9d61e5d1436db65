// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/multicast/record_budget.h"

#include <algorithm>
#include <variant>

namespace ipoib::route {
namespace {

std::uint64_t cost_of(const wire::MembershipMessage& message) {
  if (const auto* query = std::get_if<wire::MembershipQuery>(&message))
    return 1 + query->sources.size();
  std::uint64_t cost = 0;
  for (const auto& r : std::get<wire::MembershipReport>(message).records)
    cost += 1 + r.sources.size();
  return std::max(cost, std::uint64_t{1});
}

}  // namespace

void RecordBudget::start_interval(TimePoint now) {
  const auto intervals = (now - next_) / kInterval + 1;
  next_ += kInterval * intervals;
  const auto n = static_cast<std::uint64_t>(intervals);
  used_ -= std::min(used_, n * kRecordsPerLink);
  for (auto& [host, used] : used_by_) used -= std::min(used, n * kRecordsPerHost);
  std::erase_if(used_by_, [](const auto& host) { return host.second == 0; });
}

bool RecordBudget::has_room(const wire::IpAddr& host, bool known, TimePoint now) {
  if (now >= next_) start_interval(now);
  const auto it = used_by_.find(host);
  return used_ < (known ? kRecordsPerLink : kRecordsPerLink / 2) &&
         (it == used_by_.end() || it->second < kRecordsPerHost);
}

void RecordBudget::take(const wire::IpAddr& host, const wire::MembershipMessage& message) {
  const std::uint64_t cost = cost_of(message);
  used_ += cost;
  used_by_[host] += cost;
}

}  // namespace ipoib::route
