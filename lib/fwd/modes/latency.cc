// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/modes/latency.h"

#include <rte_cycles.h>

#include <algorithm>
#include <cstring>

#include "lib/fwd/latency_recorder.h"
#include "lib/fwd/modes/rxonly.h"
#include "lib/fwd/time_stamp.h"

namespace ipoib::fwd {
namespace {

constexpr auto kProtocol = static_cast<std::uint8_t>(wire::IpProto::kUdp);
constexpr std::uint32_t kWorkerMask = 0xff;  // bits of TimeStamp::stream; the rest names the run

/// Records the time stamp behind the IP header, if there is room for one.
void record(Context& c, const rte_mbuf* m, std::size_t header_len, std::uint64_t now) noexcept {
  if (m->data_len < header_len + sizeof(wire::UdpHdr) + sizeof(TimeStamp)) return;
  TimeStamp stamp;
  std::memcpy(&stamp,
              rte_pktmbuf_mtod_offset(m, const std::byte*, header_len + sizeof(wire::UdpHdr)),
              sizeof(stamp));
  const std::uint32_t stream = stamp.stream.host();
  const std::uint32_t worker = stream & kWorkerMask;
  if ((stream & ~kWorkerMask) != c.run_id || worker >= LatencyRecorder::kStreams) return;
  // Time-stamp counters of two lcores may differ slightly.
  const std::uint64_t cycles = now - std::min(now, stamp.tsc.host());
  c.latency->record(worker, stamp.sequence.host(),
                    static_cast<std::uint64_t>(static_cast<double>(cycles) * c.ns_per_cycle));
}

}  // namespace

void latency4(Context& c, const Ingress& in, const Ip4Burst& pkts) noexcept {
  const std::uint64_t now = c.now_tsc();
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const auto& hdr = *rte_pktmbuf_mtod(pkts.pkts[i], const wire::Ipv4Hdr*);
    if (hdr.protocol == kProtocol && !hdr.is_fragment())
      record(c, pkts.pkts[i], hdr.header_len(), now);
  }
  rxonly4(c, in, pkts);
}

void latency6(Context& c, const Ingress& in, const Ip6Burst& pkts) noexcept {
  const std::uint64_t now = c.now_tsc();
  for (std::size_t i = 0; i < pkts.n; ++i) {
    const auto& hdr = *rte_pktmbuf_mtod(pkts.pkts[i], const wire::Ipv6Hdr*);
    if (hdr.next_header == kProtocol) record(c, pkts.pkts[i], sizeof(hdr), now);
  }
  rxonly6(c, in, pkts);
}

}  // namespace ipoib::fwd
