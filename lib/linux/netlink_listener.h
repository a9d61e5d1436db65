// SPDX-License-Identifier: BSD-3-Clause
// The socket by which the kernel reports its objects, such as interfaces and routes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/linux/netlink_reader.h"

struct mnl_socket;

namespace ipoib::kernel {

/// Management lcore only. No call waits for a message.
class NetlinkListener {
 public:
  /// Opens the socket in a network namespace (in_network_namespace()) and asks for a snapshot, for
  /// `sink`, whose reference is kept. Errors: those of in_network_namespace(), and kUnavailable
  /// (the process may not open it).
  static Result<std::unique_ptr<NetlinkListener>> open(const NetlinkSubscription& subscription,
                                                       const std::string& network_namespace,
                                                       NetlinkSink& sink, TimePoint now);
  ~NetlinkListener();
  NetlinkListener(const NetlinkListener&) = delete;
  NetlinkListener& operator=(const NetlinkListener&) = delete;

  [[nodiscard]] int fd() const;
  /// Gives the messages that wait to the sink, a limited number of them, and begins a snapshot if one
  /// is needed, once a second at most. The log has a line when requests begin to fail, and when they
  /// succeed again. An error: no more messages will come.
  Status receive(TimePoint now);
  /// Time of the next receive() without a message.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] const NetlinkReader& reader() const { return reader_; }

 private:
  NetlinkListener(mnl_socket* socket, NetlinkSink& sink, const NetlinkSubscription& subscription)
      : socket_{socket}, reader_{sink, subscription.dumps} {}

  Status join(const NetlinkSubscription& subscription);
  void begin_snapshot(TimePoint now);
  void send_request(TimePoint now);
  void log_change();

  mnl_socket* socket_;
  NetlinkReader reader_;
  TimePoint begun_{};     ///< The latest snapshot.
  TimePoint progress_{};  ///< The latest request, or turn with an answer.
  int logged_ = 0;        ///< NetlinkReader::error() in the latest line of the log.
};

}  // namespace ipoib::kernel
