// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/netlink_reader.h"

#include <libmnl/libmnl.h>
#include <linux/netlink.h>

#include <cerrno>
#include <cstdint>

namespace ipoib::kernel {
namespace {

/// True if a message lies within the octets that are left. mnl_nlmsg_ok() takes lengths of 2 GiB and
/// more for negative ones.
bool is_whole(const nlmsghdr* message, int rest) {
  return mnl_nlmsg_ok(message, rest) && message->nlmsg_len <= static_cast<unsigned>(rest);
}

/// Returns the error number of the end of a dump or of an error message, which begin with a negative
/// one; 0: it did not fail.
int error_of(const nlmsghdr& message) {
  if (mnl_nlmsg_get_payload_len(&message) < sizeof(std::int32_t)) return 0;
  const auto number = *static_cast<const std::int32_t*>(mnl_nlmsg_get_payload(&message));
  return number < 0 && number != INT32_MIN ? -number : 0;
}

}  // namespace

void NetlinkReader::begin_snapshot() {
  needed_ = false;
  awaited_ = false;
  next_ = 0;
  sink_.on_snapshot_begin();
}

std::optional<NetlinkDump> NetlinkReader::take_request() {
  if (awaited_ || next_ == dumps_.size()) return std::nullopt;
  NetlinkDump request = dumps_[next_++];
  request.sequence = ++sequence_;
  awaited_ = true;
  return request;
}

void NetlinkReader::end_snapshot() {
  awaited_ = false;
  next_ = dumps_.size();
}

void NetlinkReader::give_up(int error) {
  end_snapshot();
  needed_ = true;
  error_ = error;
}

void NetlinkReader::lose() {
  needed_ = true;
  sink_.on_loss();
}

std::size_t NetlinkReader::take(std::span<const std::byte> datagram) {
  const auto* message = reinterpret_cast<const nlmsghdr*>(datagram.data());
  auto rest = static_cast<int>(datagram.size());
  std::size_t n = 0;
  for (; is_whole(message, rest); message = mnl_nlmsg_next(message, &rest), ++n) handle(*message);
  return n;
}

void NetlinkReader::handle(const nlmsghdr& message) {
  const bool is_answer = awaited_ && message.nlmsg_seq == sequence_;
  if (is_answer) ++answers_;
  if (is_answer && (message.nlmsg_flags & NLM_F_DUMP_INTR) != 0) needed_ = true;
  if (message.nlmsg_type >= NLMSG_MIN_TYPE)
    sink_.on_message(message);
  else if (is_answer && message.nlmsg_type == NLMSG_DONE)
    end_dump(message);
  else if (is_answer && message.nlmsg_type == NLMSG_ERROR)
    give_up(error_of(message) != 0 ? error_of(message) : EPROTO);
}

/// An interrupted dump may lack objects that exist.
void NetlinkReader::end_dump(const nlmsghdr& end) {
  awaited_ = false;
  if (const int error = error_of(end); error != 0) return give_up(error);
  if (needed_) return end_snapshot();
  if (next_ < dumps_.size()) return;
  ++snapshots_;
  error_ = 0;
  sink_.on_snapshot_end();
}

}  // namespace ipoib::kernel
