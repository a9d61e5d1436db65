// SPDX-License-Identifier: BSD-3-Clause
// Input of the wire benchmarks: a pool of different packets, so that no branch predictor learns
// their octets.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "lib/wire/frame.h"

namespace ipoib::perf {

/// UD packets of one length with random payload.
class Packets {
 public:
  static constexpr std::size_t kHot = 64;        ///< A pool of this size stays in the caches.
  static constexpr std::size_t kCold = 1 << 15;  ///< A pool of this size does not.

  /// `count` is a power of two.
  Packets(std::size_t count, bool global, std::size_t payload_len)
      : len_{wire::ud_packet_len(global, payload_len)},
        stride_{(len_ + 127) & ~std::size_t{63}},
        octets_(count * stride_),
        count_{count} {
    std::mt19937 random{1};
    std::vector<std::byte> payload(payload_len);
    for (auto& b : payload) b = static_cast<std::byte>(random());
    wire::UdSpec spec{.dlid = 4, .slid = 3, .dest_qp = 0x49, .src_qp = 0x48, .qkey = 0xb1b};
    if (global) spec.grh = wire::GrhSpec{wire::Gid::of(1, 2), wire::Gid::of(1, 3)};
    for (std::size_t i = 0; i < count; ++i) {
      spec.psn = static_cast<std::uint32_t>(i);
      wire::build_ud_packet(spec, payload, {octets_.data() + i * stride_, stride_});
    }
  }

  [[nodiscard]] std::size_t len() const { return len_; }
  /// Returns the next packet, LRH through ICRC. The pool repeats endlessly, a large one in an order
  /// that no prefetcher follows.
  [[nodiscard]] std::span<std::byte> next() {
    at_ = (at_ + 10'007) & (count_ - 1);
    return {octets_.data() + at_ * stride_, len_};
  }

 private:
  std::size_t len_;
  std::size_t stride_;
  std::vector<std::byte> octets_;
  std::size_t count_;
  std::size_t at_ = 0;
};

}  // namespace ipoib::perf
