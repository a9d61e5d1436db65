// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/engine.h"

#include <array>

#include "lib/fwd/eth_input.h"
#include "lib/fwd/filter/ip_filter.h"
#include "lib/fwd/filter/source_check.h"
#include "lib/fwd/ip6_input.h"
#include "lib/fwd/ip_route.h"
#include "lib/fwd/ipoib_input.h"
#include "lib/fwd/modes/addr_swap.h"
#include "lib/fwd/modes/icmp_echo.h"
#include "lib/fwd/modes/io_forward.h"
#include "lib/fwd/modes/latency.h"
#include "lib/fwd/modes/rxonly.h"
#include "lib/fwd/multicast.h"

namespace ipoib::fwd {
namespace {

using msg::trace::Stage;

// Handlers of checked unicast packets, one per mode.

struct Route {
  static bool checks_sources(const Context& c, const Ingress& in) noexcept {
    return c.interfaces[in.iface].source_check.load(std::memory_order_relaxed) != SourceCheck::kOff;
  }
  [[gnu::always_inline]] static void ip4(Context& c, const Ingress& in, Ip4Burst& ip) noexcept {
    if (checks_sources(c, in)) [[unlikely]]
      source_check4(c, in, ip);
    ip4_route(c, in, ip, Ttl::kDecrement);
  }
  static void ip6(Context& c, const Ingress& in, Ip6Burst& ip) noexcept {
    if (checks_sources(c, in)) [[unlikely]]
      source_check6(c, in, ip);
    ip6_route(c, in, ip, Ttl::kDecrement);
  }
};

/// True if packets that arrive on the interface must pass filter rules.
bool filters(const Context& c, const Ingress& in) noexcept {
  return c.filter.scope(in.iface, FilterDirection::kIn) != 0;
}

template <auto kIp4, auto kIp6>
struct Mode {
  static void ip4(Context& c, const Ingress& in, const Ip4Burst& ip) noexcept { kIp4(c, in, ip); }
  static void ip6(Context& c, const Ingress& in, const Ip6Burst& ip) noexcept { kIp6(c, in, ip); }
};

[[gnu::cold]] void trace_input(Context& c, const InputBursts& input) noexcept {
  c.trace.entered(input.ip4.span(), Stage::kIp4Input);
  c.trace.entered(input.ip4_groups.span(), Stage::kIp4Input);
  c.trace.entered(input.ip6.span(), Stage::kIp6Input);
  c.trace.entered(input.ip6_multicast.span(), Stage::kIp6Input);
}

/// A separate function, because its arrays would enlarge the stack frame of every burst.
template <class M>
[[gnu::noinline]] void input6(Context& c, const Ingress& in, const InputBursts& input,
                              bool forwarding) noexcept {
  Ip6Burst ip;
  Burst groups;
  ip6_input(c, in, input.ip6_multicast.span(), LinkCast::kMulticast, forwarding, ip, groups);
  ip6_input(c, in, input.ip6.span(), LinkCast::kUnicast, forwarding, ip, groups);
  if (filters(c, in)) [[unlikely]]
    ip_filter6(c, in, ip, groups);
  if (groups.n != 0) multicast_input(c, in, groups, IpVersion::k6, forwarding);
  if (ip.n == 0) return;
  if (!forwarding) [[unlikely]]
    return ip6_local_only(c, in, ip);
  M::ip6(c, in, ip);
}

template <class M>
void run_mode(Context& c, const Ingress& in, const Burst& rx, bool forwarding) noexcept {
  const InterfaceEntry& entry = c.interfaces[in.iface];
  InputBursts input;
  if (entry.kind == InterfaceKind::kEthernet)
    eth_input(c, in, entry, rx.span(), input);
  else
    ipoib_input(c, in, entry, rx.span(), input);
  if (c.trace.active()) [[unlikely]]
    trace_input(c, input);

  if (input.ip6.n + input.ip6_multicast.n != 0) input6<M>(c, in, input, forwarding);
  if (!forwarding) [[unlikely]] {
    DropBin bin{c.trace, in.counters.drops};
    bin.add(input.ip4.span(), Drop::kForwardingStopped);
    bin.add(input.ip4_groups.span(), Drop::kForwardingStopped);
    return;
  }
  if (filters(c, in)) [[unlikely]]
    ip_filter4(c, in, input.ip4, input.ip4_groups);
  if (input.ip4.n != 0) M::ip4(c, in, input.ip4);
  if (input.ip4_groups.n != 0) [[unlikely]]
    multicast_input(c, in, input.ip4_groups, IpVersion::k4, true);
}

void io(Context& c, const Ingress& in, const Burst& rx, bool forwarding) noexcept {
  io_forward(c, in, rx.span(), c.io_peers[in.iface], forwarding);
}

/// Indexed by ForwardMode.
constexpr std::array<Engine, kForwardModeNames.size()> kEngines = {
    run_mode<Route>,
    io,
    run_mode<Mode<rxonly4, rxonly6>>,
    run_mode<Mode<icmp_echo4, icmp_echo6>>,
    run_mode<Mode<addr_swap4, addr_swap6>>,
    run_mode<Mode<rxonly4, rxonly6>>,
    run_mode<Mode<rxonly4, rxonly6>>,
    run_mode<Mode<latency4, latency6>>,
};

}  // namespace

Engine engine_of(ForwardMode mode) noexcept {
  return kEngines[static_cast<std::size_t>(mode)];
}

}  // namespace ipoib::fwd
