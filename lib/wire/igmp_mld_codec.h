// SPDX-License-Identifier: BSD-3-Clause
// Codec that IGMPv3 and MLDv2 share: they differ in the size of an address. Only igmp.cc and mld.cc
// use it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/wire/append.h"
#include "lib/wire/igmp_mld.h"

namespace ipoib::wire::codec {

[[nodiscard]] inline IpAddr address(const Be32& a) {
  return IpAddr::v4(a.host());
}
[[nodiscard]] inline IpAddr address(const IpAddr& a) {
  return a;
}
inline void store(Be32& to, const IpAddr& a) {
  to.set(a.v4_host());
}
inline void store(IpAddr& to, const IpAddr& a) {
  to = a;
}

[[nodiscard]] inline tl::unexpected<MembershipFault> fault(MembershipFault f) {
  return tl::make_unexpected(f);
}

/// Returns the first `n` addresses of `bytes`; empty if there are fewer.
template <WireRecord Address>
[[nodiscard]] std::optional<std::vector<IpAddr>> read_addresses(std::span<const std::byte> bytes,
                                                                std::size_t n) {
  if (bytes.size() / sizeof(Address) < n) return std::nullopt;
  std::vector<IpAddr> addresses;
  addresses.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    addresses.push_back(address(*read<Address>(bytes, i * sizeof(Address))));
  return addresses;
}

template <WireRecord Address>
void append_addresses(std::vector<std::byte>& to, const std::vector<IpAddr>& addresses) {
  for (const IpAddr& a : addresses) {
    Address octets{};
    store(octets, a);
    append(to, bytes_of(octets));
  }
}

/// Fills `query` from the octets behind its fixed part. Returns the fault, if any.
template <WireRecord Address>
[[nodiscard]] std::optional<MembershipFault> read_query_tail(std::span<const std::byte> bytes,
                                                             MembershipQuery& query) {
  const auto tail = read<MembershipQueryTail>(bytes);
  if (!tail) return MembershipFault::kTruncated;
  auto sources = read_addresses<Address>(bytes.subspan(sizeof(*tail)), tail->sources.host());
  if (!sources) return MembershipFault::kSourceCount;
  query.version = MembershipVersion::kV3;
  query.suppress = (tail->flags_qrv & MembershipQueryTail::kSuppress) != 0;
  query.robustness = tail->flags_qrv & MembershipQueryTail::kRobustness;
  query.interval = std::chrono::seconds(decode_float8(tail->qqic));
  query.sources = std::move(*sources);
  return std::nullopt;
}

template <WireRecord Address>
void append_query_tail(std::vector<std::byte>& to, const MembershipQuery& query) {
  const unsigned flags = (query.suppress ? MembershipQueryTail::kSuppress : 0U) |
                         (query.robustness > 7 ? 0U : query.robustness);  // RFC 3376 §4.1.6
  append(to, bytes_of(MembershipQueryTail{
                 static_cast<std::uint8_t>(flags),
                 encode_float8(static_cast<std::uint32_t>(query.interval.count())),
                 Be16{static_cast<std::uint16_t>(query.sources.size())}}));
  append_addresses<Address>(to, query.sources);
}

/// Reads a whole report of kV3.
template <WireRecord Address>
[[nodiscard]] tl::expected<MembershipReport, MembershipFault> read_report(
    std::span<const std::byte> bytes) {
  const auto header = read<MembershipReportHdr>(bytes);
  if (!header) return fault(MembershipFault::kTruncated);
  bytes = bytes.subspan(sizeof(*header));
  MembershipReport report;
  for (std::size_t i = 0; i < header->records.host(); ++i) {
    const auto record = read<MembershipRecordHdr<Address>>(bytes);
    if (!record) return fault(MembershipFault::kRecordCount);
    bytes = bytes.subspan(sizeof(*record));
    auto sources = read_addresses<Address>(bytes, record->sources.host());
    if (!sources) return fault(MembershipFault::kSourceCount);
    bytes = bytes.subspan(sources->size() * sizeof(Address));
    const std::size_t aux = std::size_t{record->aux_words} * 4;
    if (aux > bytes.size()) return fault(MembershipFault::kRecordCount);
    bytes = bytes.subspan(aux);
    if (record->type < 1 || record->type > 6)
      ++report.unknown_records;
    else
      report.records.push_back(
          {static_cast<RecordType>(record->type), address(record->group), std::move(*sources)});
  }
  return report;
}

template <WireRecord Address>
void append_report(std::vector<std::byte>& to, std::uint8_t type, const MembershipReport& report) {
  append(to,
         bytes_of(MembershipReportHdr{type, 0, Be16{}, Be16{},
                                      Be16{static_cast<std::uint16_t>(report.records.size())}}));
  for (const MembershipRecord& r : report.records) {
    MembershipRecordHdr<Address> header{static_cast<std::uint8_t>(r.type),
                                        0,
                                        Be16{static_cast<std::uint16_t>(r.sources.size())},
                                        {}};
    store(header.group, r.group);
    append(to, bytes_of(header));
    append_addresses<Address>(to, r.sources);
  }
}

}  // namespace ipoib::wire::codec
