// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/capture_copy.h"

#include <rte_cycles.h>

#include <algorithm>
#include <new>

#include "drivers/soft/soft_frame.h"

namespace ipoib::soft {

rte_mbuf* capture_copy(const CaptureTap& tap, const rte_mbuf* frame, CaptureDirection direction,
                       bool& lost) noexcept {
  if (rte_pktmbuf_data_len(frame) < sizeof(EthHdr)) return nullptr;
  const auto* eth = rte_pktmbuf_mtod(frame, const EthHdr*);
  if (eth->ether_type.host() != kEtherTypeIba) return nullptr;

  std::uint32_t len = rte_pktmbuf_pkt_len(frame) - static_cast<std::uint32_t>(sizeof(EthHdr));
  wire::Lrh buffer;
  const auto* lrh = static_cast<const wire::Lrh*>(
      rte_pktmbuf_read(frame, sizeof(EthHdr), sizeof(wire::Lrh), &buffer));
  if (lrh != nullptr && lrh->packet_len() >= sizeof(wire::Lrh))
    len = std::min(len, static_cast<std::uint32_t>(lrh->packet_len()));

  rte_mbuf* copy = rte_pktmbuf_copy(frame, tap.pool, sizeof(EthHdr), len);
  if (copy == nullptr) {
    lost = len != 0;
    return nullptr;
  }
  new (copy->buf_addr) fabric::CaptureMeta{.tsc = rte_rdtsc(), .direction = direction};
  return copy;
}

}  // namespace ipoib::soft
