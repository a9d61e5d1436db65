// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/paths.h"

#include <optional>

#include "lib/sa/embedded/selectors.h"

namespace ipoib::sa {
namespace {

using wire::Gid;
using wire::MadStatus;
using wire::PathRecord;
using wire::Selector;

constexpr std::uint64_t kPathMtuMask = PathRecord::kMtuSel | PathRecord::kMtu;
constexpr std::uint64_t kPathRateMask = PathRecord::kRateSel | PathRecord::kRate;
constexpr std::uint64_t kPathLifeMask = PathRecord::kLifeSel | PathRecord::kLife;
constexpr std::uint8_t kReversible = 0x80;
constexpr std::uint32_t kRawTraffic = 1U << 31;
/// HopLimit of paths with a GRH.
constexpr std::uint8_t kHopLimit = 64;

/// One end of a path, named by GID, LID, both or neither.
struct End {
  bool by_gid, by_lid;
  const Gid& gid;
  std::uint16_t lid;

  [[nodiscard]] bool is_any() const { return !by_gid && !by_lid; }
  [[nodiscard]] bool contradicts_itself(const PortTable& ports) const {
    const Port *a = ports.find(gid), *b = ports.at(lid);
    return by_gid && by_lid && a != nullptr && b != nullptr && a != b;
  }
  [[nodiscard]] bool is(const PortTable& ports, const Port& port) const {
    return (!by_gid || port.gid == gid) && (!by_lid || port.lid == ports.base_of(lid));
  }
};

/// Calls `visit` with every port that matches the end, until it returns false.
template <class Visit>
void for_each(const PortTable& ports, const End& end, Visit visit) {
  if (!end.is_any()) {
    const Port* port = end.by_gid ? ports.find(end.gid) : ports.at(end.lid);
    if (port != nullptr && end.is(ports, *port)) visit(*port);
    return;
  }
  for (const auto& [gid, port] : ports.all())
    if (!visit(port)) return;
}

bool codes_exist(const PathQuery& q) {
  return (!q.has(kPathMtuMask) || is_mtu(q.record.mtu)) &&
         (!q.has(kPathRateMask) || is_rate(q.record.rate));
}

/// True if no path can match: raw packets, or a HopLimit above 1 (above 64 if paths have a GRH).
bool asks_the_impossible(const AdministratorConfig& config, const PathQuery& q) {
  if (q.has(PathRecord::kRaw) && (q.record.raw_flow_hop.host() & kRawTraffic) != 0) return true;
  return q.has(PathRecord::kHop) &&
         q.record.hop_limit() > (config.elsewhere_lid != 0 ? kHopLimit : 1);
}

/// Returns the assumed port of an unknown GID; none unless ports are addressed by GID.
std::optional<Port> port_elsewhere(const Subnet& subnet, const Gid& gid) {
  if (!subnet.by_gid() || gid.is_zero() || subnet.ports.find(gid) != nullptr) return std::nullopt;
  Port port;
  port.gid = gid;
  port.lid = subnet.config.elsewhere_lid;
  for (const Partition& p : subnet.config.partitions) port.partitions.insert(partition_of(p.pkey));
  return port;
}

/// Returns the subnet's rate, or a lower one on request; none if exactly another rate is requested.
std::optional<std::uint8_t> path_rate(const PathQuery& q, std::uint8_t rate) {
  if (!q.has(kPathRateMask)) return rate;
  const bool exactly_other = wire::selector_of(q.record.rate) == Selector::kExactly &&
                             !rate_satisfies(q.record.rate, rate);
  return exactly_other ? std::nullopt : choose_rate(q.record.rate, rate);
}

std::optional<std::uint16_t> pkey_between(const PathQuery& q, const Port& from, const Port& to) {
  if (!q.has(PathRecord::kPkey)) {
    const auto partition = shared_partition(from, to);
    if (!partition) return std::nullopt;
    return static_cast<std::uint16_t>(*partition | wire::kFullMemberBit);
  }
  const std::uint16_t wanted = partition_of(q.record.pkey.host());
  if (from.partitions.count(wanted) == 0 || to.partitions.count(wanted) == 0) return std::nullopt;
  return q.record.pkey.host();
}

/// Returns the code of the subnet's MTU, or of a smaller one of the two ports.
std::uint8_t largest_mtu(const AdministratorConfig& config, const Port& from, const Port& to) {
  std::uint8_t mtu = config.mtu;
  for (const Port* port : {&from, &to})
    if (!port->carries(mtu)) mtu = port->mtu;
  return mtu;
}

std::optional<PathRecord> unicast_path(const AdministratorConfig& config, const PathQuery& q,
                                       const Port& from, const Port& to) {
  const PathRecord& r = q.record;
  const std::uint8_t longest = from.gid == to.gid ? std::uint8_t{0} : config.lifetime;
  const auto pkey = pkey_between(q, from, to);
  const std::uint8_t largest = largest_mtu(config, from, to);
  const auto mtu = q.has(kPathMtuMask) ? choose_mtu(r.mtu, largest) : largest;
  const auto rate = path_rate(q, config.rate);
  const auto life = q.has(kPathLifeMask) ? choose_lifetime(r.lifetime, longest) : longest;
  if (!pkey || !mtu || !rate || !life || asks_the_impossible(config, q)) return std::nullopt;

  PathRecord path{};
  path.dgid = to.gid;
  path.sgid = from.gid;
  path.dlid.set(to.lid);
  path.slid.set(from.lid);
  if (config.elsewhere_lid != 0) path.raw_flow_hop.set(kHopLimit);
  path.reversible_numb = kReversible;
  path.pkey.set(*pkey);
  path.qos_sl.set(q.has(PathRecord::kSl) ? r.sl() : config.sl);
  path.mtu = exactly(*mtu);
  path.rate = exactly(*rate);
  path.lifetime = exactly(*life);
  return path;
}

/// Calls `visit` with the paths between two ports, one for each pair of their LIDs, until it returns
/// false. Those that share no LID come first, so that few paths are apart as far as the subnet allows.
/// A query that names a LID gets the paths of that one alone; NumbPath, if it is not 0, limits them.
template <class Visit>
void for_each_path(const Subnet& subnet, const PathQuery& q, const Port& from, const Port& to,
                   Visit visit) {
  auto path = unicast_path(subnet.config, q, from, to);
  if (!path) return;
  const unsigned lids = 1U << subnet.config.lmc;
  const unsigned wanted = q.record.reversible_numb & 0x7f;
  unsigned left = q.has(PathRecord::kNumbPath) && wanted != 0 ? wanted : lids * lids;
  for (unsigned i = 0; i < lids * lids && left != 0; ++i) {
    const unsigned source = i % lids, destination = (source + i / lids) % lids;
    path->slid.set(static_cast<std::uint16_t>(from.lid + source));
    path->dlid.set(static_cast<std::uint16_t>(to.lid + destination));
    if (q.has(PathRecord::kSlid) && path->slid != q.record.slid) continue;
    if (q.has(PathRecord::kDlid) && path->dlid != q.record.dlid) continue;
    --left;
    if (!visit(*path)) return;
  }
}

/// Returns the path to a group; a named SGID must be a member. SLID 0, not reversible, one path, no
/// check of MTU, rate and lifetime: a real SM answers the same way.
std::optional<PathRecord> multicast_path(const McGroup& group, const PathQuery& q) {
  const wire::McMemberRecord& g = group.record;
  const PathRecord& r = q.record;
  if (q.has(PathRecord::kSgid) && group.members.count(r.sgid) == 0) return std::nullopt;
  if (q.has(PathRecord::kPkey) && r.pkey != g.pkey) return std::nullopt;
  if (q.has(PathRecord::kDlid) && r.dlid != g.mlid) return std::nullopt;
  if (q.has(PathRecord::kSl) && r.sl() != g.sl()) return std::nullopt;
  if (q.has(PathRecord::kFlow) && r.flow_label() != g.flow_label()) return std::nullopt;
  if (q.has(PathRecord::kHop) && r.hop_limit() != g.hop_limit()) return std::nullopt;
  if (q.has(PathRecord::kTclass) && r.tclass != g.tclass) return std::nullopt;

  PathRecord path{};
  path.dgid = g.mgid;
  path.sgid = r.sgid;
  path.dlid = g.mlid;
  path.raw_flow_hop.set(g.flow_label() << 8 | g.hop_limit());
  path.tclass = g.tclass;
  path.reversible_numb = 1;
  path.pkey = g.pkey;
  path.qos_sl.set(g.sl());
  path.mtu = g.mtu;
  path.rate = g.rate;
  path.lifetime = g.lifetime;
  return path;
}

}  // namespace

Answer<std::vector<PathRecord>> find_paths(Subnet& subnet, const PathQuery& q, std::size_t limit) {
  const PathRecord& r = q.record;
  if (!codes_exist(q)) return refuse(MadStatus::kSaRequestInvalid);
  const bool pkey_exists = !q.has(PathRecord::kPkey) || subnet.has_partition(r.pkey.host());
  if (q.has(PathRecord::kSgid) && subnet.on_subnet(r.sgid) && pkey_exists &&
      subnet.ports.hear(r.sgid, q.from_lid, q.now) && q.has(PathRecord::kPkey))
    subnet.ports.add_partition(r.sgid, r.pkey.host());

  std::vector<PathRecord> paths;
  const auto add = [&](const PathRecord& path) {
    if (paths.size() < limit) paths.push_back(path);
    return paths.size() < limit;
  };
  if (q.has(PathRecord::kDgid) && r.dgid.is_multicast()) {
    const McGroup* const group = subnet.groups.find(r.dgid);
    if (const auto path = group != nullptr ? multicast_path(*group, q) : std::nullopt) add(*path);
    return paths;
  }
  const End destination{q.has(PathRecord::kDgid), q.has(PathRecord::kDlid), r.dgid, r.dlid.host()};
  // All paths of the subnet would be too many to search: only the requester's are.
  const bool from_requester =
      destination.is_any() && !q.has(PathRecord::kSgid) && !q.has(PathRecord::kSlid);
  const End source{q.has(PathRecord::kSgid), from_requester || q.has(PathRecord::kSlid), r.sgid,
                   from_requester ? q.from_lid : r.slid.host()};
  if (source.contradicts_itself(subnet.ports) || destination.contradicts_itself(subnet.ports))
    return refuse(MadStatus::kSaRequestInvalid);
  const auto elsewhere = q.has(PathRecord::kDgid) ? port_elsewhere(subnet, r.dgid) : std::nullopt;
  for_each(subnet.ports, source, [&](const Port& from) {
    if (elsewhere && destination.is(subnet.ports, *elsewhere))
      for_each_path(subnet, q, from, *elsewhere, add);
    for_each(subnet.ports, destination, [&](const Port& to) {
      for_each_path(subnet, q, from, to, add);
      return paths.size() < limit;
    });
    return paths.size() < limit;
  });
  return paths;
}

}  // namespace ipoib::sa
