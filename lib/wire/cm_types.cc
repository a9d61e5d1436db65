// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/cm_types.h"

#include "lib/wire/cm_mads.h"

namespace ipoib::wire {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(CmError::kCount)> kCmErrorNames = {
    "none",   "length",    "base_version", "class",       "class_version",
    "method", "attribute", "info_length",  "message_code"};
static_assert(!kCmErrorNames.back().empty());

constexpr std::array<std::string_view, kCmAttrs> kAttrNames = {
    "REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"};
static_assert(kAttrNames[index_of(CmAttr::kApr)] == "APR");

/// Checks fields that only one kind of message has.
CmError judge(const CmMad& mad) noexcept {
  switch (mad.attr()) {
    case CmAttr::kMra:
      return cm_message<CmMra>(mad).about() > CmAbout::kOther ? CmError::kMessageCode
                                                              : CmError::kNone;
    case CmAttr::kRej: {
      const auto rej = cm_message<CmRej>(mad);
      if (rej.about() > CmAbout::kOther) return CmError::kMessageCode;
      return rej.info_len() > kCmInfoLen ? CmError::kInfoLength : CmError::kNone;
    }
    case CmAttr::kApr:
      return cm_message<CmApr>(mad).info_len > kCmInfoLen ? CmError::kInfoLength : CmError::kNone;
    case CmAttr::kSidrRep:
      return cm_message<CmSidrRep>(mad).info_len > kCmInfoLen ? CmError::kInfoLength
                                                              : CmError::kNone;
    default: return CmError::kNone;
  }
}

}  // namespace

std::string_view cm_error_name(CmError error) noexcept {
  return kCmErrorNames[static_cast<std::size_t>(error)];
}

std::string_view to_string(CmAttr attr) noexcept {
  return kAttrNames[index_of(attr)];
}

CmError parse_cm_mad(std::span<const std::byte> payload, CmMad& out) noexcept {
  const auto mad = read<CmMad>(payload);
  if (!mad || payload.size() != kMadLen) return CmError::kLength;
  out = *mad;
  if (out.hdr.base_version != kMadBaseVersion) return CmError::kBaseVersion;
  if (out.hdr.mgmt_class != static_cast<std::uint8_t>(MgmtClass::kComMgt)) return CmError::kClass;
  if (out.hdr.class_version != kCmClassVersion) return CmError::kClassVersion;
  if (out.hdr.method != static_cast<std::uint8_t>(Method::kSend)) return CmError::kMethod;
  if (out.attr() < CmAttr::kReq || out.attr() > CmAttr::kApr) return CmError::kAttribute;
  return judge(out);
}

std::string_view to_string(RejReason reason) noexcept {
  switch (reason) {
    case RejReason::kNone: break;
    case RejReason::kNoQp: return "no QP";
    case RejReason::kNoEec: return "no EEC";
    case RejReason::kNoResources: return "no resources";
    case RejReason::kTimeout: return "timeout";
    case RejReason::kUnsupportedRequest: return "unsupported request";
    case RejReason::kInvalidCommId: return "invalid communication ID";
    case RejReason::kInvalidCommInstance: return "invalid communication instance";
    case RejReason::kInvalidServiceId: return "invalid service ID";
    case RejReason::kInvalidTransport: return "invalid transport service type";
    case RejReason::kStaleConnection: return "stale connection";
    case RejReason::kRdcDoesNotExist: return "RDC does not exist";
    case RejReason::kPrimaryGid: return "primary remote port GID rejected";
    case RejReason::kPrimaryLid: return "primary remote port LID rejected";
    case RejReason::kPrimarySl: return "invalid primary SL";
    case RejReason::kPrimaryTclass: return "invalid primary traffic class";
    case RejReason::kPrimaryHopLimit: return "invalid primary hop limit";
    case RejReason::kPrimaryRate: return "invalid primary packet rate";
    case RejReason::kAlternateGid: return "alternate remote port GID rejected";
    case RejReason::kAlternateLid: return "alternate remote port LID rejected";
    case RejReason::kAlternateSl: return "invalid alternate SL";
    case RejReason::kAlternateTclass: return "invalid alternate traffic class";
    case RejReason::kAlternateHopLimit: return "invalid alternate hop limit";
    case RejReason::kAlternateRate: return "invalid alternate packet rate";
    case RejReason::kPortAndCmRedirect: return "port and CM redirection";
    case RejReason::kPortRedirect: return "port redirection";
    case RejReason::kPathMtu: return "invalid path MTU";
    case RejReason::kResponderResources: return "insufficient responder resources";
    case RejReason::kConsumer: return "consumer reject";
    case RejReason::kRnrRetry: return "RNR retry count";
    case RejReason::kDuplicateCommId: return "duplicate local communication ID";
    case RejReason::kClassVersion: return "unsupported class version";
    case RejReason::kPrimaryFlowLabel: return "invalid primary flow label";
    case RejReason::kAlternateFlowLabel: return "invalid alternate flow label";
    case RejReason::kVendorOption: return "vendor option not supported";
  }
  return "unknown reason";
}

std::string_view to_string(SidrStatus status) noexcept {
  switch (status) {
    case SidrStatus::kValid: return "valid";
    case SidrStatus::kServiceNotSupported: return "service ID not supported";
    case SidrStatus::kRejected: return "rejected by the service";
    case SidrStatus::kNoQp: return "no queue pair available";
    case SidrStatus::kRedirect: return "redirected";
    case SidrStatus::kClassVersion: return "class version not supported";
  }
  return "unknown status";
}

}  // namespace ipoib::wire
