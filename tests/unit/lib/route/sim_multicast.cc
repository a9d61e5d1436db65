// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/lib/route/sim_multicast.h"

#include <algorithm>

#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"

namespace ipoib::route::test {

using table::InterfaceId;
using wire::IpAddr;
using wire::MembershipQuery;
using wire::MembershipReport;
using wire::MembershipVersion;
using wire::RecordType;

void SimHost::send(RecordType type, const IpAddr& group, const std::vector<IpAddr>& sources) {
  MembershipReport report{version_, {{type, group, sources}}};
  if (version_ != MembershipVersion::kV3) {
    const bool leave = type == RecordType::kToInclude;
    if (leave && version_ == MembershipVersion::kV1) return;  // leaves silently
    report.records[0] = {leave ? type : RecordType::kIsExclude, group, {}};
  }
  sim_.transmit(
      link_, addr_.is_v4() ? wire::make_igmp(addr_, report) : wire::make_mld(addr_, report), this);
}

void SimHost::want(const IpAddr& group, const GroupFilter& filter) {
  if (filter.nothing())
    filters_.erase(group);
  else
    filters_[group] = filter;
  const RecordType type = filter.exclude ? RecordType::kToExclude : RecordType::kToInclude;
  send(type, group, filter.sources);
  sim_.after(sim_.up_to(std::chrono::seconds(1)), [this, group, filter, type] {
    const auto still = filters_.find(group);
    if ((still == filters_.end() ? GroupFilter{} : still->second) == filter)
      send(type, group, filter.sources);
  });
}

void SimHost::on_packet(std::span<const std::byte> packet) {
  const auto parsed = addr_.is_v4() ? wire::parse_igmp(packet) : wire::parse_mld(packet);
  const auto* query = parsed ? std::get_if<MembershipQuery>(&parsed->message) : nullptr;
  if (query == nullptr) return;
  for (const auto& [group, filter] : filters_) {
    if (!wire::is_any_address(query->group) && query->group != group) continue;
    sim_.after(sim_.up_to(query->max_response), [this, g = group, q = *query] { answer(g, q); });
  }
}

/// Source: RFC 3376 §5.2.
void SimHost::answer(const IpAddr& group, const MembershipQuery& query) {
  const auto it = filters_.find(group);
  if (it == filters_.end()) return;
  if (query.sources.empty() || version_ != MembershipVersion::kV3) {
    send(it->second.exclude ? RecordType::kIsExclude : RecordType::kIsInclude, group,
         it->second.sources);
    return;
  }
  std::vector<IpAddr> wanted;
  std::ranges::copy_if(query.sources, std::back_inserter(wanted),
                       [&](const IpAddr& s) { return it->second.matches(s); });
  if (!wanted.empty()) send(RecordType::kIsInclude, group, wanted);
}

void FakeDeliverySink::remove(InterfaceId in, const IpAddr& addr, const IpAddr& source) {
  ++writes;
  if (entries.erase({in, addr, source}) == 0) ++removed_unknown;
}

table::Delivery FakeDeliverySink::lookup(InterfaceId in, const IpAddr& addr,
                                         const IpAddr& source) const {
  for (const IpAddr& s : {source, IpAddr{}}) {
    const auto it = entries.find({in, addr, s});
    if (it != entries.end()) return it->second;
  }
  return {addr, source, in};
}

IpAddr SimMulticast::router_address(std::size_t router, InterfaceId link, IpFamily family) {
  if (family == IpFamily::kIpv4)
    return IpAddr::v4(0x0a00'0001U + (std::uint32_t{link} << 8) +
                      static_cast<std::uint32_t>(router));
  IpAddr a;
  a.bytes[0] = std::byte{0xfe};
  a.bytes[1] = std::byte{0x80};
  a.bytes[15] = static_cast<std::byte>(router + 1);
  return a;
}

SimMulticast::SimMulticast(std::uint64_t seed, std::size_t n, InterfaceId links,
                           const MembershipConfig& config, Addresses addresses)
    : SimTime{TimePoint{std::chrono::hours(1)}, seed} {
  for (std::size_t r = 0; r < n; ++r) routers.push_back(std::make_unique<Router>(*this));
  for (std::size_t r = 0; r < n; ++r) {
    for (InterfaceId link = 0; link < links; ++link) {
      MulticastRouter& control = routers[r]->control;
      if (!control.add_interface(link, config, now)) std::abort();
      const bool reverse = addresses == Addresses::kCrossed && link % 2 == 1;
      for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6})
        control.address_ready(link, router_address(reverse ? n - 1 - r : r, link, family), now);
    }
  }
}

SimHost& SimMulticast::add_host(InterfaceId link, IpFamily family, MembershipVersion version) {
  hosts.push_back(std::make_unique<SimHost>(
      *this, link, router_address(100 + hosts.size(), link, family), version));
  return *hosts.back();
}

void SimMulticast::Router::send(InterfaceId iface, std::vector<std::byte> packet) {
  ++sent[iface];
  if (alive) sim.transmit(iface, std::move(packet), this);
}

Duration SimMulticast::up_to(Duration d) {
  return Duration{std::uniform_int_distribution<Duration::rep>{0, d.count()}(random)};
}

void SimMulticast::transmit(InterfaceId link, std::vector<std::byte> packet, const void* sender) {
  const auto shared = std::make_shared<std::vector<std::byte>>(std::move(packet));
  for (const auto& router : routers)
    if (router.get() != sender && router->alive && !lost())
      after(std::chrono::microseconds(10), [this, r = router.get(), link, shared] {
        if (r->alive) r->control.on_packet(link, *shared, now);
      });
  for (const auto& host : hosts)
    if (host.get() != sender && host->link() == link && !lost())
      after(std::chrono::microseconds(10), [h = host.get(), shared] { h->on_packet(*shared); });
}

bool SimMulticast::lost() {
  return std::uniform_int_distribution<unsigned>{0, 99}(random) < loss_percent;
}

void SimMulticast::transmit(InterfaceId link, const SimPacket& packet, const void* sender) {
  auto& sent = copies(link, packet.group);
  if (sent.size() <= packet.number) sent.resize(packet.number + 1);
  ++sent[packet.number];
  const auto at_sender = std::ranges::find(routers, sender, &std::unique_ptr<Router>::get);
  for (auto router = routers.begin(); router != routers.end(); ++router) {
    if (router == at_sender || !(*router)->alive || !(*router)->has_link(link) || lost()) continue;
    const bool lower = (at_sender < router) != last_is_lowest;
    after(std::chrono::microseconds(10), [r = router->get(), link, packet, lower] {
      if (r->alive) r->on_packet(link, packet, lower);
    });
  }
}

void SimMulticast::stream(SimPacket packet, Duration interval, Duration time) {
  for (Duration when{}; when < time; when += interval, ++packet.number)
    after(when, [this, packet] { transmit(packet.home, packet); });
}

/// The reports of one_packet() in lib/fwd/multicast.cc.
void SimMulticast::Router::on_packet(InterfaceId link, const SimPacket& packet, bool lower) {
  if (!has_link(packet.home)) return;
  const bool evidence = packet.home != link;
  const table::Delivery d = deliveries.lookup(packet.home, packet.group, packet.source);
  const bool forwards = evidence && (d.from_reverse_path >> link & 1U) != 0;
  if (forwards || d.stands_by) {
    const auto [last, first] =
        reported.try_emplace({link, packet.home, packet.group, packet.source}, sim.now);
    if (first || sim.now - last->second >= ForwarderElection::kReportInterval) {
      last->second = sim.now;
      const HeardPacket heard{packet.group, packet.source, link, packet.home, lower};
      sim.after(std::chrono::microseconds(10), [this, heard] {
        if (alive) control.table().packet_heard(heard, sim.now);
      });
    }
  }
  if (evidence) return;
  for (InterfaceId out = 0; out < 64; ++out)
    if ((d.out >> out & 1U) != 0) sim.transmit(out, packet, this);
}

void SimMulticast::run(Duration time) {
  const auto next_deadline = [this] {
    std::optional<TimePoint> next;
    for (const auto& router : routers)
      if (router->alive) next = earlier(next, router->control.next_deadline());
    return next;
  };
  run_to(now + time, next_deadline, [this] {
    for (const auto& router : routers)
      if (router->alive) router->control.tick(now);
  });
}

}  // namespace ipoib::route::test
