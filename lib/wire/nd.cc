// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/nd.h"

#include <algorithm>
#include <cstring>

#include "lib/wire/append.h"

namespace ipoib::wire {
namespace {

constexpr std::size_t kUnit = 8;  ///< Options are counted in units of 8 octets.
constexpr std::uint32_t kRouterFlag = 0x8000'0000;
constexpr std::uint32_t kSolicitedFlag = 0x4000'0000;
constexpr std::uint32_t kOverrideFlag = 0x2000'0000;

struct PrefixOption {
  std::uint8_t type;
  std::uint8_t length;
  std::uint8_t prefix_len;
  std::uint8_t flags;  ///< 0x80 on-link, 0x40 autonomous.
  Be32 valid_s;
  Be32 preferred_s;
  Be32 reserved;
  IpAddr prefix;
};
static_assert(WireRecord<PrefixOption> && sizeof(PrefixOption) == kPrefixOptionLen);

struct MtuOption {
  std::uint8_t type;
  std::uint8_t length;
  Be16 reserved;
  Be32 mtu;
};
static_assert(WireRecord<MtuOption> && sizeof(MtuOption) == 8);

struct RaTimes {
  Be32 reachable_ms;
  Be32 retransmit_ms;
};
static_assert(WireRecord<RaTimes> && sizeof(RaTimes) == 8);

using Octets = std::span<const std::byte>;

/// Octets of the message before its options; 0: not a neighbour discovery message.
std::size_t fixed_len(std::uint8_t type) {
  switch (static_cast<Icmp6Type>(type)) {
    case Icmp6Type::kRouterSolicitation: return 8;
    case Icmp6Type::kRouterAdvertisement: return 16;
    case Icmp6Type::kNeighbourSolicitation:
    case Icmp6Type::kNeighbourAdvertisement: return 24;
    case Icmp6Type::kRedirect: return 40;
    default: return 0;
  }
}

void read_fixed(NdMessage& m, Octets icmp, const IcmpHdr& hdr) {
  const std::uint32_t rest = hdr.rest.host();
  switch (m.type) {
    case Icmp6Type::kRouterAdvertisement: {
      const auto times = *read<RaTimes>(icmp, 8);
      m.hop_limit = static_cast<std::uint8_t>(rest >> 24);
      m.flags = static_cast<std::uint8_t>(rest >> 16);
      m.lifetime_s = static_cast<std::uint16_t>(rest);
      m.reachable_ms = times.reachable_ms.host();
      m.retransmit_ms = times.retransmit_ms.host();
      break;
    }
    case Icmp6Type::kNeighbourAdvertisement:
      m.router = (rest & kRouterFlag) != 0;
      m.solicited = (rest & kSolicitedFlag) != 0;
      m.override_it = (rest & kOverrideFlag) != 0;
      [[fallthrough]];
    case Icmp6Type::kNeighbourSolicitation: m.target = *read<IpAddr>(icmp, 8); break;
    case Icmp6Type::kRedirect:
      m.target = *read<IpAddr>(icmp, 8);
      m.destination = *read<IpAddr>(icmp, 24);
      break;
    default: break;
  }
}

/// Octets of an option before its address.
std::size_t hw_offset(LinkKind kind) {
  return kind == LinkKind::kEthernet ? 2 : 4;
}

/// True if an address of 2001 has the other form of LinkFormat::gid_word_twice. Both forms fill
/// five units; only the repeated word distinguishes them. `octets`: the option from the address on.
bool has_other_form(const LinkFormat& format, Octets octets) {
  if (format.kind != LinkKind::kIbarp) return false;
  const auto word = [&](std::size_t at) { return read<Be32>(octets, at)->host(); };
  constexpr std::size_t kGid = offsetof(IbarpAddr, gid), kEnd = kGid + sizeof(Gid);
  const bool repeated = word(kGid) == word(kGid + sizeof(Be32));
  return format.gid_word_twice ? !repeated : repeated && word(kEnd) != 0;
}

/// Returns false if length or form are not those of this link. The first address counts.
bool read_hw_option(std::optional<HwAddr>& into, const LinkFormat& format, Octets option) {
  if (option.size() != hw_option_len(format.kind)) return false;
  const Octets octets = option.subspan(hw_offset(format.kind));
  if (has_other_form(format, octets)) return false;
  if (!into) into = read_hw(format, octets);
  return true;
}

/// Returns false if the message must be ignored. `option` has at least one unit, and whole units.
bool read_option(NdMessage& m, const LinkFormat& format, Octets option) {
  switch (static_cast<NdOption>(std::to_integer<std::uint8_t>(option[0]))) {
    case NdOption::kSourceLinkAddr: return read_hw_option(m.source_hw, format, option);
    case NdOption::kTargetLinkAddr: return read_hw_option(m.target_hw, format, option);
    case NdOption::kPrefix:
      if (const auto p = read<PrefixOption>(option); p && option.size() == sizeof(PrefixOption) &&
                                                     p->prefix_len <= 128 &&
                                                     m.type == Icmp6Type::kRouterAdvertisement)
        m.prefixes.push_back({{p->prefix, p->prefix_len},
                              (p->flags & 0x80) != 0,
                              (p->flags & 0x40) != 0,
                              p->valid_s.host(),
                              p->preferred_s.host()});
      return true;
    case NdOption::kMtu:
      if (const auto o = read<MtuOption>(option);
          o && option.size() == sizeof(MtuOption) && m.type == Icmp6Type::kRouterAdvertisement)
        m.mtu = o->mtu.host();
      return true;
    case NdOption::kNonce:
      if (option.size() == kUnit) m.nonce = read<NdNonce>(option, 2);
      return true;
    case NdOption::kRedirectedHeader:
      if (m.type == Icmp6Type::kRedirect) m.redirected.assign(option.begin() + kUnit, option.end());
      return true;
  }
  return true;
}

std::optional<NdError> read_options(NdMessage& m, const LinkFormat& format, Octets options) {
  while (!options.empty()) {
    if (options.size() < 2) return NdError::kOptionLength;
    const std::size_t len = std::to_integer<std::size_t>(options[1]) * kUnit;
    if (len == 0 || len > options.size()) return NdError::kOptionLength;
    if (!read_option(m, format, options.first(len))) return NdError::kLinkAddr;
    options = options.subspan(len);
  }
  return std::nullopt;
}

bool is_solicited_node(const IpAddr& a) {
  return a == solicited_node(a);
}

/// Mapped addresses are refused: they are the form of IPv4 addresses in all tables, so a message
/// about one would change an IPv4 neighbour or route.
bool is_unicast(const IpAddr& a) {
  return !is_multicast(a) && !is_reserved6(a);
}

std::optional<NdError> check(const NdMessage& m) {
  const bool anonymous = is_unspecified(m.src);
  const bool solicits =
      m.type == Icmp6Type::kRouterSolicitation || m.type == Icmp6Type::kNeighbourSolicitation;
  if (!is_unicast(m.src) && !(anonymous && solicits)) return NdError::kSource;
  if (anonymous && m.source_hw) return NdError::kLinkAddr;
  switch (m.type) {
    case Icmp6Type::kNeighbourSolicitation:
      if (!is_unicast(m.target)) return NdError::kTarget;
      if (anonymous && !is_solicited_node(m.dst)) return NdError::kDestination;
      break;
    case Icmp6Type::kNeighbourAdvertisement:
      if (!is_unicast(m.target)) return NdError::kTarget;
      if (is_multicast(m.dst) && m.solicited) return NdError::kDestination;
      break;
    case Icmp6Type::kRouterAdvertisement:
      if (!is_link_local6(m.src)) return NdError::kSource;
      break;
    case Icmp6Type::kRedirect:
      if (!is_link_local6(m.src)) return NdError::kSource;
      if (!is_unicast(m.destination)) return NdError::kDestination;
      if (!is_link_local6(m.target) && m.target != m.destination) return NdError::kTarget;
      break;
    default: break;
  }
  return std::nullopt;
}

// --- Building ---

void append_hw_option(std::vector<std::byte>& out, NdOption type, const std::optional<HwAddr>& hw,
                      const std::optional<LinkFormat>& format) {
  if (!hw) return;
  const std::size_t begin = out.size();
  const std::size_t len = hw_option_len(hw->kind());
  out.push_back(static_cast<std::byte>(type));
  out.push_back(static_cast<std::byte>(len / kUnit));
  out.resize(begin + hw_offset(hw->kind()));
  append_hw(out, format.value_or(hw->kind()), *hw);
  out.resize(begin + len);
}

std::uint32_t rest_of(const NdMessage& m) {
  if (m.type == Icmp6Type::kRouterAdvertisement)
    return std::uint32_t{m.hop_limit} << 24 | std::uint32_t{m.flags} << 16 | m.lifetime_s;
  if (m.type == Icmp6Type::kNeighbourAdvertisement)
    return (m.router ? kRouterFlag : 0) | (m.solicited ? kSolicitedFlag : 0) |
           (m.override_it ? kOverrideFlag : 0);
  return 0;
}

void append_fixed(std::vector<std::byte>& out, const NdMessage& m) {
  append(out, bytes_of(IcmpHdr{static_cast<std::uint8_t>(m.type), 0, Be16{}, Be32{rest_of(m)}}));
  switch (m.type) {
    case Icmp6Type::kRouterAdvertisement:
      append(out, bytes_of(RaTimes{Be32{m.reachable_ms}, Be32{m.retransmit_ms}}));
      break;
    case Icmp6Type::kNeighbourSolicitation:
    case Icmp6Type::kNeighbourAdvertisement: append(out, bytes_of(m.target)); break;
    case Icmp6Type::kRedirect:
      append(out, bytes_of(m.target));
      append(out, bytes_of(m.destination));
      break;
    default: break;
  }
}

void append_options(std::vector<std::byte>& out, const NdMessage& m,
                    const std::optional<LinkFormat>& format) {
  append_hw_option(out, NdOption::kSourceLinkAddr, m.source_hw, format);
  append_hw_option(out, NdOption::kTargetLinkAddr, m.target_hw, format);
  if (m.mtu)
    append(out,
           bytes_of(MtuOption{static_cast<std::uint8_t>(NdOption::kMtu), 1, {}, Be32{*m.mtu}}));
  for (const auto& p : m.prefixes) {
    const auto flags =
        static_cast<std::uint8_t>((p.on_link ? 0x80 : 0) | (p.autonomous ? 0x40 : 0));
    append(out, bytes_of(PrefixOption{static_cast<std::uint8_t>(NdOption::kPrefix),
                                      sizeof(PrefixOption) / kUnit,
                                      p.prefix.len,
                                      flags,
                                      Be32{p.valid_s},
                                      Be32{p.preferred_s},
                                      {},
                                      p.prefix.addr}));
  }
  if (m.nonce) {
    out.push_back(static_cast<std::byte>(NdOption::kNonce));
    out.push_back(std::byte{1});
    append(out, *m.nonce);
  }
  if (m.redirected.empty()) return;
  const std::size_t units = m.redirected.size() / kUnit;
  out.push_back(static_cast<std::byte>(NdOption::kRedirectedHeader));
  out.push_back(static_cast<std::byte>(units + 1));
  out.resize(out.size() + kUnit - 2);
  append(out, Octets{m.redirected}.first(units * kUnit));
}

}  // namespace

std::string_view to_string(NdError error) {
  switch (error) {
    case NdError::kTruncated: return "truncated";
    case NdError::kNotNd: return "not_nd";
    case NdError::kHopLimit: return "hop_limit";
    case NdError::kChecksum: return "checksum";
    case NdError::kCode: return "code";
    case NdError::kOptionLength: return "option_length";
    case NdError::kLinkAddr: return "link_address";
    case NdError::kSource: return "source";
    case NdError::kDestination: return "destination";
    case NdError::kTarget: return "target";
    case NdError::kCount: break;
  }
  return "unknown";
}

tl::expected<NdMessage, NdError> parse_nd(const LinkFormat& format,
                                          std::span<const std::byte> packet) {
  const auto error = [](NdError e) { return tl::make_unexpected(e); };
  const auto ip = read<Ipv6Hdr>(packet);
  if (!ip || packet.size() - sizeof(Ipv6Hdr) < ip->payload_len.host())
    return error(NdError::kTruncated);
  if (ip->version() != 6 || ip->next_header != static_cast<std::uint8_t>(IpProto::kIcmpv6))
    return error(NdError::kNotNd);
  if (ip->hop_limit != 255) return error(NdError::kHopLimit);
  const auto icmp = packet.subspan(sizeof(Ipv6Hdr), ip->payload_len.host());
  const auto hdr = read<IcmpHdr>(icmp);
  if (!hdr) return error(NdError::kTruncated);
  const auto fixed = fixed_len(hdr->type);
  if (fixed == 0) return error(NdError::kNotNd);
  if (icmp.size() < fixed) return error(NdError::kTruncated);
  if (icmp6_checksum(ip->src, ip->dst, icmp) != 0) return error(NdError::kChecksum);
  if (hdr->code != 0) return error(NdError::kCode);

  NdMessage m;
  m.type = static_cast<Icmp6Type>(hdr->type);
  m.src = ip->src;
  m.dst = ip->dst;
  read_fixed(m, icmp, *hdr);
  if (const auto wrong = read_options(m, format, icmp.subspan(fixed))) return error(*wrong);
  if (const auto wrong = check(m)) return error(*wrong);
  return m;
}

std::vector<std::byte> build_nd(const NdMessage& m, const std::optional<LinkFormat>& format) {
  std::vector<std::byte> packet(sizeof(Ipv6Hdr));
  append_fixed(packet, m);
  append_options(packet, m, format);
  const auto icmp = std::span{packet}.subspan(sizeof(Ipv6Hdr));
  const Ipv6Hdr ip{Be32{Ipv6Hdr::kVersion6},
                   Be16{static_cast<std::uint16_t>(icmp.size())},
                   static_cast<std::uint8_t>(IpProto::kIcmpv6),
                   255,
                   m.src,
                   m.dst};
  std::memcpy(packet.data(), &ip, sizeof ip);
  const Be16 checksum{icmp6_checksum(m.src, m.dst, icmp)};
  std::memcpy(icmp.data() + offsetof(IcmpHdr, checksum), &checksum, sizeof checksum);
  return packet;
}

std::optional<std::vector<std::byte>> make_redirect(const LinkFormat& format, const IpAddr& source,
                                                    std::span<const std::byte> offending,
                                                    const IpAddr& next_hop,
                                                    const std::optional<HwAddr>& next_hop_hw) {
  const auto ip = read<Ipv6Hdr>(offending);
  if (!ip || ip->version() != 6) return std::nullopt;
  if (!is_unicast(ip->src) || is_multicast(ip->dst)) return std::nullopt;
  NdMessage m;
  m.type = Icmp6Type::kRedirect;
  m.src = source;
  m.dst = ip->src;
  m.target = next_hop;
  m.destination = ip->dst;
  m.target_hw = next_hop_hw;
  const std::size_t before = sizeof(Ipv6Hdr) + 40 + hw_option_len(format.kind) + kUnit;
  const auto quoted = std::min(offending.size(), kMinIpv6Mtu - before) / kUnit * kUnit;
  m.redirected.assign(offending.begin(), offending.begin() + static_cast<std::ptrdiff_t>(quoted));
  return build_nd(m, format);
}

}  // namespace ipoib::wire
