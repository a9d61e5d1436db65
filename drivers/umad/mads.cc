// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/mads.h"

#include <algorithm>
#include <cstring>

#include "lib/wire/sa_records.h"
#include "lib/wire/smp.h"

namespace ipoib::umad {
namespace {

/// Method of the response to a request; empty: the method has no response.
std::optional<std::uint8_t> answer_to(std::uint8_t method) {
  switch (static_cast<wire::Method>(method)) {
    case wire::Method::kSend:
    case wire::Method::kTrap:
    case wire::Method::kReport:
    case wire::Method::kTrapRepress: return std::nullopt;
    case wire::Method::kSet: return static_cast<std::uint8_t>(wire::Method::kGetResp);
    default: return static_cast<std::uint8_t>(method | wire::kMethodResponse);
  }
}

}  // namespace

bool is_of_connections(const wire::MadHdr& header) noexcept {
  return is(header.mgmt_class, wire::MgmtClass::kComMgt) &&
         header.method == static_cast<std::uint8_t>(wire::Method::kSend);
}

std::optional<fabric::MadBytes> refusal_of(const Arrived& request, const wire::MadHdr& header) {
  const auto method = answer_to(header.method);
  if (!method || is_response(header.method)) return std::nullopt;
  fabric::MadBytes answer{};
  std::copy_n(request.bytes.begin(), std::min(request.bytes.size(), answer.size()), answer.begin());
  wire::MadHdr hdr = header;
  hdr.method = *method;
  const auto status = static_cast<std::uint16_t>(wire::MadStatus::kMethodAttributeNotSupported);
  const bool directed = is(header.mgmt_class, wire::MgmtClass::kSubnDr);
  hdr.status.set(static_cast<std::uint16_t>(status | (directed ? wire::kSmpReturning : 0)));
  std::memcpy(answer.data(), &hdr, sizeof(hdr));
  return answer;
}

fabric::ReceivedMad as_received(const Arrived& arrived, std::uint16_t pkey) {
  fabric::ReceivedMad mad;
  mad.from = {.lid = arrived.from.lid,
              .sl = arrived.from.sl,
              .qpn = arrived.from.qpn,
              .pkey = pkey,
              .gid = arrived.from.gid};
  mad.whole = true;
  mad.len = arrived.bytes.size();
  const auto head = static_cast<std::ptrdiff_t>(std::min(mad.len, wire::kMadLen));
  mad.bytes = {};
  std::copy_n(arrived.bytes.begin(), head, mad.bytes.begin());
  mad.rest.assign(arrived.bytes.begin() + head, arrived.bytes.end());
  return mad;
}

}  // namespace ipoib::umad
