// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/igmp.h"

#include <utility>

#include "lib/wire/igmp_mld_codec.h"

namespace ipoib::wire {
namespace {

using codec::fault;

constexpr std::uint8_t kInternetworkControl = 0xc0;

using Message = tl::expected<MembershipMessage, MembershipFault>;

Message parse_query(std::span<const std::byte> bytes, const IgmpHdr& header) {
  using std::chrono::milliseconds;
  MembershipQuery query;
  query.group = IpAddr::v4(header.group.host());
  if (bytes.size() == sizeof(header)) {  // Version 1 or 2 (RFC 3376 §7.1).
    query.version = header.max_resp_code == 0 ? MembershipVersion::kV1 : MembershipVersion::kV2;
    query.max_response =
        milliseconds(header.max_resp_code == 0 ? 10'000 : 100 * header.max_resp_code);
    if (query.version == MembershipVersion::kV1) query.group = IpAddr::v4(0);  // V1 ignores it.
  } else {
    if (const auto bad = codec::read_query_tail<Be32>(bytes.subspan(sizeof(header)), query))
      return fault(*bad);
    query.max_response = milliseconds(100 * decode_float8(header.max_resp_code));
  }
  const bool general = is_any_address(query.group);
  if ((!general && !is_multicast(query.group)) || (general && !query.sources.empty()))
    return fault(MembershipFault::kQueryGroup);
  return query;
}

Message one_record(MembershipVersion version, RecordType type, const IgmpHdr& header) {
  return MembershipReport{version, {{type, IpAddr::v4(header.group.host()), {}}}};
}

Message parse_message(std::span<const std::byte> bytes) {
  const auto header = read<IgmpHdr>(bytes);
  if (!header) return fault(MembershipFault::kTruncated);
  if (internet_checksum(bytes) != 0) return fault(MembershipFault::kChecksum);
  switch (static_cast<IgmpType>(header->type)) {
    case IgmpType::kQuery: return parse_query(bytes, *header);
    case IgmpType::kReportV1:
      return one_record(MembershipVersion::kV1, RecordType::kIsExclude, *header);
    case IgmpType::kReportV2:
      return one_record(MembershipVersion::kV2, RecordType::kIsExclude, *header);
    case IgmpType::kLeave:
      return one_record(MembershipVersion::kV2, RecordType::kToInclude, *header);
    case IgmpType::kReportV3: return codec::read_report<Be32>(bytes);
  }
  return fault(MembershipFault::kUnknownType);
}

std::vector<std::byte> wrap(const IpAddr& src, const IpAddr& dst, std::vector<std::byte> body) {
  const Be16 sum{internet_checksum(body)};
  (void)write(std::span{body}, offsetof(IgmpHdr, checksum), sum);
  const std::size_t header_len = sizeof(Ipv4Hdr) + kRouterAlertOption.size();
  const Ipv4Hdr ip{0x46,
                   kInternetworkControl,
                   Be16{static_cast<std::uint16_t>(header_len + body.size())},
                   Be16{},
                   Be16{Ipv4Hdr::kDontFragment},
                   1,
                   static_cast<std::uint8_t>(IpProto::kIgmp),
                   Be16{},
                   Be32{src.v4_host()},
                   Be32{dst.v4_host()}};
  std::vector<std::byte> packet;
  packet.reserve(header_len + body.size());
  append(packet, bytes_of(ip));
  append(packet, bytes_of(kRouterAlertOption));
  const Be16 ip_sum{internet_checksum(packet)};
  (void)write(std::span{packet}, offsetof(Ipv4Hdr, checksum), ip_sum);
  append(packet, body);
  return packet;
}

}  // namespace

ParsedMembership parse_igmp(std::span<const std::byte> packet) {
  const auto ip = read<Ipv4Hdr>(packet);
  if (!ip || ip->version() != 4 || ip->header_len() < sizeof(*ip) ||
      ip->total_len.host() < ip->header_len() || ip->total_len.host() > packet.size())
    return fault(MembershipFault::kIpHeader);
  if (ip->protocol != static_cast<std::uint8_t>(IpProto::kIgmp))
    return fault(MembershipFault::kNotMembership);
  if (ip->is_fragment()) return fault(MembershipFault::kIpHeader);
  const auto header = packet.first(ip->header_len());
  if (internet_checksum(header) != 0) return fault(MembershipFault::kIpHeader);
  if (!has_router_alert(header.subspan(sizeof(*ip)))) return fault(MembershipFault::kIpHeader);
  if (ip->ttl != 1) return fault(MembershipFault::kHopLimit);
  const std::uint32_t src = ip->src.host();
  if (src >> 28 >= 0xe || src >> 24 == 127) return fault(MembershipFault::kSource);
  auto message = parse_message(packet.first(ip->total_len.host()).subspan(ip->header_len()));
  if (!message) return fault(message.error());
  return MembershipPacket{IpAddr::v4(src), IpAddr::v4(ip->dst.host()), std::move(*message)};
}

std::vector<std::byte> make_igmp(const IpAddr& src, const MembershipQuery& query) {
  const auto tenths = static_cast<std::uint32_t>(query.max_response.count() / 100);
  IgmpHdr header{static_cast<std::uint8_t>(IgmpType::kQuery), 0, Be16{}, Be32{}};
  if (!is_any_address(query.group)) header.group.set(query.group.v4_host());
  if (query.version == MembershipVersion::kV2)
    header.max_resp_code = static_cast<std::uint8_t>(std::clamp(tenths, 1U, 255U));
  if (query.version == MembershipVersion::kV3) header.max_resp_code = encode_float8(tenths);
  std::vector<std::byte> body;
  append(body, bytes_of(header));
  if (query.version == MembershipVersion::kV3) codec::append_query_tail<Be32>(body, query);
  return wrap(src, is_any_address(query.group) ? kIgmpAllSystems : query.group, std::move(body));
}

std::vector<std::byte> make_igmp(const IpAddr& src, const MembershipReport& report) {
  std::vector<std::byte> body;
  if (report.version == MembershipVersion::kV3) {
    codec::append_report<Be32>(body, static_cast<std::uint8_t>(IgmpType::kReportV3), report);
    return wrap(src, kIgmpV3Routers, std::move(body));
  }
  const MembershipRecord& record = report.records.front();
  const bool leave = record.type == RecordType::kToInclude;
  const IgmpType type = leave                                      ? IgmpType::kLeave
                        : report.version == MembershipVersion::kV1 ? IgmpType::kReportV1
                                                                   : IgmpType::kReportV2;
  append(body, bytes_of(IgmpHdr{static_cast<std::uint8_t>(type), 0, Be16{},
                                Be32{record.group.v4_host()}}));
  return wrap(src, leave ? kIgmpAllRouters : record.group, std::move(body));
}

}  // namespace ipoib::wire
