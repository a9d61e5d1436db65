// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/notice.h"

namespace ipoib::wire {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(InformError::kCount)>
    kInformErrorNames = {"none", "length", "generic", "subscribe", "gid", "lid_range"};
static_assert(!kInformErrorNames.back().empty());

constexpr std::array<std::string_view, static_cast<std::size_t>(NoticeError::kCount)>
    kNoticeErrorNames = {"none", "length", "vendor", "type", "producer", "gid"};
static_assert(!kNoticeErrorNames.back().empty());

constexpr std::uint8_t kGeneric = 0x80;
constexpr std::uint8_t kLastNoticeType = 4;

}  // namespace

std::string_view inform_error_name(InformError error) noexcept {
  return kInformErrorNames[static_cast<std::size_t>(error)];
}

std::string_view notice_error_name(NoticeError error) noexcept {
  return kNoticeErrorNames[static_cast<std::size_t>(error)];
}

InformError parse_inform_info(std::span<const std::byte> attribute, InformInfo& out) noexcept {
  const auto info = read<InformInfo>(attribute);
  if (!info) return InformError::kLength;
  out = *info;
  if (out.is_generic > 1) return InformError::kGeneric;
  if (out.subscribe > 1) return InformError::kSubscribe;
  if (out.gid.is_multicast()) return InformError::kGid;
  // The range is ignored if a GID is given, and its end is ignored if it means all LIDs or one.
  const std::uint16_t begin = out.lid_range_begin.host(), end = out.lid_range_end.host();
  if (out.gid.is_zero() && begin != kAllLids && end != 0 && begin > end)
    return InformError::kLidRange;
  return InformError::kNone;
}

NoticeError parse_notice(std::span<const std::byte> attribute, Notice& out) noexcept {
  const auto notice = read<Notice>(attribute);
  if (!notice) return NoticeError::kLength;
  out = *notice;
  if (!out.is_generic()) return NoticeError::kVendor;
  if (out.type() > kLastNoticeType) return NoticeError::kType;
  if (out.producer_type.host() == 0) return NoticeError::kProducer;
  if (const auto gid = out.gid()) {
    const bool group = out.is(Trap::kGroupCreated) || out.is(Trap::kGroupDeleted);
    if (gid->is_multicast() != group || gid->is_zero()) return NoticeError::kGid;
  }
  return NoticeError::kNone;
}

Notice make_notice(Trap trap, const Gid& gid, std::uint16_t issuer_lid,
                   const Gid& issuer_gid) noexcept {
  Notice n{};
  n.generic_type = kGeneric | kNoticeTypeSubnet;
  n.producer_type.set(kProducerClassManager);
  n.trap_number.set(static_cast<std::uint16_t>(trap));
  n.issuer_lid.set(issuer_lid);
  n.data_gid = gid;
  n.issuer_gid = issuer_gid;
  return n;
}

}  // namespace ipoib::wire
