// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/second_paths.h"

#include <memory>
#include <utility>

#include "lib/sa/queries.h"
#include "lib/wire/sa_records.h"

namespace ipoib::link {

void SecondPaths::ask(const wire::Gid& gid, const fabric::AhAttr& first, Handler handler,
                      TimePoint now) {
  const fabric::PortAttr& port = actions_.port();
  if (port.lmc == 0 || port.link_layer != fabric::LinkLayer::kInfiniBand || first.global ||
      queries_.size() >= kMaxQueries)
    return;
  // Subnet managers give all ports of a subnet one LMC.
  const unsigned mask = (1U << port.lmc) - 1;
  const auto dlid = static_cast<std::uint16_t>((first.dlid & ~mask) | ((first.dlid + 1U) & mask));
  const auto id = std::make_shared<sa::TransactionId>(sa::kNoTransaction);
  *id = sa_.submit(
      sa::find_path_to_lid(port.gid(), gid, pkey_, dlid),
      [this, id, gid, dlid, handler = std::move(handler)](const sa::Outcome& outcome,
                                                          TimePoint at) {
        queries_.erase(*id);
        handler(accept(gid, dlid, outcome), at);
      },
      now);
  queries_.insert(*id);
}

void SecondPaths::clear() {
  for (const sa::TransactionId id : queries_) sa_.cancel(id);
  queries_.clear();
}

std::optional<fabric::AhAttr> SecondPaths::accept(const wire::Gid& gid, std::uint16_t dlid,
                                                  const sa::Outcome& outcome) const {
  if (!outcome) return std::nullopt;
  const auto record = outcome->record<wire::PathRecord>();
  if (!record || record->dgid != gid || record->dlid.host() != dlid || record->hop_limit() > 1)
    return std::nullopt;
  fabric::AhAttr attr;
  attr.dlid = dlid;
  attr.sl = record->sl();
  attr.rate = wire::value_of(record->rate);
  return attr;
}

}  // namespace ipoib::link
