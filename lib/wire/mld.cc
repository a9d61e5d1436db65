// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/mld.h"

#include <utility>

#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp_mld_codec.h"
#include "lib/wire/ip6_next_headers.h"

namespace ipoib::wire {
namespace {

using codec::fault;

constexpr std::uint8_t kIcmpv6 = static_cast<std::uint8_t>(IpProto::kIcmpv6);

using Message = tl::expected<MembershipMessage, MembershipFault>;

Message parse_query(std::span<const std::byte> bytes, const MldHdr& header) {
  MembershipQuery query;
  query.group = header.group;
  std::uint32_t response_ms = header.max_response.host();
  if (bytes.size() == sizeof(header)) {  // MLDv1 (RFC 3810 §8.1).
    query.version = MembershipVersion::kV2;
  } else {
    if (const auto bad = codec::read_query_tail<IpAddr>(bytes.subspan(sizeof(header)), query))
      return fault(*bad);
    response_ms = decode_float16(header.max_response.host());
  }
  query.max_response = std::chrono::milliseconds(response_ms);
  const bool general = query.group == IpAddr{};
  if ((!general && !is_multicast(query.group)) || (general && !query.sources.empty()))
    return fault(MembershipFault::kQueryGroup);
  return query;
}

Message parse_message(std::span<const std::byte> bytes) {
  if (bytes.empty()) return fault(MembershipFault::kTruncated);
  const auto type = static_cast<MldType>(bytes[0]);
  if (type == MldType::kReportV2) return codec::read_report<IpAddr>(bytes);
  const auto header = read<MldHdr>(bytes);
  if (!header) return fault(MembershipFault::kTruncated);
  if (type == MldType::kQuery) return parse_query(bytes, *header);
  const auto record = type == MldType::kDone ? RecordType::kToInclude : RecordType::kIsExclude;
  return MembershipReport{MembershipVersion::kV2, {{record, header->group, {}}}};
}

/// Returns the ICMPv6 message of a packet whose headers meet the requirements of MLD.
tl::expected<std::span<const std::byte>, MembershipFault> unwrap(std::span<const std::byte> packet,
                                                                 const Ipv6Hdr& ip) {
  auto payload = packet.subspan(sizeof(ip)).first(ip.payload_len.host());
  std::uint8_t next = ip.next_header;
  bool router_alert = false;
  if (next == kHopByHop) {
    const auto options = parse_hop_by_hop(payload);
    if (!options) return fault(options.error());
    next = options->next_header;
    router_alert = options->router_alert;
    payload = payload.subspan(options->len);
  }
  if (next != kIcmpv6) return fault(MembershipFault::kNotMembership);
  if (payload.empty()) return fault(MembershipFault::kTruncated);
  switch (static_cast<MldType>(payload[0])) {
    case MldType::kQuery:
    case MldType::kReportV1:
    case MldType::kDone:
    case MldType::kReportV2: break;
    default: return fault(MembershipFault::kNotMembership);
  }
  if (ip.hop_limit != 1) return fault(MembershipFault::kHopLimit);
  if (!router_alert) return fault(MembershipFault::kRouterAlert);
  if (!is_link_local6(ip.src)) return fault(MembershipFault::kSource);
  if (icmp6_checksum(ip.src, ip.dst, payload) != 0) return fault(MembershipFault::kChecksum);
  return payload;
}

std::vector<std::byte> wrap(const IpAddr& src, const IpAddr& dst, std::vector<std::byte> body) {
  const Be16 sum{icmp6_checksum(src, dst, body)};
  (void)write(std::span{body}, offsetof(MldHdr, checksum), sum);
  const auto options = hop_by_hop_router_alert(IpProto::kIcmpv6);
  std::vector<std::byte> packet;
  packet.reserve(sizeof(Ipv6Hdr) + options.size() + body.size());
  append(packet, bytes_of(Ipv6Hdr{Be32{Ipv6Hdr::kVersion6},
                                  Be16{static_cast<std::uint16_t>(options.size() + body.size())},
                                  kHopByHop, 1, src, dst}));
  append(packet, bytes_of(options));
  append(packet, body);
  return packet;
}

}  // namespace

ParsedMembership parse_mld(std::span<const std::byte> packet) {
  const auto ip = read<Ipv6Hdr>(packet);
  if (!ip || ip->version() != 6 || ip->payload_len.host() > packet.size() - sizeof(*ip))
    return fault(MembershipFault::kIpHeader);
  const auto payload = unwrap(packet, *ip);
  if (!payload) return fault(payload.error());
  auto message = parse_message(*payload);
  if (!message) return fault(message.error());
  return MembershipPacket{ip->src, ip->dst, std::move(*message)};
}

std::vector<std::byte> make_mld(const IpAddr& src, const MembershipQuery& query) {
  const bool v1 = query.version != MembershipVersion::kV3;
  const auto ms = static_cast<std::uint32_t>(query.max_response.count());
  const auto code = v1 ? static_cast<std::uint16_t>(std::min(ms, 0xffffU)) : encode_float16(ms);
  std::vector<std::byte> body;
  append(body, bytes_of(MldHdr{static_cast<std::uint8_t>(MldType::kQuery), 0, Be16{}, Be16{code},
                               Be16{}, query.group}));
  if (!v1) codec::append_query_tail<IpAddr>(body, query);
  return wrap(src, query.group == IpAddr{} ? all_nodes() : query.group, std::move(body));
}

std::vector<std::byte> make_mld(const IpAddr& src, const MembershipReport& report) {
  std::vector<std::byte> body;
  if (report.version == MembershipVersion::kV3) {
    codec::append_report<IpAddr>(body, static_cast<std::uint8_t>(MldType::kReportV2), report);
    return wrap(src, kMldV2Routers, std::move(body));
  }
  const MembershipRecord& record = report.records.front();
  const bool done = record.type == RecordType::kToInclude;
  append(body,
         bytes_of(MldHdr{static_cast<std::uint8_t>(done ? MldType::kDone : MldType::kReportV1), 0,
                         Be16{}, Be16{}, Be16{}, record.group}));
  return wrap(src, done ? all_routers() : record.group, std::move(body));
}

}  // namespace ipoib::wire
