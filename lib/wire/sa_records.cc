// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/sa_records.h"

namespace ipoib::wire {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(MadError::kCount)> kMadErrorNames =
    {"none", "length", "base_version", "class", "class_version"};
static_assert(!kMadErrorNames.back().empty());

}  // namespace

std::string_view mad_error_name(MadError error) noexcept {
  return kMadErrorNames[static_cast<std::size_t>(error)];
}

MadError parse_sa_mad(std::span<const std::byte> payload, SaMad& out) noexcept {
  const auto mad = read<SaMad>(payload);
  if (!mad || payload.size() != kMadLen) return MadError::kLength;
  out = *mad;
  const MadHdr& hdr = out.hdr.mad;
  if (hdr.base_version != kMadBaseVersion) return MadError::kBaseVersion;
  if (hdr.mgmt_class != static_cast<std::uint8_t>(MgmtClass::kSubnAdm)) return MadError::kClass;
  if (hdr.class_version != kSaClassVersion) return MadError::kClassVersion;
  return MadError::kNone;
}

std::string_view status_name(std::uint16_t status) noexcept {
  switch (static_cast<MadStatus>(status)) {
    case MadStatus::kOk: return "ok";
    case MadStatus::kBusy: return "busy";
    case MadStatus::kRedirect: return "redirected";
    case MadStatus::kBadVersion: return "class or base version not supported";
    case MadStatus::kMethodNotSupported: return "method not supported";
    case MadStatus::kMethodAttributeNotSupported: return "method not supported for this attribute";
    case MadStatus::kInvalidField: return "invalid field";
    case MadStatus::kSaNoResources: return "no resources";
    case MadStatus::kSaRequestInvalid: return "request invalid";
    case MadStatus::kSaNoRecords: return "no records";
    case MadStatus::kSaTooManyRecords: return "too many records";
    case MadStatus::kSaInvalidGid: return "invalid GID";
    case MadStatus::kSaInsufficientComponents: return "insufficient components";
    case MadStatus::kSaDenied: return "request denied";
    case MadStatus::kSaPrioritySuggested: return "priority suggested";
  }
  return "unknown status";
}

}  // namespace ipoib::wire
