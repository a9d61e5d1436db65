// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/rmpp_receiver.h"

namespace ipoib::sa {
namespace {

constexpr std::uint32_t segments_for(std::uint32_t payload) {
  return payload / wire::kRmppSegmentLen + (payload % wire::kRmppSegmentLen != 0 ? 1 : 0);
}

}  // namespace

/// True if Last and PayloadLength agree with the end of the table as far as it is known.
bool RmppReceiver::fits(const wire::Rmpp& r) const {
  if (last_ != 0 && (r.segment > last_ || r.last() != (r.segment == last_))) return false;
  if (r.last() && !ahead_.empty() && ahead_.rbegin()->first > r.segment) return false;
  const std::uint32_t announced = r.first() && !r.last() ? r.len : announced_;
  if (announced == 0) return true;
  const std::uint32_t n = segments_for(announced);
  if (r.segment > n || r.last() != (r.segment == n)) return false;
  return !r.last() || r.len == announced - (n - 1) * wire::kRmppSegmentLen;
}

RmppReceiver::Step RmppReceiver::take(const wire::SaMad& mad, const wire::Rmpp& r,
                                      std::size_t room) {
  ack_due_ = false;
  if (r.segment <= in_order_ || ahead_.count(r.segment) != 0) {
    ack_due_ = r.segment <= in_order_;
    return Step::kRepeated;
  }
  if (r.segment > window_last_) return Step::kBeyond;
  if (!fits(r)) return Step::kBroken;
  if (octets() + wire::kSaDataLen > room) return Step::kTooBig;
  if (r.first()) {
    header_ = mad.hdr;
    if (!r.last()) announced_ = r.len;
    const std::uint64_t n = segments_for(announced_);
    if (announced_ > n * wire::kRmppSaHeaderLen + room) return Step::kTooBig;
  }
  if (r.last()) {
    last_ = r.segment;
    last_len_ = r.len;
  }

  ahead_.emplace(r.segment, mad.data);
  while (!ahead_.empty() && ahead_.begin()->first == in_order_ + 1) {
    append(++in_order_, ahead_.begin()->second);
    ahead_.erase(ahead_.begin());
  }
  const bool done = in_order_ == last_ && last_ != 0;
  ack_due_ = done || in_order_ == window_last_;
  if (!done && ack_due_) window_last_ = in_order_ + window_;
  return done ? Step::kDone : Step::kTaken;
}

void RmppReceiver::append(std::uint32_t number, const Segment& segment) {
  const std::size_t len = number == last_ ? last_len_ - wire::kRmppSaHeaderLen : wire::kSaDataLen;
  data_.insert(data_.end(), segment.begin(), segment.begin() + static_cast<std::ptrdiff_t>(len));
}

}  // namespace ipoib::sa
