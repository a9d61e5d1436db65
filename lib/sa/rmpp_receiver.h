// SPDX-License-Identifier: BSD-3-Clause
// Puts one table together from its RMPP segments: in order or not, repeated or not, within the
// window it opens. Knows no time and sends nothing. Source: IBA vol 1 §13.6; iba-wire.md §4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/wire/mad.h"
#include "lib/wire/rmpp.h"

namespace ipoib::sa {

class RmppReceiver {
 public:
  enum class Step {
    kTaken,     ///< A new segment.
    kRepeated,  ///< One we have: acknowledged again.
    kBeyond,    ///< Above the window; dropped.
    kDone,      ///< The last one missing: the table is whole.
    kTooBig,    ///< More octets than there is room for.
    kBroken,    ///< Contradicts what came before (Last, PayloadLength): the transfer is over.
  };

  /// `window`: segments the sender may be ahead of the last acknowledged, at least 1.
  explicit RmppReceiver(std::uint32_t window) : window_{window} {}

  /// One DATA segment that parse_rmpp found good. `room`: octets all of this table may take.
  [[nodiscard]] Step take(const wire::SaMad& mad, const wire::Rmpp& rmpp, std::size_t room);

  /// Whether the latest segment is to be acknowledged: at the end of the window and of the table,
  /// and when repeated.
  [[nodiscard]] bool ack_due() const { return ack_due_; }
  [[nodiscard]] std::uint32_t in_order() const { return in_order_; }
  [[nodiscard]] std::uint32_t window_last() const { return window_last_; }

  /// Of segment 1, once it came.
  [[nodiscard]] const wire::SaHdr& header() const { return header_; }
  [[nodiscard]] std::span<const std::byte> data() const { return data_; }
  /// Octets held.
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
  std::uint32_t last_ = 0;       ///< Number of the last segment; 0 until it came.
  std::uint32_t last_len_ = 0;   ///< Its PayloadLength.
  std::uint32_t announced_ = 0;  ///< PayloadLength of segment 1; 0: not told.
  bool ack_due_ = false;
  wire::SaHdr header_{};
  std::vector<std::byte> data_;
  std::map<std::uint32_t, Segment> ahead_;
};

}  // namespace ipoib::sa
