// SPDX-License-Identifier: BSD-3-Clause
// Sends Reports to subscribers. Each Report is retransmitted until it is acknowledged or the
// subscriber counts as dead. One Report per subscriber is in flight, so that they arrive in order,
// and a bounded number over all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/qp1.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/retransmitter.h"
#include "lib/sa/embedded/subscriptions.h"
#include "lib/wire/mad.h"
#include "lib/wire/notice.h"

namespace ipoib::sa {

struct ReporterConfig {
  Duration timeout = std::chrono::seconds(1);  ///< Wait for a ReportResp.
  unsigned retries = 5;
  std::size_t max_outstanding = 64;
  std::size_t max_waiting = 65536;  ///< Notices over all subscribers; more are dropped.
};

struct ReporterCounters {
  std::uint64_t sent = 0;  ///< MADs, retransmissions included.
  std::uint64_t resent = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t dropped = 0;      ///< Notices: too many wait, or the subscriber is gone.
  std::uint64_t died = 0;         ///< Subscribers that did not acknowledge a Report.
  std::uint64_t send_failed = 0;  ///< MADs that the port refused; retransmitted like lost ones.
};

class Reporter {
 public:
  explicit Reporter(const ReporterConfig& config)
      : max_waiting_{config.max_waiting},
        times_{config.timeout, config.retries, config.max_outstanding} {}

  void post(const Subscriber& to, const fabric::MadAddress& address, const wire::Notice& notice,
            TimePoint now);
  /// Takes a ReportResp; false if no Report is in flight for it. Transports may rewrite the upper
  /// half of the transaction ID, so only the lower half is compared.
  [[nodiscard]] bool acknowledge(const fabric::MadAddress& from, std::uint64_t tid, TimePoint now);
  /// Drops all Reports for the subscriber.
  void forget(const Subscriber& subscriber);
  void forget_port(std::uint16_t lid);

  /// Sends Reports that are due, a bounded number of them. Returns the subscribers found dead.
  [[nodiscard]] std::vector<Subscriber> tick(TimePoint now, const MadSender& send);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return times_.next_deadline(); }

  [[nodiscard]] const ReporterCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] std::size_t outstanding() const { return times_.outstanding(); }

 private:
  struct Receiver {
    fabric::MadAddress to;
    std::deque<wire::Notice> queue;  ///< The first one is in flight, if any.
    std::uint32_t tid = 0;
  };
  using Iterator = std::map<Subscriber, Receiver>::iterator;
  void remove(Iterator it);
  void send_first(Receiver& receiver, bool again, TimePoint now, const MadSender& send);

  std::size_t max_waiting_;
  std::map<Subscriber, Receiver> receivers_;  ///< Subscribers whose queue is not empty.
  Retransmitter<Subscriber> times_;
  std::size_t waiting_ = 0;  ///< Notices in all queues.
  std::uint32_t next_tid_ = 0;
  ReporterCounters counters_;
};

}  // namespace ipoib::sa
