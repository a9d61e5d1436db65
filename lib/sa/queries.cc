// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/queries.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "lib/wire/rmpp.h"

namespace ipoib::sa {
namespace {

using wire::McMemberRecord;
using wire::PathRecord;

wire::Be16 full_member(std::uint16_t pkey) {
  return wire::Be16{static_cast<std::uint16_t>(pkey | wire::kFullMemberBit)};
}

McMemberRecord membership(const wire::Gid& mgid, const wire::Gid& port_gid, wire::Be16 pkey,
                          std::uint8_t join_state) {
  McMemberRecord r{};
  r.mgid = mgid;
  r.port_gid = port_gid;
  r.pkey = pkey;
  r.scope_join = join_state & 0x0f;
  return r;
}

Request mc_request(wire::Method method, std::uint64_t mask, const McMemberRecord& record) {
  return Request::of(method, wire::Attr::kMcMemberRecord, mask, record);
}

constexpr std::uint8_t kReportTime = 18;  ///< RespTimeValue: a Report is answered within 1.07 s.

/// The producer of one trap is the subnet manager; kAllTraps means those of any producer.
Request inform(std::uint16_t trap, bool subscribe) {
  wire::InformInfo info{};
  info.lid_range_begin.set(wire::kAllLids);
  info.is_generic = 1;
  info.subscribe = subscribe ? 1 : 0;
  info.type.set(wire::kAnyNoticeType);
  info.trap_number.set(trap);
  info.qpn.set(1);
  info.resp_time = kReportTime;
  info.producer_type.set(trap == wire::kAllTraps ? wire::kAnyProducer
                                                 : wire::kProducerClassManager);
  return Request::of(wire::Method::kSet, wire::Attr::kInformInfo, 0, info);
}

}  // namespace

Request join_group(const wire::Gid& mgid, const wire::Gid& port_gid, std::uint16_t pkey,
                   std::uint8_t join_state) {
  return mc_request(wire::Method::kSet, McMemberRecord::kJoinMask,
                    membership(mgid, port_gid, full_member(pkey), join_state));
}

Request create_group(const wire::Gid& mgid, const wire::Gid& port_gid, std::uint8_t join_state,
                     const McMemberRecord& like) {
  McMemberRecord r = membership(mgid, port_gid, full_member(like.pkey.host()), join_state);
  r.qkey = like.qkey;
  r.mtu = wire::with_selector(wire::Selector::kExactly, like.mtu);
  r.tclass = like.tclass;
  r.rate = wire::with_selector(wire::Selector::kExactly, like.rate);
  r.sl_flow_hop = like.sl_flow_hop;
  return mc_request(wire::Method::kSet, McMemberRecord::kCreateMask, r);
}

Request leave_group(const wire::Gid& mgid, const wire::Gid& port_gid, std::uint16_t pkey,
                    std::uint8_t join_state) {
  return mc_request(wire::Method::kDelete, McMemberRecord::kJoinMask,
                    membership(mgid, port_gid, full_member(pkey), join_state));
}

Request find_group(const wire::Gid& mgid) {
  McMemberRecord r{};
  r.mgid = mgid;
  return mc_request(wire::Method::kGet, McMemberRecord::kMgid, r);
}

Request find_member(const wire::Gid& mgid, const wire::Gid& port_gid) {
  McMemberRecord r{};
  r.mgid = mgid;
  r.port_gid = port_gid;
  return mc_request(wire::Method::kGet, McMemberRecord::kMgid | McMemberRecord::kPortGid, r);
}

Request list_groups(std::uint16_t pkey) {
  McMemberRecord r{};
  r.pkey = full_member(pkey);
  return mc_request(wire::Method::kGetTable, McMemberRecord::kPkey, r);
}

Request find_path(const wire::Gid& sgid, const wire::Gid& dgid, std::uint16_t pkey,
                  std::optional<std::uint8_t> tclass) {
  PathRecord r{};
  r.dgid = dgid;
  r.sgid = sgid;
  r.tclass = tclass.value_or(0);
  r.reversible_numb = 1;
  r.pkey = full_member(pkey);
  const std::uint64_t mask = PathRecord::kIpoibMask & ~(tclass ? 0 : PathRecord::kTclass);
  return Request::of(wire::Method::kGet, wire::Attr::kPathRecord, mask, r);
}

Request find_path_between(const wire::Gid& sgid, const wire::Gid& dgid, std::uint16_t pkey,
                          const fabric::LidPair& lids) {
  Request request = find_path(sgid, dgid, pkey, std::nullopt);
  const wire::Be16 slid{lids.slid};
  const wire::Be16 dlid{lids.dlid};
  std::memcpy(&request.data[offsetof(PathRecord, slid)], &slid, sizeof(slid));
  std::memcpy(&request.data[offsetof(PathRecord, dlid)], &dlid, sizeof(dlid));
  request.comp_mask |= PathRecord::kSlid | PathRecord::kDlid;
  return request;
}

Request find_paths(const wire::Gid& sgid, const wire::Gid& dgid, std::uint16_t pkey,
                   std::optional<std::uint8_t> tclass, std::uint8_t count) {
  Request request = find_path(sgid, dgid, pkey, tclass);
  request.method = wire::Method::kGetTable;
  request.data[offsetof(PathRecord, reversible_numb)] = std::byte{count};
  return request;
}

Request class_port_info() {
  return Request{wire::Method::kGet, wire::Attr::kClassPortInfo, 0, {}};
}

Request subscribe(std::uint16_t trap) {
  return inform(trap, true);
}
Request subscribe(wire::Trap trap) {
  return subscribe(static_cast<std::uint16_t>(trap));
}
Request unsubscribe(std::uint16_t trap) {
  return inform(trap, false);
}
Request unsubscribe(wire::Trap trap) {
  return unsubscribe(static_cast<std::uint16_t>(trap));
}

std::string describe(const Failure& failure) {
  constexpr auto kTooBig = static_cast<std::uint8_t>(wire::RmppStatus::kResourcesExhausted);
  if (failure.code == Errc::kNoResources && failure.rmpp_status == kTooBig)
    return "SA table is too big";
  if (failure.rmpp_status != 0)
    return fmt::format("SA table aborted: RMPP status {}", failure.rmpp_status);
  switch (failure.code) {
    case Errc::kRefused:
      return fmt::format("SA refused: {} (0x{:04x})", wire::status_name(failure.status),
                         failure.status);
    case Errc::kTimedOut: return "SA did not answer";
    case Errc::kUnavailable: return "SA not reachable: no subnet manager, or port cannot send";
    case Errc::kNoResources: return "too many pending SA requests";
    default: return "invalid response from the SA";
  }
}

}  // namespace ipoib::sa
