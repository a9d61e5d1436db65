// SPDX-License-Identifier: BSD-3-Clause
// The messages of a netlink socket: which of them are answers to the listener's own requests, and
// when it must ask for everything again. Source: netlink(7), rtnetlink(7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

struct nlmsghdr;

namespace ipoib::kernel {

/// Receives the kernel's objects, such as interfaces and routes, synchronously.
class NetlinkSink {
 public:
  virtual ~NetlinkSink() = default;
  /// The messages until on_snapshot_end() have all objects, and the changes meanwhile. A snapshot
  /// that fails has no end; the next one begins instead.
  virtual void on_snapshot_begin() = 0;
  /// A message of rtnetlink in the kernel's order. Its length was checked, its payload was not.
  virtual void on_message(const nlmsghdr& message) = 0;
  /// Objects without a message since the begin of the snapshot do not exist.
  virtual void on_snapshot_end() = 0;
  /// Messages were lost: every object may have changed, and back. A snapshot will follow.
  virtual void on_loss() = 0;
  /// True: the kernel may have changed an object without a message. A snapshot will follow, whose
  /// begin ends the doubt.
  [[nodiscard]] virtual bool in_doubt() const { return false; }
};

/// A request for all objects of a type.
struct NetlinkDump {
  std::uint16_t type;          ///< RTM_GETLINK, RTM_GETROUTE …
  std::uint8_t family;         ///< AF_UNSPEC: all families.
  std::size_t fixed_len;       ///< Octets of the request's fixed part; the family is the first.
  std::uint32_t sequence = 0;  ///< Repeated in the answers.
};

/// Interest in the kernel's objects.
struct NetlinkSubscription {
  std::vector<unsigned> groups;    ///< RTNLGRP_…: the changes.
  std::vector<NetlinkDump> dumps;  ///< A snapshot, in this order. At least one.
};

/// Does no I/O: called with datagrams. One thread.
class NetlinkReader {
 public:
  /// Keeps a reference to `sink`.
  NetlinkReader(NetlinkSink& sink, std::vector<NetlinkDump> dumps)
      : sink_{sink}, dumps_{std::move(dumps)}, next_{dumps_.size()} {}

  /// True if a snapshot is needed and none is on its way: there was none, the latest one failed or
  /// was interrupted, messages were lost after its begin, or the sink is in doubt.
  [[nodiscard]] bool needs_snapshot() const {
    return (needed_ || sink_.in_doubt()) && !in_snapshot();
  }
  [[nodiscard]] bool in_snapshot() const { return awaited_ || next_ < dumps_.size(); }
  /// Number of messages that answered requests.
  [[nodiscard]] std::uint64_t answers() const { return answers_; }
  /// Number of complete snapshots.
  [[nodiscard]] std::uint64_t snapshots() const { return snapshots_; }

  void begin_snapshot();
  /// The request that the caller sends now; none while the kernel answers the previous one.
  [[nodiscard]] std::optional<NetlinkDump> take_request();
  /// The request failed with this error number, or its answer does not end: another snapshot is
  /// needed.
  void give_up(int error);
  /// Error number of the latest request that failed; 0: a complete snapshot came later, or none failed.
  [[nodiscard]] int error() const { return error_; }
  /// Messages were lost.
  void lose();
  /// Handles the messages of a datagram, which is aligned to 4 octets, up to the first that is
  /// damaged. Returns their number.
  std::size_t take(std::span<const std::byte> datagram);

 private:
  void handle(const nlmsghdr& message);
  void end_dump(const nlmsghdr& end);
  void end_snapshot();

  NetlinkSink& sink_;
  std::vector<NetlinkDump> dumps_;
  std::size_t next_;  ///< Index of the next dump to request.
  std::uint32_t sequence_ = 0;
  std::uint64_t answers_ = 0;
  std::uint64_t snapshots_ = 0;
  int error_ = 0;
  bool awaited_ = false;  ///< The kernel answers a request.
  bool needed_ = true;
};

}  // namespace ipoib::kernel
