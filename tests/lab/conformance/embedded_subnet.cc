// SPDX-License-Identifier: BSD-3-Clause
#include "tests/lab/conformance/embedded_subnet.h"

#include <algorithm>

#include "lib/sa/queries.h"
#include "lib/sa/sa_mad.h"
#include "lib/wire/ipoib.h"

namespace ipoib::conformance {
namespace {

constexpr std::uint16_t kAdministratorLid = 1, kFirstLid = 2;

wire::Gid gid_of(std::uint64_t guid) {
  return wire::Gid::of(wire::kDefaultGidPrefix, guid);
}

sa::AdministratorConfig config() {
  sa::AdministratorConfig c;
  c.sm_key = kSmKey;
  c.gid = gid_of(0x10'0001);
  c.lid = kAdministratorLid;
  c.partitions = {{kDefault}, {kLab}, {kOther}, {kBare, false}};
  return c;
}

}  // namespace

EmbeddedSubnet::EmbeddedSubnet() : sa_{*sa::Administrator::create(config())} {}

PortUnderTest EmbeddedSubnet::port(PortId id) const {
  return {gid_of(0x10'0003 + 2 * id), static_cast<std::uint16_t>(kFirstLid + id)};
}

PortUnderTest EmbeddedSubnet::administrator() const {
  return {sa_.config().gid, sa_.config().lid};
}

void EmbeddedSubnet::put(std::uint16_t lid, const wire::SaMad& mad) {
  on_their_way_.emplace_back(lid, mad);
}

Status EmbeddedSubnet::send(PortId from, const fabric::MadAddress& to,
                            std::span<const std::byte, wire::kMadLen> mad) {
  if (to.lid != kAdministratorLid) return {};  // No port has this LID: the MAD is lost.
  const std::uint16_t lid = port(from).lid;
  if (const auto answer = sa_.answer({lid, 0, 1, wire::kDefaultPkey}, mad, now_)) put(lid, *answer);
  return {};
}

void EmbeddedSubnet::step(TimePoint until, const Deliver& deliver) {
  sa_.tick(now_, [this](const fabric::MadAddress& to, auto bytes) {
    put(to.lid, *wire::read<wire::SaMad>(bytes));
    return Status{};
  });
  if (on_their_way_.empty()) {
    now_ = std::max(now_, std::min(until, sa_.next_deadline().value_or(until)));
    return;
  }
  const auto arrived = std::exchange(on_their_way_, {});
  for (const auto& [lid, mad] : arrived) {
    if (lid < kFirstLid || lid >= kFirstLid + kPorts) continue;
    fabric::ReceivedMad received{.from = {kAdministratorLid, 0, 1, wire::kDefaultPkey},
                                 .bytes = {}};
    std::ranges::copy(wire::bytes_of(mad), received.bytes.begin());
    deliver(static_cast<PortId>(lid - kFirstLid), received);
  }
}

void EmbeddedSubnet::claim(const wire::Gid& gid, std::uint16_t lid) {
  now_ += sa_.config().port_silence;
  const auto broadcast = wire::broadcast_mgid(kDefault, sa_.config().scope);
  const auto join = sa::join_group(broadcast, gid, kDefault, wire::join_state::kFullMember);
  static_cast<void>(
      sa_.answer({lid, 0, 1, wire::kDefaultPkey}, wire::bytes_of(sa::request_mad(join, 1)), now_));
}

void EmbeddedSubnet::unplug(PortId id) {
  claim(gid_of(0x99'0000 + id), port(id).lid);
}

void EmbeddedSubnet::plug(PortId id) {
  claim(port(id).gid, port(id).lid);
}

}  // namespace ipoib::conformance
