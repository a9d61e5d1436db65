// SPDX-License-Identifier: BSD-3-Clause
// The eleven messages of communication management: 232 octets behind the MAD header, private data
// last. Source: IBA vol 1 ch. 12; iba-wire.md §5.1-§5.3.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/wire/be.h"
#include "lib/wire/cm_types.h"
#include "lib/wire/gid.h"

namespace ipoib::wire {

/// Path in a REQ from the view of its sender: "local" is the sender's end.
struct CmPath {
  Be16 local_lid;
  Be16 remote_lid;
  Gid local_gid;
  Gid remote_gid;
  Be32 flow_rate;  ///< FlowLabel:20, reserved:6, rate:6.
  std::uint8_t tclass;
  std::uint8_t hop_limit;
  std::uint8_t sl_local;  ///< SL:4, SubnetLocal:1, reserved:3.
  std::uint8_t ack;       ///< Local ACK timeout:5, reserved:3 (alternate: SAP supported:1).

  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return flow_rate.host() >> 12;
  }
  [[nodiscard]] constexpr std::uint8_t rate() const noexcept { return flow_rate.host() & 0x3f; }
  static constexpr Be32 pack_flow_rate(std::uint32_t flow_label, std::uint8_t rate) noexcept {
    return Be32{flow_label << 12 | (rate & 0x3fU)};
  }
  [[nodiscard]] constexpr std::uint8_t sl() const noexcept { return bits(sl_local, 4, 4); }
  constexpr void set_sl(unsigned v) noexcept { set_bits(sl_local, 4, 4, v); }
  /// Both ends are in one subnet, so packets have no GRH.
  [[nodiscard]] constexpr bool subnet_local() const noexcept { return bits(sl_local, 3, 1) != 0; }
  constexpr void set_subnet_local(bool v) noexcept { set_bits(sl_local, 3, 1, v ? 1 : 0); }
  /// Time code.
  [[nodiscard]] constexpr std::uint8_t ack_timeout() const noexcept { return bits(ack, 3, 5); }
  constexpr void set_ack_timeout(unsigned v) noexcept { set_bits(ack, 3, 5, v); }
  /// An alternate path of zeros is no path.
  [[nodiscard]] constexpr bool is_given() const noexcept {
    return local_lid.host() != 0 || remote_lid.host() != 0 || !local_gid.is_zero() ||
           !remote_gid.is_zero();
  }
};
static_assert(WireRecord<CmPath> && sizeof(CmPath) == 44 && offsetof(CmPath, flow_rate) == 36);

/// Request for communication. Source: IBA vol 1 §12.6.5; iba-wire.md §5.1.
struct CmReq {
  static constexpr CmAttr kAttr = CmAttr::kReq;
  Be32 local_id;  ///< Communication ID.
  Be32 reserved;
  Be64 service_id;
  Be64 local_ca_guid;
  Be32 reserved2;
  Be32 local_qkey;  ///< RD only.
  Be24 local_qpn;
  std::uint8_t responder_resources;
  Be24 local_eecn;
  std::uint8_t initiator_depth;
  Be24 remote_eecn;
  std::uint8_t remote_timeout_transport;  ///< Remote CM response timeout:5, transport:2, flow:1.
  Be24 starting_psn;                      ///< First PSN that the sender expects to receive.
  std::uint8_t local_timeout_retry;       ///< Local CM response timeout:5, retry count:3.
  Be16 pkey;
  std::uint8_t mtu_rdc_rnr;     ///< Path MTU:4, RDC exists:1, RNR retry count:3.
  std::uint8_t cm_retries_srq;  ///< Max CM retries:4, SRQ:1, extended transport:3.
  CmPath primary;
  CmPath alternate;
  std::array<std::byte, 92> private_data;

  /// Time that the receiver has to answer; time code.
  [[nodiscard]] constexpr std::uint8_t remote_timeout() const noexcept {
    return bits(remote_timeout_transport, 3, 5);
  }
  constexpr void set_remote_timeout(unsigned v) noexcept {
    set_bits(remote_timeout_transport, 3, 5, v);
  }
  [[nodiscard]] constexpr CmTransport transport() const noexcept {
    return static_cast<CmTransport>(bits(remote_timeout_transport, 1, 2));
  }
  constexpr void set_transport(CmTransport v) noexcept {
    set_bits(remote_timeout_transport, 1, 2, static_cast<unsigned>(v));
  }
  [[nodiscard]] constexpr bool flow_control() const noexcept {
    return bits(remote_timeout_transport, 0, 1) != 0;
  }
  constexpr void set_flow_control(bool v) noexcept {
    set_bits(remote_timeout_transport, 0, 1, v ? 1 : 0);
  }
  /// Time that the sender needs to answer a REP; time code.
  [[nodiscard]] constexpr std::uint8_t local_timeout() const noexcept {
    return bits(local_timeout_retry, 3, 5);
  }
  constexpr void set_local_timeout(unsigned v) noexcept { set_bits(local_timeout_retry, 3, 5, v); }
  [[nodiscard]] constexpr std::uint8_t retry_count() const noexcept {
    return bits(local_timeout_retry, 0, 3);
  }
  constexpr void set_retry_count(unsigned v) noexcept { set_bits(local_timeout_retry, 0, 3, v); }
  /// MTU code of the path.
  [[nodiscard]] constexpr std::uint8_t mtu() const noexcept { return bits(mtu_rdc_rnr, 4, 4); }
  constexpr void set_mtu(unsigned v) noexcept { set_bits(mtu_rdc_rnr, 4, 4, v); }
  [[nodiscard]] constexpr bool rdc_exists() const noexcept { return bits(mtu_rdc_rnr, 3, 1) != 0; }
  /// 7: for ever.
  [[nodiscard]] constexpr std::uint8_t rnr_retry() const noexcept {
    return bits(mtu_rdc_rnr, 0, 3);
  }
  constexpr void set_rnr_retry(unsigned v) noexcept { set_bits(mtu_rdc_rnr, 0, 3, v); }
  [[nodiscard]] constexpr std::uint8_t max_cm_retries() const noexcept {
    return bits(cm_retries_srq, 4, 4);
  }
  constexpr void set_max_cm_retries(unsigned v) noexcept { set_bits(cm_retries_srq, 4, 4, v); }
  [[nodiscard]] constexpr bool srq() const noexcept { return bits(cm_retries_srq, 3, 1) != 0; }
  constexpr void set_srq(bool v) noexcept { set_bits(cm_retries_srq, 3, 1, v ? 1 : 0); }
  /// Valid for transport kExtended; 1: XRC.
  [[nodiscard]] constexpr std::uint8_t extended_transport() const noexcept {
    return bits(cm_retries_srq, 0, 3);
  }
};
static_assert(CmMessage<CmReq> && offsetof(CmReq, starting_psn) == 44 &&
              offsetof(CmReq, primary) == 52 && offsetof(CmReq, alternate) == 96 &&
              offsetof(CmReq, private_data) == 140);

/// Reply to a REQ. Source: IBA vol 1 §12.6.8; iba-wire.md §5.2.
struct CmRep {
  static constexpr CmAttr kAttr = CmAttr::kRep;
  Be32 local_id;
  Be32 remote_id;  ///< local_id of the REQ.
  Be32 local_qkey;
  Be24 local_qpn;
  std::uint8_t reserved;
  Be24 local_eecn;
  std::uint8_t reserved2;
  Be24 starting_psn;
  std::uint8_t reserved3;
  std::uint8_t responder_resources;
  std::uint8_t initiator_depth;
  std::uint8_t delay_failover;  ///< Target ACK delay:5, failover accepted:2, flow control:1.
  std::uint8_t rnr_srq;         ///< RNR retry count:3, SRQ:1, reserved:4.
  Be64 local_ca_guid;
  std::array<std::byte, 196> private_data;

  /// Time code.
  [[nodiscard]] constexpr std::uint8_t target_ack_delay() const noexcept {
    return bits(delay_failover, 3, 5);
  }
  constexpr void set_target_ack_delay(unsigned v) noexcept { set_bits(delay_failover, 3, 5, v); }
  [[nodiscard]] constexpr Failover failover() const noexcept {
    return static_cast<Failover>(bits(delay_failover, 1, 2));
  }
  constexpr void set_failover(Failover v) noexcept {
    set_bits(delay_failover, 1, 2, static_cast<unsigned>(v));
  }
  [[nodiscard]] constexpr bool flow_control() const noexcept {
    return bits(delay_failover, 0, 1) != 0;
  }
  constexpr void set_flow_control(bool v) noexcept { set_bits(delay_failover, 0, 1, v ? 1 : 0); }
  [[nodiscard]] constexpr std::uint8_t rnr_retry() const noexcept { return bits(rnr_srq, 5, 3); }
  constexpr void set_rnr_retry(unsigned v) noexcept { set_bits(rnr_srq, 5, 3, v); }
  [[nodiscard]] constexpr bool srq() const noexcept { return bits(rnr_srq, 4, 1) != 0; }
  constexpr void set_srq(bool v) noexcept { set_bits(rnr_srq, 4, 1, v ? 1 : 0); }
};
static_assert(CmMessage<CmRep> && offsetof(CmRep, starting_psn) == 20 &&
              offsetof(CmRep, local_ca_guid) == 28 && offsetof(CmRep, private_data) == 36);

/// Message receipt acknowledgement: the answer takes longer. Source: IBA vol 1 §12.6.6.
struct CmMra {
  static constexpr CmAttr kAttr = CmAttr::kMra;
  Be32 local_id;
  Be32 remote_id;
  std::uint8_t about_reserved;    ///< Message MRAed:2, reserved:6.
  std::uint8_t timeout_reserved;  ///< Service timeout:5, reserved:3.
  std::array<std::byte, 222> private_data;

  [[nodiscard]] constexpr CmAbout about() const noexcept {
    return static_cast<CmAbout>(bits(about_reserved, 6, 2));
  }
  constexpr void set_about(CmAbout v) noexcept {
    set_bits(about_reserved, 6, 2, static_cast<unsigned>(v));
  }
  /// Time code.
  [[nodiscard]] constexpr std::uint8_t service_timeout() const noexcept {
    return bits(timeout_reserved, 3, 5);
  }
  constexpr void set_service_timeout(unsigned v) noexcept { set_bits(timeout_reserved, 3, 5, v); }
};
static_assert(CmMessage<CmMra> && offsetof(CmMra, private_data) == 10);

/// Rejection of a REQ or REP, or of the resulting connection. Source: IBA vol 1 §12.6.7.
struct CmRej {
  static constexpr CmAttr kAttr = CmAttr::kRej;
  Be32 local_id;  ///< 0 if the sender rejected a REQ before it chose an ID.
  Be32 remote_id;
  std::uint8_t about_reserved;  ///< Message rejected:2, reserved:6.
  std::uint8_t info_reserved;   ///< Length of the additional information:7, reserved:1.
  Be16 reason;
  std::array<std::byte, kCmInfoLen> info;
  std::array<std::byte, 148> private_data;

  [[nodiscard]] constexpr CmAbout about() const noexcept {
    return static_cast<CmAbout>(bits(about_reserved, 6, 2));
  }
  constexpr void set_about(CmAbout v) noexcept {
    set_bits(about_reserved, 6, 2, static_cast<unsigned>(v));
  }
  [[nodiscard]] constexpr std::uint8_t info_len() const noexcept {
    return bits(info_reserved, 1, 7);
  }
  constexpr void set_info(std::span<const std::byte> octets) noexcept {
    set_private(info, octets);
    set_bits(info_reserved, 1, 7, static_cast<unsigned>(std::min(octets.size(), kCmInfoLen)));
  }
  [[nodiscard]] constexpr RejReason why() const noexcept {
    return static_cast<RejReason>(reason.host());
  }
};
static_assert(CmMessage<CmRej> && offsetof(CmRej, reason) == 10 &&
              offsetof(CmRej, private_data) == 84);

/// Ready to use. Source: IBA vol 1 §12.6.9.
struct CmRtu {
  static constexpr CmAttr kAttr = CmAttr::kRtu;
  Be32 local_id;
  Be32 remote_id;
  std::array<std::byte, 224> private_data;
};
static_assert(CmMessage<CmRtu>);

/// Request for communication release. Source: IBA vol 1 §12.6.10.
struct CmDreq {
  static constexpr CmAttr kAttr = CmAttr::kDreq;
  Be32 local_id;
  Be32 remote_id;
  Be24 remote_qpn;  ///< QPN of the receiver.
  std::uint8_t reserved;
  std::array<std::byte, 220> private_data;
};
static_assert(CmMessage<CmDreq> && offsetof(CmDreq, private_data) == 12);

/// Reply to a DREQ. Source: IBA vol 1 §12.6.11.
struct CmDrep {
  static constexpr CmAttr kAttr = CmAttr::kDrep;
  Be32 local_id;
  Be32 remote_id;
  std::array<std::byte, 224> private_data;
};
static_assert(CmMessage<CmDrep>);

/// Load alternate path. The layout of the path differs from a REQ's. Source: IBA vol 1 §12.8.1.
struct CmLap {
  static constexpr CmAttr kAttr = CmAttr::kLap;
  Be32 local_id;
  Be32 remote_id;
  Be32 reserved;
  Be24 remote_qpn;
  std::uint8_t timeout_reserved;  ///< Remote CM response timeout:5, reserved:3.
  Be32 reserved2;
  Be16 local_lid;
  Be16 remote_lid;
  Gid local_gid;
  Gid remote_gid;
  Be24 flow_reserved;  ///< FlowLabel:20, reserved:4.
  std::uint8_t tclass;
  std::uint8_t hop_limit;
  std::uint8_t reserved_rate;  ///< Reserved:2, rate:6.
  std::uint8_t sl_local;       ///< SL:4, SubnetLocal:1, reserved:3.
  std::uint8_t ack;            ///< Local ACK timeout:5, reserved:3.
  std::array<std::byte, 168> private_data;

  [[nodiscard]] constexpr std::uint8_t remote_timeout() const noexcept {
    return bits(timeout_reserved, 3, 5);
  }
  constexpr void set_remote_timeout(unsigned v) noexcept { set_bits(timeout_reserved, 3, 5, v); }
  [[nodiscard]] constexpr std::uint32_t flow_label() const noexcept {
    return flow_reserved.host() >> 4;
  }
  constexpr void set_flow_label(std::uint32_t v) noexcept { flow_reserved.set(v << 4); }
  [[nodiscard]] constexpr std::uint8_t rate() const noexcept { return bits(reserved_rate, 0, 6); }
  constexpr void set_rate(unsigned v) noexcept { set_bits(reserved_rate, 0, 6, v); }
  [[nodiscard]] constexpr std::uint8_t sl() const noexcept { return bits(sl_local, 4, 4); }
  constexpr void set_sl(unsigned v) noexcept { set_bits(sl_local, 4, 4, v); }
  [[nodiscard]] constexpr bool subnet_local() const noexcept { return bits(sl_local, 3, 1) != 0; }
  constexpr void set_subnet_local(bool v) noexcept { set_bits(sl_local, 3, 1, v ? 1 : 0); }
  [[nodiscard]] constexpr std::uint8_t ack_timeout() const noexcept { return bits(ack, 3, 5); }
  constexpr void set_ack_timeout(unsigned v) noexcept { set_bits(ack, 3, 5, v); }
};
static_assert(CmMessage<CmLap> && offsetof(CmLap, remote_qpn) == 12 &&
              offsetof(CmLap, local_lid) == 20 && offsetof(CmLap, tclass) == 59 &&
              offsetof(CmLap, private_data) == 64);

/// Response to a LAP. Source: IBA vol 1 §12.8.2.
struct CmApr {
  static constexpr CmAttr kAttr = CmAttr::kApr;
  Be32 local_id;
  Be32 remote_id;
  std::uint8_t info_len;
  ApStatus status;
  Be16 reserved;
  std::array<std::byte, kCmInfoLen> info;
  std::array<std::byte, 148> private_data;
};
static_assert(CmMessage<CmApr> && offsetof(CmApr, info) == 12 &&
              offsetof(CmApr, private_data) == 84);

/// Request for the queue pair that serves a service by datagrams. Source: IBA vol 1 §12.11.1.
struct CmSidrReq {
  static constexpr CmAttr kAttr = CmAttr::kSidrReq;
  Be32 request_id;
  Be16 pkey;
  Be16 reserved;
  Be64 service_id;
  std::array<std::byte, 216> private_data;
};
static_assert(CmMessage<CmSidrReq> && offsetof(CmSidrReq, private_data) == 16);

/// Reply to a SIDR_REQ. Source: IBA vol 1 §12.11.2.
struct CmSidrRep {
  static constexpr CmAttr kAttr = CmAttr::kSidrRep;
  Be32 request_id;
  SidrStatus status;
  std::uint8_t info_len;
  Be16 reserved;
  Be24 qpn;
  std::uint8_t reserved2;
  Be64 service_id;
  Be32 qkey;
  std::array<std::byte, kCmInfoLen> info;
  std::array<std::byte, 136> private_data;
};
static_assert(CmMessage<CmSidrRep> && offsetof(CmSidrRep, service_id) == 12 &&
              offsetof(CmSidrRep, qkey) == 20 && offsetof(CmSidrRep, private_data) == 96);

}  // namespace ipoib::wire
