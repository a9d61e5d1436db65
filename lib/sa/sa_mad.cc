// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/sa_mad.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "lib/wire/notice.h"

namespace ipoib::sa {
namespace {

/// Smallest distance between records of a table; 8, the unit of AttributeOffset, if not listed.
constexpr std::size_t min_record_len(std::uint16_t attr) {
  switch (static_cast<wire::Attr>(attr)) {
    case wire::Attr::kMcMemberRecord: return sizeof(wire::McMemberRecord);
    case wire::Attr::kPathRecord: return sizeof(wire::PathRecord);
    case wire::Attr::kInformInfoRecord: return sizeof(wire::InformInfoRecord);
    default: return 8;
  }
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// Cuts a table to whole records; `trim` also cuts records of zeros at its end.
Reply table_of(std::span<const std::byte> data, std::size_t record_len, bool trim) {
  std::size_t n = data.size() / record_len;
  while (trim && n > 0 && all_zero(data.subspan((n - 1) * record_len, record_len))) --n;
  const auto whole = data.first(n * record_len);
  return Reply{0, {whole.begin(), whole.end()}, static_cast<std::uint16_t>(record_len)};
}

}  // namespace

wire::SaMad request_mad(const Request& request, std::uint64_t tid) noexcept {
  wire::SaMad mad{};
  mad.hdr.mad.base_version = wire::kMadBaseVersion;
  mad.hdr.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm);
  mad.hdr.mad.class_version = wire::kSaClassVersion;
  mad.hdr.mad.method = static_cast<std::uint8_t>(request.method);
  mad.hdr.mad.tid.set(tid);
  mad.hdr.mad.attr_id.set(static_cast<std::uint16_t>(request.attr));
  mad.hdr.comp_mask.set(request.comp_mask);
  mad.data = request.data;
  return mad;
}

bool is_rmpp(const wire::SaHdr& hdr) noexcept {
  if ((hdr.rmpp_rtime_flags & wire::rmpp_flag::kActive) == 0) return false;
  return hdr.rmpp_version != 0 || hdr.rmpp_type != 0;
}

tl::expected<Reply, Fault> read_table(const wire::SaHdr& hdr, std::span<const std::byte> data,
                                      bool padded) {
  const std::uint16_t status = hdr.mad.status.host();
  if (status == static_cast<std::uint16_t>(wire::MadStatus::kSaNoRecords)) return Reply{};
  if (status != 0) return tl::make_unexpected(Fault{Fault::Kind::kRefused, status});
  if (padded ? all_zero(data) : data.empty()) return Reply{};

  const std::size_t record_len = std::size_t{hdr.attr_offset.host()} * 8;
  if (record_len < min_record_len(hdr.mad.attr_id.host()) || record_len > data.size())
    return tl::make_unexpected(Fault{Fault::Kind::kMalformed});
  return table_of(data, record_len, padded);
}

tl::expected<Reply, Fault> read_answer(const wire::SaMad& mad, wire::Method method) {
  if (method == wire::Method::kGetTable) return read_table(mad.hdr, mad.data, true);
  const std::uint16_t status = mad.hdr.mad.status.host();
  if (status != 0) return tl::make_unexpected(Fault{Fault::Kind::kRefused, status});
  return Reply{0, {mad.data.begin(), mad.data.end()}, 0};
}

tl::expected<Reply, Fault> read_whole_table(const wire::SaMad& mad,
                                            const fabric::ReceivedMad& received) {
  const std::size_t len = std::max(received.len, sizeof(wire::SaHdr)) - sizeof(wire::SaHdr);
  if (len <= mad.data.size())
    return read_table(mad.hdr, std::span{mad.data}.first(len),
                      len == mad.data.size() && !is_rmpp(mad.hdr));
  std::vector<std::byte> data{mad.data.begin(), mad.data.end()};
  data.insert(data.end(), received.rest.begin(), received.rest.end());
  return read_table(mad.hdr, data, false);
}

}  // namespace ipoib::sa
