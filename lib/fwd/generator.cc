// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/generator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ipoib::fwd {
namespace {

using wire::IpAddr;
using wire::IpProto;

constexpr std::uint8_t kTtl = 64;
constexpr double kSaved = 0.01;  ///< Seconds: a loop that is this late loses no packets.

/// Returns the sum of 16-bit words in memory order, not folded. `bytes`: an even number of octets.
std::uint32_t sum_of(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    std::uint16_t word;
    std::memcpy(&word, &bytes[i], sizeof(word));
    sum += word;
  }
  return sum;
}

/// Returns address `first` + `n`, counted within its low 64 bits (IPv6) or 32 bits (IPv4).
IpAddr counted_up(const IpAddr& first, std::uint32_t n) {
  if (first.is_v4()) return IpAddr::v4(first.v4_host() + n);
  IpAddr addr = first;
  wire::Be64 low;
  std::memcpy(&low, &addr.bytes[8], sizeof(low));
  low.set(low.host() + n);
  std::memcpy(&addr.bytes[8], &low, sizeof(low));
  return addr;
}

/// Returns port `first` + `n`, wrapping from 65,535 to 1: port 0 is not used.
std::uint16_t port_of(std::uint16_t first, unsigned n) {
  return static_cast<std::uint16_t>((first + 65'534U + n) % 65'535U + 1U);
}

FlowTemplate make_flow(const GeneratorConfig& config, unsigned number) {
  FlowTemplate flow;
  const IpAddr dst = counted_up(config.ip.dst, number % config.neighbours);
  const wire::UdpHdr udp{wire::Be16{port_of(config.udp.src, number / config.neighbours)},
                         wire::Be16{config.udp.dst},
                         {},
                         {}};
  const auto put = [&flow, &udp](const auto& ip) {
    std::memcpy(flow.header.data(), &ip, sizeof(ip));
    std::memcpy(&flow.header[sizeof(ip)], &udp, sizeof(udp));
  };
  constexpr auto kUdp = static_cast<std::uint8_t>(IpProto::kUdp);
  const std::uint32_t udp_sum =
      sum_of(wire::bytes_of(udp)) + sum_of(wire::bytes_of(wire::Be16{kUdp}));
  if (dst.is_v4()) {
    wire::Ipv4Hdr ip{};
    ip.version_ihl = 0x45;
    ip.flags_offset.set(wire::Ipv4Hdr::kDontFragment);
    ip.ttl = kTtl;
    ip.protocol = kUdp;
    ip.src.set(config.ip.src.v4_host());
    ip.dst.set(dst.v4_host());
    put(ip);
    flow.dst4 = dst.v4_host();
    flow.ip_sum = wire::fold_carries(sum_of(wire::bytes_of(ip)));
    flow.udp_sum = wire::fold_carries(udp_sum + sum_of(wire::bytes_of(ip.src)) +
                                      sum_of(wire::bytes_of(ip.dst)));
  } else {
    wire::Ipv6Hdr ip{};
    ip.version_class_flow.set(wire::Ipv6Hdr::kVersion6);
    ip.next_header = kUdp;
    ip.hop_limit = kTtl;
    ip.src = config.ip.src;
    ip.dst = dst;
    put(ip);
    flow.udp_sum = wire::fold_carries(udp_sum + sum_of(ip.src.bytes) + sum_of(ip.dst.bytes));
  }
  return flow;
}

/// Cost of a unit for each worker, in 2^-20 cycles, if all together make `per_second` units.
std::uint64_t cost_at(double per_second, const Generator::Environment& e) {
  const double cycles = static_cast<double>(e.tsc_hz) * e.workers / per_second;
  return static_cast<std::uint64_t>(std::max(1LL, std::llround(cycles * (1 << Pace::kShift))));
}

Pace pace_of(const GeneratorConfig& config, const Generator::Environment& e) {
  Pace pace;
  switch (config.rate.unit) {
    case PacketRate::Unit::kPps: pace.per_packet = cost_at(config.rate.value, e); break;
    case PacketRate::Unit::kGbps: pace.per_octet = cost_at(config.rate.value * 1e9 / 8, e); break;
    case PacketRate::Unit::kPercent:
      pace.per_octet = cost_at(config.rate.value / 100 * static_cast<double>(e.link_bps) / 8, e);
      break;
  }
  const std::uint16_t largest = *std::max_element(config.sizes.begin(), config.sizes.end());
  pace.depth = (pace.cost(largest) >> Pace::kShift) + 1 +
               static_cast<std::uint64_t>(kSaved * static_cast<double>(e.tsc_hz));
  return pace;
}

Status check_addresses(const GeneratorConfig& c) {
  if (c.ip.src.is_v4() != c.ip.dst.is_v4())
    return fail(Errc::kInvalidArgument, "test packets from {} to {}: different IP versions",
                wire::to_string(c.ip.src), wire::to_string(c.ip.dst));
  const IpAddr last = counted_up(c.ip.dst, c.neighbours - 1);
  if (wire::is_multicast(c.ip.src) || wire::is_multicast(c.ip.dst) || wire::is_multicast(last) ||
      last < c.ip.dst)
    return fail(Errc::kInvalidArgument, "test packets from {} to {} .. {}: not addresses of hosts",
                wire::to_string(c.ip.src), wire::to_string(c.ip.dst), wire::to_string(last));
  return {};
}

}  // namespace

Status Generator::check(const GeneratorConfig& c) {
  if (c.flows == 0 || c.flows > GeneratorConfig::kMaxFlows || c.neighbours == 0 ||
      c.neighbours > GeneratorConfig::kMaxFlows)
    return fail(Errc::kInvalidArgument,
                "invalid number of flows {} or neighbours {}, allowed: 1-{}", c.flows, c.neighbours,
                GeneratorConfig::kMaxFlows);
  if (auto s = check_addresses(c); !s) return s;
  const std::uint16_t min =
      c.ip.dst.is_v4() ? GeneratorConfig::kMinSize4 : GeneratorConfig::kMinSize6;
  if (c.sizes.empty() || c.sizes.size() > GeneratorConfig::kMaxSizes)
    return fail(Errc::kInvalidArgument, "invalid number of packet sizes {}, allowed: 1-{}",
                c.sizes.size(), GeneratorConfig::kMaxSizes);
  for (const std::uint16_t size : c.sizes)
    if (size < min || size > GeneratorConfig::kMaxSize)
      return fail(Errc::kInvalidArgument,
                  "invalid size {} of test packets to {}, allowed: {}-{} octets", size,
                  wire::to_string(c.ip.dst), min, GeneratorConfig::kMaxSize);
  return {};
}

Result<std::unique_ptr<const Generator>> Generator::create(const GeneratorConfig& config,
                                                           const Environment& e) {
  if (auto s = check(config); !s) return tl::make_unexpected(s.error());
  const std::uint16_t largest = *std::max_element(config.sizes.begin(), config.sizes.end());
  if (largest > e.max_size)
    return fail(Errc::kInvalidArgument,
                "test packets of {} octets do not fit into a packet buffer, allowed: at most {}",
                largest, e.max_size);
  std::unique_ptr<Generator> g{new Generator};
  const unsigned flows = config.multi_flow || e.all_flows
                             ? std::max(config.flows, config.neighbours)
                             : config.neighbours;
  g->flows_.reserve(flows);
  for (unsigned i = 0; i < flows; ++i) g->flows_.push_back(make_flow(config, i));
  g->sizes_ = config.sizes;
  g->run_id_ = e.run_id;
  g->v4_ = config.ip.dst.is_v4();
  g->stamped_ = e.stamped;
  g->waiting_ =
      config.rate.value > 0 && config.rate.unit == PacketRate::Unit::kPercent && e.link_bps == 0;
  if (config.rate.value > 0 && !g->waiting_) g->pace_ = pace_of(config, e);
  return g;
}

}  // namespace ipoib::fwd
