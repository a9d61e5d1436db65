// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ibarp.h"

namespace ipoib::wire {
namespace {

constexpr std::uint8_t kIbarpVersion = 1;

/// Source: draft-pelissier-ipoib-encaparp-00 §6.2.
struct IbarpPrivateData {
  std::uint8_t ver_sl;  ///< Version:4, SL:4.
  std::uint8_t tclass;
  Be16 dlid;
  Be32 hop_flow;  ///< Hop limit:8, reserved:4, FlowLabel:20.
  Be16 reserved;
  Be16 pkey;
  Be32 qkey;
  Gid dgid;
};
static_assert(WireRecord<IbarpPrivateData> && sizeof(IbarpPrivateData) == kIbarpBroadcastLen);

}  // namespace

std::string_view to_string(IbarpError error) {
  switch (error) {
    case IbarpError::kTruncated: return "truncated";
    case IbarpError::kVersion: return "version";
    case IbarpError::kDlid: return "dlid";
    case IbarpError::kDgid: return "dgid";
    case IbarpError::kPkey: return "pkey";
    case IbarpError::kCount: break;
  }
  return "unknown";
}

tl::expected<IbarpBroadcast, IbarpError> parse_ibarp_broadcast(
    std::span<const std::byte> private_data) {
  const auto error = [](IbarpError e) { return tl::make_unexpected(e); };
  const auto data = read<IbarpPrivateData>(private_data);
  if (!data) return error(IbarpError::kTruncated);
  if (data->ver_sl >> 4 != kIbarpVersion) return error(IbarpError::kVersion);
  if (!is_multicast_lid(data->dlid.host())) return error(IbarpError::kDlid);
  if (!data->dgid.is_multicast()) return error(IbarpError::kDgid);
  if ((data->pkey.host() & ~kFullMemberBit) == 0) return error(IbarpError::kPkey);
  const std::uint32_t hop_flow = data->hop_flow.host();
  return IbarpBroadcast{.sl = static_cast<std::uint8_t>(data->ver_sl & 0x0f),
                        .tclass = data->tclass,
                        .mlid = data->dlid.host(),
                        .hop_limit = static_cast<std::uint8_t>(hop_flow >> 24),
                        .flow_label = hop_flow & 0xf'ffff,
                        .pkey = data->pkey.host(),
                        .qkey = data->qkey.host(),
                        .mgid = data->dgid};
}

std::vector<std::byte> build_ibarp_broadcast(const IbarpBroadcast& b) {
  const IbarpPrivateData data{
      .ver_sl = static_cast<std::uint8_t>(kIbarpVersion << 4 | (b.sl & 0x0f)),
      .tclass = b.tclass,
      .dlid = Be16{b.mlid},
      .hop_flow = Be32{std::uint32_t{b.hop_limit} << 24 | (b.flow_label & 0xf'ffff)},
      .reserved = {},
      .pkey = Be16{b.pkey},
      .qkey = Be32{b.qkey},
      .dgid = b.mgid};
  const auto octets = bytes_of(data);
  return {octets.begin(), octets.end()};
}

}  // namespace ipoib::wire
