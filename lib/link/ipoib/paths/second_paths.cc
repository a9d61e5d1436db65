// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/paths/second_paths.h"

#include <memory>
#include <utility>

#include "lib/wire/sa_records.h"

namespace ipoib::link {
namespace {

/// The LID after this one of a port, the first one after the last. Subnet managers give all ports of a
/// subnet one LMC.
std::uint16_t next_lid(std::uint16_t lid, std::uint8_t lmc) {
  const unsigned mask = (1U << lmc) - 1;
  return static_cast<std::uint16_t>((lid & ~mask) | ((lid + 1U) & mask));
}

}  // namespace

bool SecondPaths::ask(const wire::Gid& gid, const fabric::AhAttr& first, std::uint8_t least_mtu,
                      Handler handler, TimePoint now) {
  const fabric::PortAttr& port = actions_.port();
  if (port.lmc == 0 || port.link_layer != fabric::LinkLayer::kInfiniBand || first.global)
    return false;
  waiting_.push_back({gid, first, least_mtu, std::move(handler)});
  submit_waiting(now);
  return true;
}

void SecondPaths::submit_waiting(TimePoint now) {
  while (!waiting_.empty() && queries_.size() < kMaxQueries) {
    Question next = std::move(waiting_.front());
    waiting_.pop_front();
    submit(std::move(next), now);
  }
}

void SecondPaths::submit(Question question, TimePoint now) {
  const fabric::PortAttr& port = actions_.port();
  const wire::Gid gid = question.gid;
  const fabric::LidPair lids{
      .slid = next_lid(port.lid_with(question.first.src_path_bits), port.lmc),
      .dlid = next_lid(question.first.dlid, port.lmc)};
  const auto id = std::make_shared<sa::TransactionId>(sa::kNoTransaction);
  *id = sa_.submit(
      sa::find_path_between(port.gid(), gid, pkey_, lids),
      [this, id, gid, lids, least_mtu = question.least_mtu, handler = std::move(question.handler)](
          const sa::Outcome& outcome, TimePoint at) {
        queries_.erase(*id);
        handler(accept(gid, lids, least_mtu, outcome), at);
        submit_waiting(at);
      },
      now);
  queries_.insert(*id);
}

void SecondPaths::clear() {
  for (const sa::TransactionId id : queries_) sa_.cancel(id);
  queries_.clear();
  waiting_.clear();
}

std::optional<PathTable::ReadyPath> SecondPaths::accept(const wire::Gid& gid,
                                                        const fabric::LidPair& lids,
                                                        std::uint8_t least_mtu,
                                                        const sa::Outcome& outcome) const {
  if (!outcome) return std::nullopt;
  const auto record = outcome->record<wire::PathRecord>();
  if (!record || record->dgid != gid || record->slid.host() != lids.slid ||
      record->dlid.host() != lids.dlid || record->hop_limit() > 1 ||
      wire::value_of(record->mtu) < least_mtu)
    return std::nullopt;
  return PathTable::ReadyPath{path_attr(*record, actions_.port()), wire::value_of(record->mtu),
                              wire::value_of(record->lifetime)};
}

}  // namespace ipoib::link
