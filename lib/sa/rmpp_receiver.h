// SPDX-License-Identifier: BSD-3-Clause
// Reassembles one table from its RMPP segments, which may be reordered or repeated within the
// window that it opens. It has no timers and sends nothing. Source: IBA vol 1 §13.6; iba-wire.md
// §4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/wire/rmpp.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

class RmppReceiver {
 public:
  enum class Step {
    kTaken,     ///< A new segment.
    kRepeated,  ///< A duplicate; see ack_due().
    kBeyond,    ///< A segment above the window; dropped.
    kDone,      ///< The last missing segment: the table is complete.
    kTooBig,    ///< The table needs more octets than `room`.
    kBroken,    ///< Contradicts earlier segments (Last, PayloadLength): the transfer is over.
  };

  /// `window`: segments that the sender may be ahead of the last acknowledged one, at least 1.
  explicit RmppReceiver(std::uint32_t window) : window_{window} {}

  /// Takes a DATA segment that parse_rmpp() accepted. `room`: octets that the whole table may take.
  [[nodiscard]] Step take(const wire::SaMad& mad, const wire::Rmpp& rmpp, std::size_t room);

  /// True if the latest segment must be acknowledged: at the end of the window and of the table,
  /// and for a duplicate up to in_order().
  [[nodiscard]] bool ack_due() const { return ack_due_; }
  [[nodiscard]] std::uint32_t in_order() const { return in_order_; }
  [[nodiscard]] std::uint32_t window_last() const { return window_last_; }

  /// Header of segment 1, once it is received.
  [[nodiscard]] const wire::SaHdr& header() const { return header_; }
  [[nodiscard]] std::span<const std::byte> data() const { return data_; }
  /// Octets stored, including segments ahead of a gap.
  [[nodiscard]] std::size_t octets() const {
    return data_.size() + ahead_.size() * wire::kSaDataLen;
  }

 private:
  using Segment = std::array<std::byte, wire::kSaDataLen>;
  [[nodiscard]] bool fits(const wire::Rmpp& rmpp) const;
  void append(std::uint32_t number, const Segment& segment);

  std::uint32_t window_;
  std::uint32_t window_last_ = 1;
  std::uint32_t in_order_ = 0;
  std::uint32_t last_ = 0;       ///< Number of the last segment; 0: not received yet.
  std::uint32_t last_len_ = 0;   ///< PayloadLength of the last segment.
  std::uint32_t announced_ = 0;  ///< PayloadLength of segment 1; 0: not announced.
  bool ack_due_ = false;
  wire::SaHdr header_{};
  std::vector<std::byte> data_;
  std::map<std::uint32_t, Segment> ahead_;
};

}  // namespace ipoib::sa
