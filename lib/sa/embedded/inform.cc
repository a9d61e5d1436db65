// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/inform.h"

namespace ipoib::sa {
namespace {

using wire::InformInfo;
using wire::InformInfoRecord;
using wire::MadStatus;

}  // namespace

Answer<InformInfo> set_inform_info(Subnet& subnet, const InformQuery& q,
                                   const fabric::MadAddress& from) {
  InformInfo info{};
  if (wire::parse_inform_info(wire::bytes_of(q.record), info) != wire::InformError::kNone)
    return refuse(MadStatus::kSaRequestInvalid);
  if (info.qpn.host() == 0) return refuse(MadStatus::kSaRequestInvalid);
  if (!info.gid.is_zero() && subnet.ports.find(info.gid) == nullptr)
    return refuse(MadStatus::kSaRequestInvalid);
  const MadStatus status = info.subscribe != 0 ? subnet.subscriptions.subscribe(from, info)
                                               : subnet.subscriptions.unsubscribe(from, info);
  if (status != MadStatus::kOk) return refuse(status);
  return info;
}

std::vector<InformInfoRecord> find_subscriptions(const Subnet& subnet, const InformRecordQuery& q,
                                                 std::size_t limit) {
  std::vector<InformInfoRecord> found;
  for (const auto& [subscriber, s] : subnet.subscriptions.all()) {
    if (!q.trusted && subscriber.lid != q.from_lid) continue;
    const Port* port = subnet.ports.at(subscriber.lid);
    InformInfoRecord record{};
    if (port != nullptr) record.subscriber_gid = port->gid;
    if (q.has(InformInfoRecord::kSubscriberGid) && q.record.subscriber_gid != record.subscriber_gid)
      continue;
    std::uint16_t number = 0;
    for (const InformInfo& info : s.wanted) {
      record.number.set(number++);
      record.inform = info;
      record.inform.qpn.set(0);
      if (q.has(InformInfoRecord::kNumber) && q.record.number != record.number) continue;
      if (found.size() >= limit) return found;
      found.push_back(record);
    }
  }
  return found;
}

}  // namespace ipoib::sa
