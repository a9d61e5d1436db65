// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/membership.h"

#include <optional>

#include "lib/sa/embedded/selectors.h"
#include "lib/wire/ipoib.h"

namespace ipoib::sa {
namespace {

using wire::Gid;
using wire::MadStatus;
using wire::McMemberRecord;
using wire::Selector;
using wire::signature_of;

using R = McMemberRecord;
constexpr std::uint64_t kWho = R::kMgid | R::kPortGid | R::kJoin;
constexpr std::uint64_t kCreate = kWho | R::kQkey | R::kTclass | R::kPkey | R::kFlow | R::kSl;
constexpr std::uint64_t kMtuMask = R::kMtuSel | R::kMtu;
constexpr std::uint64_t kRateMask = R::kRateSel | R::kRate;
constexpr std::uint64_t kLifeMask = R::kLifeSel | R::kLife;
constexpr std::uint8_t kCreators =
    wire::join_state::kFullMember | wire::join_state::kSendOnlyFullMember;

constexpr std::uint16_t kSaAssigned = 0xa01b;  ///< Signature of MGIDs that the SA assigns.
constexpr std::uint8_t kLinkLocal = 2;         ///< MGID scope.

/// Parts of an MGID: ff, flags:4, scope:4, signature:16, P_Key:16 (IPoIB), remainder.
std::uint8_t flags_of(const Gid& mgid) {
  return (mgid.prefix() >> 52) & 0x0f;
}
std::uint8_t scope_of(const Gid& mgid) {
  return (mgid.prefix() >> 48) & 0x0f;
}
std::uint16_t pkey_of(const Gid& mgid) {
  return static_cast<std::uint16_t>(mgid.prefix() >> 16);
}
bool is_ipoib(const Gid& mgid) {
  return signature_of(mgid) == wire::kSignature4 || signature_of(mgid) == wire::kSignature6;
}

/// Default attributes of a group of the subnet.
McMemberRecord subnet_defaults(const AdministratorConfig& config) {
  McMemberRecord r{};
  r.qkey.set(config.qkey);
  r.mtu = exactly(config.mtu);
  r.rate = exactly(config.rate);
  r.lifetime = exactly(config.lifetime);
  r.sl_flow_hop = McMemberRecord::pack(config.sl, 0, 0);
  return r;
}

std::uint8_t scope_bits(std::uint8_t scope) {
  return static_cast<std::uint8_t>(scope << 4);
}

/// True if the given components agree with the headers of packets to the group.
bool headers_match(const McQuery& q, const McMemberRecord& group) {
  const McMemberRecord& r = q.record;
  if (q.has(R::kQkey) && r.qkey != group.qkey) return false;
  if (q.has(R::kTclass) && r.tclass != group.tclass) return false;
  if (q.has(R::kPkey) && partition_of(r.pkey.host()) != partition_of(group.pkey.host()))
    return false;
  if (q.has(R::kSl) && r.sl() != group.sl()) return false;
  if (q.has(R::kFlow) && r.flow_label() != group.flow_label()) return false;
  return !q.has(R::kHop) || r.hop_limit() == group.hop_limit();
}

/// True if the attributes of a join or lookup match the group. MLID, packet lifetime and scope are
/// not compared.
bool attributes_match(const McQuery& q, const McMemberRecord& group) {
  const McMemberRecord& r = q.record;
  if (q.has(kMtuMask) && !mtu_satisfies(r.mtu, wire::value_of(group.mtu))) return false;
  if (q.has(kRateMask) && !rate_satisfies(r.rate, wire::value_of(group.rate))) return false;
  return headers_match(q, group);
}

bool found_by(const McQuery& q, const McMemberRecord& group) {
  if (q.has(R::kMlid) && q.record.mlid != group.mlid) return false;
  if (q.has(R::kScope) && q.record.scope() != group.scope()) return false;
  return attributes_match(q, group);
}

bool codes_exist(const McQuery& q) {
  return (!q.has(kMtuMask) || is_mtu(q.record.mtu)) &&
         (!q.has(kRateMask) || is_rate(q.record.rate));
}

/// Assigns an MGID if the request names none: signature, subnet prefix, then a number.
Gid make_mgid(const Subnet& subnet, std::uint8_t scope) {
  const std::uint64_t prefix = subnet.config.gid.prefix();
  const std::uint64_t high = 0xff10'0000'0000'0000ULL | std::uint64_t{scope} << 48 |
                             std::uint64_t{kSaAssigned} << 32 | prefix >> 32;
  std::uint32_t n = 0;
  Gid mgid = Gid::of(high, prefix << 32);
  while (subnet.groups.find(mgid) != nullptr) mgid = Gid::of(high, prefix << 32 | ++n);
  return mgid;
}

bool usable_mgid(const Gid& mgid, const McQuery& q) {
  const std::uint8_t scope = scope_of(mgid);
  if (!mgid.is_multicast() || scope == 0 || scope == 0x0f) return false;
  if (is_ipoib(mgid)) return partition_of(pkey_of(mgid)) == partition_of(q.record.pkey.host());
  if (flags_of(mgid) > 1) return false;
  // MGIDs that the SA assigns are not usable with link-local scope.
  return signature_of(mgid) != kSaAssigned || scope != kLinkLocal;
}

/// True unless an IPoIB group differs in its headers from the broadcast group of its partition, or
/// that group does not exist: it must be created first.
bool follows_broadcast_group(const Subnet& subnet, const Gid& mgid, const McQuery& q) {
  if (!is_ipoib(mgid)) return true;
  const Gid broadcast = wire::broadcast_mgid(q.record.pkey.host(), scope_of(mgid));
  if (mgid == broadcast) return true;
  const McGroup* group = subnet.groups.find(broadcast);
  return group != nullptr && headers_match(q, group->record);
}

/// Returns the assumed record of an IPoIB group with members at other nodes: if ports are addressed
/// by GID, every group is assumed to have some.
std::optional<McMemberRecord> group_elsewhere(const Subnet& subnet, const Gid& mgid) {
  if (!subnet.by_gid() || !mgid.is_multicast() || !is_ipoib(mgid)) return std::nullopt;
  const Gid broadcast = wire::broadcast_mgid(pkey_of(mgid), scope_of(mgid));
  const McGroup* group = subnet.groups.find(broadcast);
  if (mgid == broadcast || group == nullptr) return std::nullopt;
  McMemberRecord record = group->record;
  record.mgid = mgid;
  return record;
}

/// Returns the record that an absent group gets, if this request may create it.
Answer<McMemberRecord> new_group(const Subnet& subnet, const McQuery& q) {
  const McMemberRecord& r = q.record;
  const bool creates = (r.join() & kCreators) != 0 && q.has(kCreate);
  if (auto group = group_elsewhere(subnet, r.mgid); group && !creates) {
    if (!attributes_match(q, *group)) return refuse(MadStatus::kSaRequestInvalid);
    if (!subnet.groups.room_for_group()) return refuse(MadStatus::kSaNoResources);
    group->mlid = {};
    return *group;
  }
  if ((r.join() & kCreators) == 0) return refuse(MadStatus::kSaRequestInvalid);
  if (!q.has(kCreate)) return refuse(MadStatus::kSaInsufficientComponents);
  if (!subnet.has_partition(r.pkey.host())) return refuse(MadStatus::kSaRequestInvalid);

  McMemberRecord group = subnet_defaults(subnet.config);
  const std::uint8_t wanted_scope = q.has(R::kScope) ? r.scope() : subnet.config.scope;
  group.mgid = r.mgid.is_zero() ? make_mgid(subnet, wanted_scope) : r.mgid;
  if (!r.mgid.is_zero() && !usable_mgid(group.mgid, q)) return refuse(MadStatus::kSaRequestInvalid);
  if (!follows_broadcast_group(subnet, group.mgid, q)) return refuse(MadStatus::kSaRequestInvalid);

  const auto mtu = q.has(kMtuMask) ? choose_mtu(r.mtu, subnet.config.mtu) : subnet.config.mtu;
  const auto rate = q.has(kRateMask) ? choose_rate(r.rate, subnet.config.rate) : subnet.config.rate;
  if (!mtu || !rate) return refuse(MadStatus::kSaRequestInvalid);
  group.mtu = exactly(*mtu);
  group.rate = exactly(*rate);
  if (q.has(kLifeMask)) group.lifetime = exactly(r.lifetime);
  group.qkey = r.qkey;
  group.mlid = q.has(R::kMlid) ? r.mlid : wire::Be16{};
  group.tclass = r.tclass;
  group.pkey.set(static_cast<std::uint16_t>(r.pkey.host() | wire::kFullMemberBit));
  group.sl_flow_hop = McMemberRecord::pack(r.sl(), r.flow_label(),
                                           q.has(R::kHop) ? r.hop_limit() : std::uint8_t{0});
  group.scope_join = scope_bits(scope_of(group.mgid));
  if (!subnet.groups.room_for_group()) return refuse(MadStatus::kSaNoResources);
  return group;
}

/// Checks that the named port may send from the source LID.
MadStatus check_sender(const Subnet& subnet, const McQuery& q) {
  const Port* holder = subnet.ports.at(q.from_lid);
  const bool idle = holder != nullptr && holder->gid != q.record.port_gid &&
                    !subnet.groups.is_member_somewhere(holder->gid);
  return subnet.ports.may_claim(q.record.port_gid, q.from_lid, idle, q.now);
}

/// Binds the named port to the source LID; check_sender() must have returned kOk.
void settle_sender(Subnet& subnet, const McQuery& q) {
  if (const auto loser = subnet.ports.claim(q.record.port_gid, q.from_lid, q.now))
    subnet.groups.remove_port(*loser);
}

/// Checks of every request that changes a membership.
MadStatus check_member(const Subnet& subnet, const McQuery& q) {
  if (!q.has(kWho)) return MadStatus::kSaInsufficientComponents;
  if (!codes_exist(q)) return MadStatus::kSaRequestInvalid;
  return subnet.on_subnet(q.record.port_gid) ? MadStatus::kOk : MadStatus::kSaInvalidGid;
}

/// Checks of a join that do not depend on the group.
MadStatus check_joiner(const Subnet& subnet, const McQuery& q) {
  if (const MadStatus status = check_member(subnet, q); status != MadStatus::kOk) return status;
  if (q.record.join() == 0) return MadStatus::kSaRequestInvalid;
  return check_sender(subnet, q);
}

/// True if the named port, another one than the administrator's, is known to carry only smaller packets
/// than the group. Nothing is known of a port that has moved with this request.
bool is_too_small(const Subnet& subnet, const McQuery& q, const McMemberRecord& group) {
  const Port* port = subnet.ports.find(q.record.port_gid);
  return port != nullptr && !port->own && port == subnet.ports.at(q.from_lid) &&
         !port->carries(wire::value_of(group.mtu));
}

McMemberRecord member_record(const McGroup& group, const Gid& port, std::uint8_t bits) {
  McMemberRecord r = group.record;
  r.port_gid = port;
  r.scope_join = static_cast<std::uint8_t>(r.scope_join | bits);
  return r;
}

}  // namespace

void create_broadcast_groups(Subnet& subnet) {
  for (const Partition& p : subnet.config.partitions) {
    if (!p.broadcast_group) continue;
    McMemberRecord group = subnet_defaults(subnet.config);
    group.pkey.set(static_cast<std::uint16_t>(p.pkey | wire::kFullMemberBit));
    group.mgid = wire::broadcast_mgid(group.pkey.host(), subnet.config.scope);
    group.scope_join = scope_bits(subnet.config.scope);
    if (subnet.groups.find(group.mgid) == nullptr) subnet.groups.create(group, true);
  }
}

Answer<McMemberRecord> join(Subnet& subnet, const McQuery& q) {
  const McMemberRecord& r = q.record;
  if (const MadStatus status = check_joiner(subnet, q); status != MadStatus::kOk)
    return refuse(status);

  const McGroup* group = r.mgid.is_zero() ? nullptr : subnet.groups.find(r.mgid);
  if (group != nullptr && !attributes_match(q, group->record))
    return refuse(MadStatus::kSaRequestInvalid);
  const bool member = group != nullptr && group->members.count(r.port_gid) != 0;
  std::optional<McMemberRecord> created;
  if (group == nullptr) {
    auto attributes = new_group(subnet, q);
    if (!attributes) return refuse(attributes.error());
    created = *attributes;
  }
  const McMemberRecord& wanted = created ? *created : group->record;
  if (is_too_small(subnet, q, wanted)) {
    subnet.ports.doubt_mtu(r.port_gid, q.now);
    return refuse(MadStatus::kSaRequestInvalid);
  }
  if (!member && !subnet.groups.room_for_member()) return refuse(MadStatus::kSaNoResources);

  // Nothing can fail from here on.
  if (created) group = &subnet.groups.create(*created, false);
  const std::uint8_t bits = subnet.groups.join(group->record.mgid, r.port_gid, r.join());
  const McMemberRecord answer = member_record(*group, r.port_gid, bits);
  settle_sender(subnet, q);
  subnet.ports.add_partition(r.port_gid, answer.pkey.host());
  return answer;
}

Answer<McMemberRecord> leave(Subnet& subnet, const McQuery& q) {
  const McMemberRecord& r = q.record;
  if (const MadStatus status = check_member(subnet, q); status != MadStatus::kOk)
    return refuse(status);
  const McGroup* group = subnet.groups.find(r.mgid);
  if (group == nullptr) return refuse(MadStatus::kSaRequestInvalid);
  const auto member = group->members.find(r.port_gid);
  if (member == group->members.end() || r.join() == 0 || (r.join() & ~member->second) != 0)
    return refuse(MadStatus::kSaRequestInvalid);
  if (!q.trusted) {
    // A port that moved may leave before it sends any other request.
    if (const MadStatus status = check_sender(subnet, q); status != MadStatus::kOk)
      return refuse(status);
    settle_sender(subnet, q);
  }

  McMemberRecord answer = r;
  const std::uint8_t left = subnet.groups.leave(r.mgid, r.port_gid, r.join());
  answer.mtu = exactly(r.mtu);
  answer.rate = exactly(r.rate);
  answer.lifetime = exactly(r.lifetime);
  answer.scope_join = static_cast<std::uint8_t>((r.scope_join & 0xf0) | left);
  return answer;
}

Answer<std::vector<McMemberRecord>> find(Subnet& subnet, const McQuery& q, std::size_t limit) {
  if (!codes_exist(q)) return refuse(MadStatus::kSaRequestInvalid);
  if (!q.trusted && q.has(R::kPortGid) && subnet.on_subnet(q.record.port_gid))
    subnet.ports.hear(q.record.port_gid, q.from_lid, q.now);
  const std::uint8_t wanted = q.has(R::kJoin) ? q.record.join() : std::uint8_t{0};
  const bool by_member = q.has(R::kPortGid) || wanted != 0;
  const auto member_matches = [&](const Gid& gid, std::uint8_t bits) {
    const Port* port = subnet.ports.find(gid);
    const bool visible = q.trusted || (port != nullptr && port->lid == q.from_lid);
    return visible && (!q.has(R::kPortGid) || gid == q.record.port_gid) &&
           (wanted == 0 || bits == wanted);
  };

  std::vector<McMemberRecord> found;
  const auto look_at = [&](const McGroup& group) {
    if (!found_by(q, group.record)) return;
    bool any = false;
    if (q.trusted || by_member) {
      for (const auto& [gid, bits] : group.members) {
        if (found.size() >= limit) return;
        if (!member_matches(gid, bits)) continue;
        any = true;
        if (q.trusted) found.push_back(member_record(group, gid, bits));
      }
    }
    const bool as_group = !q.trusted && (any || !by_member);
    if (as_group && found.size() < limit) found.push_back(group.record);
  };

  if (q.has(R::kMgid)) {
    if (const McGroup* group = subnet.groups.find(q.record.mgid)) {
      look_at(*group);
    } else if (const auto other = group_elsewhere(subnet, q.record.mgid);
               other && !by_member && !q.trusted && found_by(q, *other)) {
      found.push_back(*other);
    }
    return found;
  }
  for (const auto& [mgid, group] : subnet.groups.all()) {
    if (found.size() >= limit) break;
    look_at(group);
  }
  return found;
}

}  // namespace ipoib::sa
