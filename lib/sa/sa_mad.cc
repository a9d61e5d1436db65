#include "lib/sa/sa_mad.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace ipoib::sa {
namespace {

/// Least distance between records of a table; 8, a unit of AttributeOffset, for the unlisted.
constexpr std::size_t least_record_len(std::uint16_t attr) {
  switch (static_cast<wire::Attr>(attr)) {
    case wire::Attr::kMcMemberRecord: return sizeof(wire::McMemberRecord);
    case wire::Attr::kPathRecord: return sizeof(wire::PathRecord);
    default: return 8;
  }
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

enum class TableShape { kPlain, kOneSegment, kSegmented, kBad };

TableShape shape_of(const wire::SaHdr& hdr) {
  const unsigned flags = hdr.rmpp_rtime_flags & kRmppFlagsMask;
  // Some transports leave the flag of an answer they cut to one MAD, with no version or type.
  if ((flags & kRmppActive) == 0 || (hdr.rmpp_version == 0 && hdr.rmpp_type == 0))
    return TableShape::kPlain;
  if (hdr.rmpp_version != kRmppVersion || hdr.rmpp_type != kRmppData) return TableShape::kBad;
  if (flags != kRmppOnlySegment || hdr.rmpp_segment.host() != 1) return TableShape::kSegmented;
  const std::uint32_t len = hdr.rmpp_len.host();
  const bool fits = len >= kRmppSaHeaderLen && len <= kRmppSaHeaderLen + wire::kSaDataLen;
  return fits ? TableShape::kOneSegment : TableShape::kBad;
}

/// Cuts a table to whole records; `trim` also cuts records of zeros at its end.
Reply table_of(std::span<const std::byte> data, std::size_t record_len, bool trim) {
  std::size_t n = data.size() / record_len;
  while (trim && n > 0 && all_zero(data.subspan((n - 1) * record_len, record_len))) --n;
  const auto whole = data.first(n * record_len);
  return Reply{0, {whole.begin(), whole.end()}, static_cast<std::uint16_t>(record_len)};
}

tl::expected<Reply, Fault> read_table(const wire::SaMad& mad) {
  const TableShape shape = shape_of(mad.hdr);
  if (shape == TableShape::kSegmented) return tl::make_unexpected(Fault{Fault::Kind::kSegmented});
  if (shape == TableShape::kBad) return tl::make_unexpected(Fault{Fault::Kind::kMalformed});

  const bool plain = shape == TableShape::kPlain;
  std::span<const std::byte> data{mad.data};
  if (!plain) data = data.first(mad.hdr.rmpp_len.host() - kRmppSaHeaderLen);
  if (plain ? all_zero(data) : data.empty()) return Reply{};

  const std::size_t record_len = std::size_t{mad.hdr.attr_offset.host()} * 8;
  if (record_len < least_record_len(mad.hdr.mad.attr_id.host()) || record_len > data.size())
    return tl::make_unexpected(Fault{Fault::Kind::kMalformed});
  return table_of(data, record_len, plain);
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

tl::expected<Reply, Fault> read_answer(const wire::SaMad& mad, wire::Method method) {
  const std::uint16_t status = mad.hdr.mad.status.host();
  const bool table = method == wire::Method::kGetTable;
  if (table && status == static_cast<std::uint16_t>(wire::MadStatus::kSaNoRecords)) return Reply{};
  if (status != 0) return tl::make_unexpected(Fault{Fault::Kind::kRefused, status});
  if (table) return read_table(mad);
  return Reply{0, {mad.data.begin(), mad.data.end()}, 0};
}

}  // namespace ipoib::sa
