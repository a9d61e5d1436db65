// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/linux_multicast.h"

#include "lib/base/contract.h"
#include "lib/mgmt/slow_path/ip_mbuf.h"

namespace ipoib::mgmt {
namespace {

constexpr Duration kTurn = std::chrono::seconds(1);

}  // namespace

Status LinuxMulticast::set(const KernelMulticastRoute& route, TimePoint now) {
  expects_management();
  Entry& entry = entries_[{route.group, route.source}];
  entry.route = route;
  return apply(entry, now);
}

Status LinuxMulticast::apply(Entry& entry, TimePoint now) {
  const KernelMulticastRoute& of_kernel = entry.route;
  route::LinuxMulticastRoute route{of_kernel.group, of_kernel.source};
  route.in = find_(of_kernel.in).value_or(table::kNoInterface);
  for (const std::int32_t ifindex : of_kernel.out) {
    const auto out = find_(ifindex);
    if (out && *out < table::kMaxMulticastInterfaces)
      route.out |= std::uint64_t{1} << *out;
    else if (ifindex != of_kernel.in)
      route.elsewhere = true;
  }
  Status set = table_.set_linux(route, now);
  entry.in = set ? route.in : table::kNoInterface;
  return set;
}

void LinuxMulticast::remove(const wire::IpAddr& group, const wire::IpAddr& source, TimePoint now) {
  expects_management();
  const auto it = entries_.find({group, source});
  if (it == entries_.end()) return;
  table_.remove_linux(group, source, now);
  entries_.erase(it);
}

void LinuxMulticast::mirrors_changed(TimePoint now) {
  expects_management();
  for (auto& [key, entry] : entries_) static_cast<void>(apply(entry, now));
}

bool LinuxMulticast::is_copy(std::span<const std::byte> packet) const {
  const wire::IpAddr source = source_of(packet);
  if (interfaces_.has(source)) return false;
  const wire::IpAddr group = destination_of(packet);
  auto it = entries_.find({group, source});
  if (it == entries_.end()) it = entries_.find({group, {}});
  return it != entries_.end() && it->second.in != table::kNoInterface;
}

void LinuxMulticast::tick(TimePoint now) {
  if (now < next_sample_) return;
  next_sample_ = now + kTurn;
  constexpr std::size_t kTurns = kSampleInterval / kTurn;
  table_.sample_linux((table_.linux_routes() + kTurns - 1) / kTurns);
}

}  // namespace ipoib::mgmt
