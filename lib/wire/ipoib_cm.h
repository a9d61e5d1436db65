// SPDX-License-Identifier: BSD-3-Clause
// Contents of CM messages in IPoIB connected mode: service IDs, private data, and the rule for REQs
// that cross. Source: draft-ietf-ipoib-connected-mode-03 (RFC 4755); iba-wire.md §5.7.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/wire/cm_mads.h"
#include "lib/wire/ipoib.h"

namespace ipoib::wire {

/// First octet of a service ID. Both forms are in use, so a listener must accept both.
enum class ServiceIdForm : std::uint8_t {
  kIetf = 0x01,   ///< draft-ietf-ipoib-connected-mode-03 §3.5; illumos.
  kLinux = 0x10,  ///< Linux.
};

/// Service ID of the interface whose UD queue pair is `ud_qpn`: first octet, type 0, 3 octets 0,
/// QPN. Source: draft-ietf-ipoib-connected-mode-03 §3.5.
[[nodiscard]] constexpr std::uint64_t ipoib_service_id(ServiceIdForm form,
                                                       std::uint32_t ud_qpn) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(form)} << 56 | (ud_qpn & 0xff'ffffU);
}

struct IpoibService {
  ServiceIdForm form;
  std::uint32_t ud_qpn;
};
/// Empty for a service ID that is not IPoIB's: another first octet, or type or reserved octets that
/// are not 0.
[[nodiscard]] constexpr std::optional<IpoibService> ipoib_service_of(std::uint64_t id) noexcept {
  const auto form = static_cast<ServiceIdForm>(id >> 56);
  if (form != ServiceIdForm::kIetf && form != ServiceIdForm::kLinux) return std::nullopt;
  if ((id & 0x00ff'ffff'ff00'0000ULL) != 0) return std::nullopt;
  return IpoibService{form, static_cast<std::uint32_t>(id & 0xff'ffffU)};
}

/// Private data of every message that sets up a connection. Source:
/// draft-ietf-ipoib-connected-mode-03 §6.
struct IpoibCmPrivate {
  std::uint8_t reserved;  ///< Zero on send, ignored on receive.
  Be24 ud_qpn;            ///< UD QPN of the sender.
  Be32 receive_mtu;       ///< Largest message that it takes, encapsulation header included.

  [[nodiscard]] static constexpr IpoibCmPrivate of(std::uint32_t ud_qpn,
                                                   std::uint32_t receive_mtu) noexcept {
    return {0, Be24{ud_qpn}, Be32{receive_mtu}};
  }
};
static_assert(WireRecord<IpoibCmPrivate> && sizeof(IpoibCmPrivate) == 8);

/// Largest IP packet of a connection between ends with these receive MTUs; 0 if one end takes none.
/// Source: draft-ietf-ipoib-connected-mode-03 §5.1.
[[nodiscard]] constexpr std::uint32_t connection_ip_mtu(std::uint32_t receive_mtu,
                                                        std::uint32_t peer_receive_mtu) noexcept {
  const std::uint32_t smaller = std::min(receive_mtu, peer_receive_mtu);
  return smaller > sizeof(IpoibHdr) ? smaller - static_cast<std::uint32_t>(sizeof(IpoibHdr)) : 0;
}

/// Link-layer address of the interface that sent a REQ, flags 0. Source:
/// draft-ietf-ipoib-connected-mode-03 §3.3.
[[nodiscard]] inline LinkAddr requester(const CmReq& req) noexcept {
  const auto said = read<IpoibCmPrivate>(req.private_data);
  return {0, said->ud_qpn, req.primary.local_gid};
}

/// True if an interface that has sent a REQ to `peer` accepts the REQ that it receives from `peer`.
/// The interface with the smaller address accepts (compared octet by octet without the flags), the
/// other one rejects with RejReason::kConsumer. Source: draft-ietf-ipoib-connected-mode-03
/// §3.3.
[[nodiscard]] constexpr bool accepts_crossing(const LinkAddr& own, const LinkAddr& peer) noexcept {
  if (own.qpn != peer.qpn) return own.qpn.host() < peer.qpn.host();
  return own.gid < peer.gid;
}

}  // namespace ipoib::wire
