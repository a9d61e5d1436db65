#include "lib/sa/embedded/paths.h"

#include <optional>

#include "lib/sa/embedded/selectors.h"

namespace ipoib::sa {
namespace {

using wire::Gid;
using wire::MadStatus;
using wire::PathRecord;
using wire::Selector;

using R = PathRecord;
constexpr std::uint64_t kMtuMask = R::kMtuSel | R::kMtu;
constexpr std::uint64_t kRateMask = R::kRateSel | R::kRate;
constexpr std::uint64_t kLifeMask = R::kLifeSel | R::kLife;
constexpr std::uint8_t kReversible = 0x80;
constexpr std::uint32_t kRawTraffic = 1U << 31;
constexpr std::uint32_t kFlowMask = 0xf'ffffU << 8;

std::uint8_t exactly(std::uint8_t value) {
  return wire::with_selector(Selector::kExactly, value);
}

/// The port that GID and LID name, where they are in the mask and agree.
const Port* named(const PortTable& ports, bool by_gid, const Gid& gid, bool by_lid,
                  std::uint16_t lid) {
  const Port* port = by_gid ? ports.find(gid) : ports.at(lid);
  return port != nullptr && by_lid && port->lid != lid ? nullptr : port;
}

/// What no path here has: raw packets, another SL, a hop over a router.
bool asks_the_impossible(const PathQuery& q, std::uint8_t sl) {
  if (q.has(R::kRaw) && (q.record.raw_flow_hop.host() & kRawTraffic) != 0) return true;
  if (q.has(R::kSl) && q.record.sl() != sl) return true;
  return q.has(R::kHop) && q.record.hop_limit() > 1;
}

std::optional<std::uint16_t> pkey_between(const PathQuery& q, const Port& from, const Port& to) {
  if (!q.has(R::kPkey)) {
    const auto partition = shared_partition(from, to);
    if (!partition) return std::nullopt;
    return static_cast<std::uint16_t>(*partition | wire::kFullMemberBit);
  }
  const std::uint16_t wanted = partition_of(q.record.pkey.host());
  if (from.partitions.count(wanted) == 0 || to.partitions.count(wanted) == 0) return std::nullopt;
  return q.record.pkey.host();
}

std::optional<PathRecord> unicast_path(const AdministratorConfig& config, const PathQuery& q,
                                       const Port& from, const Port& to) {
  const PathRecord& r = q.record;
  const std::uint8_t least_life = from.gid == to.gid ? std::uint8_t{0} : config.lifetime;
  const auto pkey = pkey_between(q, from, to);
  const auto mtu = q.has(kMtuMask) ? choose_mtu(r.mtu, config.mtu) : config.mtu;
  const auto rate = q.has(kRateMask) ? choose_rate(r.rate, config.rate) : config.rate;
  const auto life = q.has(kLifeMask) ? choose_lifetime(r.lifetime, least_life) : least_life;
  if (!pkey || !mtu || !rate || !life || asks_the_impossible(q, config.sl)) return std::nullopt;

  PathRecord path{};
  path.dgid = to.gid;
  path.sgid = from.gid;
  path.dlid.set(to.lid);
  path.slid.set(from.lid);
  if (q.has(R::kFlow)) path.raw_flow_hop.set(r.raw_flow_hop.host() & kFlowMask);
  if (q.has(R::kTclass)) path.tclass = r.tclass;
  path.reversible_numb = kReversible;
  path.pkey.set(*pkey);
  path.qos_sl.set(config.sl);
  path.mtu = exactly(*mtu);
  path.rate = exactly(*rate);
  path.lifetime = exactly(*life);
  return path;
}

/// SLID 0, not reversible, one path: as a real SM answers.
std::optional<PathRecord> multicast_path(const Group& group, const PathQuery& q, const Gid& sgid) {
  const wire::McMemberRecord& g = group.record;
  const PathRecord& r = q.record;
  if (q.has(R::kPkey) && partition_of(r.pkey.host()) != partition_of(g.pkey.host()))
    return std::nullopt;
  if (q.has(R::kDlid) && r.dlid != g.mlid) return std::nullopt;
  if (q.has(kMtuMask) && !mtu_satisfies(r.mtu, wire::value_of(g.mtu))) return std::nullopt;
  if (q.has(kRateMask) && !rate_satisfies(r.rate, wire::value_of(g.rate))) return std::nullopt;
  if (q.has(kLifeMask) && !lifetime_satisfies(r.lifetime, wire::value_of(g.lifetime)))
    return std::nullopt;
  if (q.has(R::kReversible) && (r.reversible_numb & kReversible) != 0) return std::nullopt;
  if (asks_the_impossible(q, g.sl())) return std::nullopt;

  PathRecord path{};
  path.dgid = g.mgid;
  path.sgid = sgid;
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
  const bool sgid = q.has(R::kSgid), slid = q.has(R::kSlid);
  const bool dgid = q.has(R::kDgid), dlid = q.has(R::kDlid);
  if (!sgid && !slid) return refuse(MadStatus::kSaInsufficientComponents);
  const bool multicast = dgid && r.dgid.is_multicast();
  if ((sgid && !subnet.on_subnet(r.sgid)) || (dgid && !multicast && !subnet.on_subnet(r.dgid)))
    return refuse(MadStatus::kSaInvalidGid);

  const bool known_pkey = !q.has(R::kPkey) || subnet.has_partition(r.pkey.host());
  if (sgid && known_pkey && subnet.ports.hear(r.sgid, q.from_lid, q.now) && q.has(R::kPkey))
    subnet.ports.add_partition(r.sgid, r.pkey.host());

  std::vector<PathRecord> paths;
  const auto add = [&](const std::optional<PathRecord>& path) {
    if (path && paths.size() < limit) paths.push_back(*path);
  };
  const Port* from = named(subnet.ports, sgid, r.sgid, slid, r.slid.host());
  if (from == nullptr) return paths;
  if (multicast) {
    if (const Group* group = subnet.groups.find(r.dgid)) add(multicast_path(*group, q, from->gid));
  } else if (dgid || dlid) {
    const Port* to = named(subnet.ports, dgid, r.dgid, dlid, r.dlid.host());
    if (to != nullptr) add(unicast_path(subnet.config, q, *from, *to));
  } else {
    for (const auto& [gid, to] : subnet.ports.all()) {
      if (paths.size() >= limit) break;
      add(unicast_path(subnet.config, q, *from, to));
    }
  }
  return paths;
}

}  // namespace ipoib::sa
