// SPDX-License-Identifier: BSD-3-Clause
#include "tests/flood/participants.h"

#include <algorithm>

#include "lib/link/link_info.h"
#include "lib/mgmt/node_totals.h"
#include "lib/wire/igmp.h"

namespace ipoib::flood {
namespace {

using namespace std::chrono_literals;
using wire::IpAddr;

std::uint32_t key_of(const Host& host) {
  return static_cast<std::uint32_t>(host.side) << 24 | host.number;
}

/// Half of the hosts of each IP version look for their router before anything is sent to them.
bool looks_for_router(const Host& host) {
  return host.side == Side::kEthernet && host.number / 2 % 2 == 0;
}

bool within(TimePoint event, TimePoint begin, Duration limit) {
  return event != TimePoint::min() && event - begin <= limit;
}

}  // namespace

Participants::Participants(FloodNode& node, SimHosts& hosts, bool reports, bool long_packets)
    : node_{node}, hosts_{hosts}, reports_on_{reports}, long_packets_{long_packets} {
  hosts_.on_packet = [this](const Host& host, const Mark& mark) { on_packet(host, mark); };
  hosts_.on_router = [this](const Host& host) {
    const auto it = by_key_.find(key_of(host));
    if (it == by_key_.end()) return;
    Newcomer& n = newcomers_[it->second];
    if (n.router_asked != TimePoint::min() && n.router_found == TimePoint::min())
      n.router_found = node_.now();
  };
  hosts_.on_mad = [this](unsigned number, std::span<const std::byte> octets) {
    wire::SaMad mad;
    if (wire::parse_sa_mad(octets, mad) != wire::MadError::kNone) return;
    const bool good = mad.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kGetResp) &&
                      mad.hdr.mad.status.host() == 0;
    if (!good || number >= SimHosts::kMost) return;
    joined_.resize(std::max<std::size_t>(joined_.size(), number + 1));
    joined_[number] = true;
    const auto it = by_key_.find(key_of({Side::kCable, number}));
    if (it == by_key_.end()) return;
    Newcomer& n = newcomers_[it->second];
    if (n.joined == TimePoint::min()) n.joined = node_.now();
  };
  // An ICMP error "fragmentation needed".
  hosts_.on_other = [this](const Host&, std::span<const std::byte> packet) {
    if (packet.size() > 22 && packet[9] == std::byte{1} && packet[20] == std::byte{3} &&
        packet[21] == std::byte{4})
      ++outcome_.too_big.good;
  };
}

bool Participants::establish() {
  for (unsigned i = 0; i < kEstablished; ++i) {
    hosts_.add(Side::kEthernet);
    hosts_.add(Side::kCable);
  }
  const auto run = [this](Duration d) {
    for (const TimePoint end = node_.now() + d; node_.now() < end;) {
      node_.step();
      hosts_.receive();
    }
  };
  joined_.resize(kEstablished);
  for (int round = 0; round < 10 && !std::ranges::all_of(joined_, std::identity{}); ++round) {
    for (unsigned i = 0; i < kEstablished; ++i) {
      if (joined_[i]) continue;
      hosts_.ask_to_join({Side::kCable, i});
      run(1ms);
    }
    run(100ms);
  }
  for (int round = 0; round < 4; ++round) {
    for (unsigned i = 0; i < kEstablished; ++i) {
      stream(2 * i);
      stream(2 * i + 1);
      run(1ms);
    }
    run(500ms);
  }
  look_at_neighbours();
  const bool good = outcome_.lost_neighbours == 0 && std::ranges::all_of(joined_, std::identity{});
  restart();
  return good;
}

void Participants::restart() {
  ++epoch_;
  outcome_ = {};
  newcomers_.clear();
  by_key_.clear();
  reports_.clear();
  settled_ = 0;
  streamed_ = 0;
  stream_begin_ = node_.now();
  for (Pace* const pace : {&appear_, &report_, &long_, &command_, &look_}) pace->due = node_.now();
}

/// Sends packet `number` of the stream. Host n talks with host n of the other side, so that both
/// are of one IP family.
void Participants::stream(std::uint64_t number) {
  const auto n = static_cast<unsigned>(number / 2 % kEstablished);
  const bool to_cable = number % 2 == 0;
  const Host from{to_cable ? Side::kEthernet : Side::kCable, n};
  const Host to{to_cable ? Side::kCable : Side::kEthernet, n};
  ++(to_cable ? outcome_.to_cable : outcome_.to_ethernet).all;
  hosts_.send(from, marked(from.ip(), to.ip(), kStream, epoch_, 0));
}

void Participants::step() {
  const TimePoint now = node_.now();
  const auto due =
      static_cast<std::uint64_t>((now - stream_begin_) / 1us) * 2 * kStreamRate / 1'000'000;
  if (!winding_down_)
    for (; streamed_ < due; ++streamed_) stream(streamed_);
  newcomers(now);
  if (reports_on_) report(now);
  if (long_packets_ && !winding_down_ && long_.is_due(now)) {
    // Even numbers have IPv4. The limits of ICMP errors to one host must not be reached.
    const unsigned n = static_cast<unsigned>(outcome_.too_big.all) * 2 % kEstablished;
    const Host from{Side::kCable, n}, to{Side::kEthernet, n};
    ++outcome_.too_big.all;
    hosts_.send(from, marked(from.ip(), to.ip(), kLong, epoch_, 0, 1800, true));
  }
  if (!winding_down_ && command_.is_due(now)) command(now);
  if (look_.is_due(now)) look_at_neighbours();
  hosts_.receive();
}

void Participants::newcomers(TimePoint now) {
  if (!winding_down_ && appear_.is_due(now)) {
    const Side side = newcomers_.size() % 2 == 0 ? Side::kCable : Side::kEthernet;
    Newcomer n;
    n.host = hosts_.add(side);
    n.appeared = now;
    // The host is new for the subnet administrator, too, but not always for the node.
    by_key_[key_of(n.host)] = newcomers_.size();
    newcomers_.push_back(n);
  }
  for (std::size_t i = settled_; i < newcomers_.size(); ++i) advance(newcomers_[i], now);
  while (settled_ < newcomers_.size() && now - newcomers_[settled_].appeared > 8s) ++settled_;
}

void Participants::advance(Newcomer& n, TimePoint now) {
  static constexpr Duration kAgain = 1s, kGiveUp = 5s;
  if (now - n.appeared > kGiveUp) return;
  const auto again = [now](TimePoint& last) {
    if (last != TimePoint::min() && now - last < kAgain) return false;
    last = now;
    return true;
  };
  const bool on_cable = n.host.side == Side::kCable;
  if (on_cable && n.joined == TimePoint::min()) {
    if (again(n.asked)) hosts_.ask_to_join(n.host);
    return;
  }
  if (looks_for_router(n.host)) {
    if (n.router_found == TimePoint::min() && again(n.router_asked)) hosts_.ask_for_router(n.host);
    return;
  }
  if (n.reached != TimePoint::min() || n.sent == 3 || !again(n.last_sent)) return;
  if (n.first_sent == TimePoint::min()) n.first_sent = now;
  const Host from{on_cable ? Side::kEthernet : Side::kCable, n.host.number % kEstablished};
  hosts_.send(from, marked(from.ip(), n.host.ip(), kNew, n.host.number, n.sent++));
}

void Participants::on_packet(const Host& host, const Mark& mark) {
  if (mark.kind.host() == kStream && mark.id.host() == epoch_)
    ++(host.side == Side::kCable ? outcome_.to_cable : outcome_.to_ethernet).good;
  if (mark.kind.host() != kNew) return;
  const auto it = by_key_.find(key_of(host));
  if (it == by_key_.end()) return;
  Newcomer& n = newcomers_[it->second];
  if (n.reached == TimePoint::min()) n.reached = node_.now();
  if (mark.sequence.host() == 0 && n.first_arrived == TimePoint::min())
    n.first_arrived = node_.now();
}

/// Hosts report groups in turn; the router must know each of them a second later.
void Participants::report(TimePoint now) {
  if (!winding_down_ && report_.is_due(now)) {
    const Host host{Side::kEthernet, 2 * static_cast<unsigned>(next_group_ % (kEstablished / 2))};
    const std::uint32_t group = 0xef01'0000 + ++next_group_;
    const auto packet = wire::make_igmp(
        host.ip(), wire::MembershipReport{.version = wire::MembershipVersion::kV2,
                                          .records = {{.type = wire::RecordType::kIsExclude,
                                                       .group = IpAddr::v4(group)}}});
    node_.give(Side::kEthernet, ethernet(wire::group_mac(IpAddr::v4(group)), host.mac(),
                                         wire::EtherType::kIpv4, packet));
    reports_.push_back({group, now});
  }
  for (Report& r : reports_) {
    if (r.known || now - r.sent < 950ms || now - r.sent > 1050ms) continue;
    const auto& parts = *node_.node().parts;
    const auto id = parts.interfaces.find("eth0")->control->id();
    const auto* const membership = parts.multicast->router().membership(id, route::IpFamily::kIpv4);
    const auto rows = membership->groups(now);
    const auto known = IpAddr::v4(r.group);
    r.known = std::ranges::any_of(rows, [&](const auto& row) { return row.group == known; });
    // One look is enough, because looking takes time.
    if (!r.known) r.sent = TimePoint{};
  }
}

void Participants::command(TimePoint now) {
  const std::uint32_t epoch = epoch_;
  ++outcome_.commands.all;
  node_.faces().loop.post([this, now, epoch] {
    static_cast<void>(node_.faces().view.links());
    static_cast<void>(node_.faces().stats.drops());
    if (epoch == epoch_ && node_.now() - now <= 100ms) ++outcome_.commands.good;
  });
}

void Participants::look_at_neighbours() {
  std::uint64_t lost = 0;
  const mgmt::NodeView& view = node_.faces().view;
  for (const Side side : {Side::kEthernet, Side::kCable}) {
    const auto id = node_.node()
                        .parts->interfaces.find(side == Side::kEthernet ? "eth0" : "ib0")
                        ->control->id();
    for (unsigned i = 0; i < kEstablished; ++i) {
      const auto row = view.neighbour({id, Host{side, i}.ip()});
      const bool valid = row && (row->phase == link::NeighbourPhase::kReachable ||
                                 row->phase == link::NeighbourPhase::kStale ||
                                 row->phase == link::NeighbourPhase::kProbe);
      lost += valid ? 0 : 1;
    }
  }
  outcome_.lost_neighbours = std::max(outcome_.lost_neighbours, lost);
}

Outcome Participants::outcome() const {
  Outcome o = outcome_;
  for (const Newcomer& n : newcomers_) {
    if (n.host.side == Side::kCable) {
      ++o.joins.all;
      o.joins.good += within(n.joined, n.appeared, 1s);
      if (n.joined == TimePoint::min()) continue;
    } else if (looks_for_router(n.host)) {
      ++o.found.all;
      o.found.good += within(n.router_found, n.appeared, 3s);
      continue;
    }
    for (Share* const share : {&o.first_1s, &o.first_3s, &o.resolved}) ++share->all;
    o.first_1s.good += within(n.first_arrived, n.first_sent, 1s);
    o.first_3s.good += within(n.first_arrived, n.first_sent, 3s);
    o.resolved.good += within(n.reached, n.first_sent, 3s);
  }
  for (const Report& r : reports_) {
    ++o.reports.all;
    o.reports.good += r.known;
  }
  return o;
}

}  // namespace ipoib::flood
