#include "lib/fwd/engine.h"

#include <array>

#include "lib/fwd/addr_swap.h"
#include "lib/fwd/eth_input.h"
#include "lib/fwd/icmp_echo.h"
#include "lib/fwd/io_forward.h"
#include "lib/fwd/ip4_input.h"
#include "lib/fwd/ip4_output.h"
#include "lib/fwd/ip4_route.h"
#include "lib/fwd/ip6_input.h"
#include "lib/fwd/ip6_output.h"
#include "lib/fwd/ip6_route.h"
#include "lib/fwd/ipoib_input.h"
#include "lib/fwd/latency.h"
#include "lib/fwd/multicast.h"
#include "lib/fwd/rxonly.h"

namespace ipoib::fwd {
namespace {

// What becomes of checked unicast packets, by mode.

struct Route {
  [[gnu::always_inline]] static void ip4(Context& c, const Ingress& in,
                                         const Ip4Burst& ip) noexcept {
    RoutedBurst routed;
    ip4_route(c, in, ip, Ttl::kTakeDown, routed);
    ip4_output(c, in, routed);
  }
  static void ip6(Context& c, const Ingress& in, const Ip6Burst& ip) noexcept {
    RoutedBurst routed;
    ip6_route(c, in, ip, Ttl::kTakeDown, routed);
    ip6_output(c, in, routed);
  }
};

template <auto kIp4, auto kIp6>
struct Mode {
  static void ip4(Context& c, const Ingress& in, const Ip4Burst& ip) noexcept { kIp4(c, in, ip); }
  static void ip6(Context& c, const Ingress& in, const Ip6Burst& ip) noexcept { kIp6(c, in, ip); }
};

template <class M>
[[gnu::always_inline]] inline void input4(Context& c, const Ingress& in,
                                          const InputBursts& input) noexcept {
  Burst groups;
  if (input.ip_broadcast.n != 0) [[unlikely]]
    ip4_input_broadcast(c, in, input.ip_broadcast.span(), groups);
  if (input.ip.n != 0) {
    Ip4Burst ip;
    ip4_input(c, in, input.ip.span(), ip, groups);
    M::ip4(c, in, ip);
  }
  if (groups.n != 0) [[unlikely]]
    multicast_input(c, in, groups, IpVersion::k4, true);
}

/// Apart, as its arrays would widen the stack of every burst.
template <class M>
[[gnu::noinline]] void input6(Context& c, const Ingress& in, const InputBursts& input,
                              bool forwarding) noexcept {
  Ip6Burst ip;
  Burst groups;
  ip6_input(c, in, input.ip6_multicast.span(), LinkCast::kMulticast, forwarding, ip, groups);
  ip6_input(c, in, input.ip6.span(), LinkCast::kUnicast, forwarding, ip, groups);
  if (groups.n != 0) multicast_input(c, in, groups, IpVersion::k6, forwarding);
  if (ip.n == 0) return;
  if (!forwarding) [[unlikely]]
    return ip6_local_only(c, in, ip);
  M::ip6(c, in, ip);
}

template <class M>
void run(Context& c, const Ingress& in, const Owned& owned, const Burst& rx,
         bool forwarding) noexcept {
  InputBursts input;
  if (owned.entry->kind == InterfaceKind::kEthernet)
    eth_input(c, in, *owned.entry, rx.span(), input);
  else
    ipoib_input(c, in, *owned.entry, rx.span(), input);

  if (input.ip6.n + input.ip6_multicast.n != 0) input6<M>(c, in, input, forwarding);
  if (!forwarding) [[unlikely]] {
    DropBin bin{in.counters.drops};
    bin.add(input.ip.span(), Drop::kForwardingStopped);
    bin.add(input.ip_broadcast.span(), Drop::kForwardingStopped);
    return;
  }
  input4<M>(c, in, input);
}

void io(Context& c, const Ingress& in, const Owned& owned, const Burst& rx,
        bool forwarding) noexcept {
  io_forward(c, in, rx.span(), owned.io_peer, forwarding);
}

/// By ForwardMode.
constexpr std::array<Engine, kForwardModeNames.size()> kEngines = {
    run<Route>,
    io,
    run<Mode<rxonly4, rxonly6>>,
    run<Mode<icmp_echo4, icmp_echo6>>,
    run<Mode<addr_swap4, addr_swap6>>,
    run<Mode<rxonly4, rxonly6>>,
    run<Mode<rxonly4, rxonly6>>,
    run<Mode<latency4, latency6>>,
};

}  // namespace

Engine engine_of(ForwardMode mode) noexcept {
  return kEngines[static_cast<std::size_t>(mode)];
}

}  // namespace ipoib::fwd
