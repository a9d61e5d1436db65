// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/frame.h"

#include <algorithm>
#include <array>

namespace ipoib::wire {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(FrameError::kCount)>
    kFrameErrorNames = {"none",
                        "runt",
                        "link_version",
                        "not_iba",
                        "packet_length",
                        "grh_version",
                        "grh_next_header",
                        "grh_length",
                        "transport_version",
                        "opcode",
                        "pad"};
static_assert(!kFrameErrorNames.back().empty());

/// Writes a record at `out`, which has room for it, and returns the end of the record.
template <WireRecord T>
std::byte* put(std::byte* out, const T& record) {
  std::memcpy(out, &record, sizeof(T));
  return out + sizeof(T);
}

}  // namespace

std::string_view frame_error_name(FrameError error) noexcept {
  return kFrameErrorNames[static_cast<std::size_t>(error)];
}

std::size_t build_ud_packet(const UdSpec& spec, std::span<const std::byte> payload,
                            std::span<std::byte> out) noexcept {
  const bool global = spec.grh.has_value();
  const std::size_t len = ud_packet_len(global, payload.size());
  if (payload.size() > kMaxPayload || len > out.size()) return 0;
  const auto pad = static_cast<unsigned>(-payload.size() & 3);
  const Lnh lnh = global ? Lnh::kGlobal : Lnh::kLocal;

  // The payload is moved first, because it may already be at its place in `out`.
  const std::size_t header_len = global ? kUdGlobalHeaderLen : kUdLocalHeaderLen;
  if (!payload.empty()) std::memmove(out.data() + header_len, payload.data(), payload.size());
  std::fill_n(out.data() + header_len + payload.size(), pad, std::byte{0});

  const unsigned sl_lnh = unsigned{spec.sl} << 4 | static_cast<unsigned>(lnh);
  std::byte* at = put(
      out.data(), Lrh{static_cast<std::uint8_t>(spec.vl << 4), static_cast<std::uint8_t>(sl_lnh),
                      Be16{spec.dlid}, Be16{static_cast<std::uint16_t>(len / 4)}, Be16{spec.slid}});
  if (global) {
    const auto pay_len = static_cast<std::uint16_t>(len - sizeof(Lrh) - sizeof(Grh));
    at = put(at, Grh{Grh::pack(spec.grh->tclass, spec.grh->flow_label), Be16{pay_len},
                     Grh::kNextHeaderIba, spec.grh->hop_limit, spec.grh->sgid, spec.grh->dgid});
  }
  const unsigned flags =
      (spec.solicited ? Bth::kSolicited : 0U) | (spec.mig_req ? Bth::kMigReq : 0U) | pad << 4;
  at = put(at, Bth{static_cast<std::uint8_t>(Opcode::kUdSendOnly), static_cast<std::uint8_t>(flags),
                   Be16{spec.pkey}, 0, Be24{spec.dest_qp}, 0, Be24{spec.psn}});
  put(at, Deth{Be32{spec.qkey}, 0, Be24{spec.src_qp}});
  put_icrc(out.first(len));
  return len;
}

bool append_vcrc(std::span<std::byte> buffer, std::size_t packet_len) noexcept {
  if (packet_len > buffer.size() || buffer.size() - packet_len < kVcrcLen) return false;
  const std::uint16_t value = vcrc(buffer.first(packet_len));
  std::memcpy(buffer.data() + packet_len, &value, sizeof(value));
  return true;
}

}  // namespace ipoib::wire
