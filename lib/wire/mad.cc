#include "lib/wire/mad.h"

namespace ipoib::wire {

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
