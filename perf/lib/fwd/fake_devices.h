// SPDX-License-Identifier: BSD-3-Clause
// Devices that take almost no time, so that benchmarks measure the worker. The packets are made
// once and received again and again. A send only counts them.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/fabric/hca.h"
#include "lib/fabric/packet_meta.h"

namespace ipoib::perf {

/// Delivers the same mbufs in turn, endlessly; each starts at its link header. receive() restores
/// the octets that a router changes; this copy of 40 octets is part of the device's cost.
class PacketSource {
 public:
  static constexpr std::size_t kKept = 40;  ///< Octets restored: link and IPv4 header fit.

  void add(rte_mbuf* m) {
    Packet packet{m, m->data_off, m->data_len, {}};
    std::memcpy(packet.head.data(), rte_pktmbuf_mtod(m, void*), kKept);
    packets_.push_back(packet);
  }
  [[nodiscard]] std::size_t size() const { return packets_.size(); }

  std::uint16_t receive(rte_mbuf** pkts, std::uint16_t n) noexcept {
    for (std::uint16_t i = 0; i < n; ++i) {
      const Packet& p = packets_[next_];
      next_ = next_ + 1 == packets_.size() ? 0 : next_ + 1;
      p.m->data_off = p.data_off;
      p.m->data_len = p.len;
      p.m->pkt_len = p.len;
      std::memcpy(rte_pktmbuf_mtod(p.m, void*), p.head.data(), kKept);
      pkts[i] = p.m;
    }
    return n;
  }
  void free_all() {
    for (Packet& p : packets_) rte_pktmbuf_free(p.m);
    packets_.clear();
  }

 private:
  struct Packet {
    rte_mbuf* m;
    std::uint16_t data_off;
    std::uint16_t len;
    std::array<std::byte, kKept> head;
  };
  std::vector<Packet> packets_;
  std::size_t next_ = 0;
};

/// Takes whole frames from the worker, as the software HCA does.
class FakeUdQueue final : public fabric::UdQueue {
 public:
  FakeUdQueue() : UdQueue{1, &rx, &tx, &kFrames} {}
  PacketSource source;
  std::uint64_t sent = 0;
  bool to_groups = false;         ///< Frames have the GRH of groups.
  rte_mempool* copies = nullptr;  ///< A send frees the packets of this pool only.

 private:
  static const fabric::UdFrames kFrames;
  static bool keys(UdQueue& queue, fabric::FrameKeys& keys) noexcept {
    keys = {.psn = &static_cast<FakeUdQueue&>(queue).psn_, .groups = true};
    return true;
  }
  static bool head(const UdQueue& queue, fabric::AhIndex /*ah*/, fabric::FrameHead& head) noexcept {
    head = {.mac = {}, .lrh = 0, .max_payload = 2048};
    if (static_cast<const FakeUdQueue&>(queue).to_groups) head.group.emplace();
    return true;
  }
  static const std::atomic<std::uint32_t>& version(const UdQueue& queue) noexcept {
    return static_cast<const FakeUdQueue&>(queue).version_;
  }
  std::uint32_t psn_ = 0;
  std::atomic<std::uint32_t> version_{0};

  static std::uint16_t rx(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    auto& self = static_cast<FakeUdQueue&>(queue);
    if (self.source.size() == 0) return 0;
    self.source.receive(pkts, n);
    for (std::uint16_t i = 0; i < n; ++i) fabric::meta_of(pkts[i]).rx = {};
    return n;
  }
  static std::uint16_t tx(UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
    auto& self = static_cast<FakeUdQueue&>(queue);
    self.sent += n;
    if (self.copies != nullptr)
      for (std::uint16_t i = 0; i < n; ++i)
        if (pkts[i]->pool == self.copies) rte_pktmbuf_free(pkts[i]);
    return n;
  }
};

inline const fabric::UdFrames FakeUdQueue::kFrames = {
    .keys = &keys, .head = &head, .tx_burst = &tx, .heads_version = &version};

/// An ethdev that exists only in the table of burst functions.
class FakePort {
 public:
  explicit FakePort(std::uint16_t port) : port_{port} {
    auto& ops = rte_eth_fp_ops[port];
    ops.rx_pkt_burst = &rx;
    ops.tx_pkt_burst = &tx;
    ops.rxq.data = ops.txq.data = &queue_;
    ops.rxq.clbk = ops.txq.clbk = &no_callback_;
  }
  FakePort(const FakePort&) = delete;
  FakePort& operator=(const FakePort&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  PacketSource source;
  std::uint64_t sent = 0;

 private:
  static std::uint16_t rx(void* self, rte_mbuf** pkts, std::uint16_t n) {
    PacketSource& source = static_cast<FakePort*>(self)->source;
    return source.size() == 0 ? std::uint16_t{0} : source.receive(pkts, n);
  }
  static std::uint16_t tx(void* self, rte_mbuf**, std::uint16_t n) {
    static_cast<FakePort*>(self)->sent += n;
    return n;
  }

  std::uint16_t port_;
  void* queue_ = this;
  void* no_callback_ = nullptr;
};

}  // namespace ipoib::perf
