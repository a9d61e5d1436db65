// SPDX-License-Identifier: BSD-3-Clause
// Tells subscribers: each Report is repeated until it is acknowledged or the subscriber counts as
// dead. One at a time to each, so that what is told comes in order, and a bounded number to all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/types.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/subscriptions.h"
#include "lib/wire/mad.h"
#include "lib/wire/notice.h"

namespace ipoib::sa {

struct ReporterConfig {
  Duration timeout = std::chrono::seconds(1);  ///< For a ReportResp.
  unsigned retries = 5;
  std::size_t max_outstanding = 64;
  std::size_t max_waiting = 65536;  ///< Over all subscribers; more are not told.
};

struct ReporterCounters {
  std::uint64_t sent = 0;  ///< MADs, resent ones included.
  std::uint64_t resent = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t dropped = 0;      ///< Not told: too many wait, or the subscriber died.
  std::uint64_t died = 0;         ///< Subscribers that acknowledged nothing.
  std::uint64_t send_failed = 0;  ///< The port did not take it; repeated like a lost one.
};

class Reporter {
 public:
  explicit Reporter(const ReporterConfig& config) : config_{config} {}

  void post(const Subscriber& to, const fabric::MadAddress& address, const wire::Notice& notice,
            TimePoint now);
  /// A ReportResp; false when it answers nothing. Transports may rewrite the upper half of the
  /// transaction ID.
  [[nodiscard]] bool acknowledge(const fabric::MadAddress& from, std::uint64_t tid, TimePoint now);
  /// Tells it nothing more.
  void forget(const Subscriber& subscriber);
  void forget_port(std::uint16_t lid);

  /// Sends what is due. Returns the subscribers found dead.
  [[nodiscard]] std::vector<Subscriber> tick(TimePoint now, const MadSender& send);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const ReporterCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  [[nodiscard]] std::size_t outstanding() const { return in_flight_.size(); }

 private:
  struct Receiver {
    fabric::MadAddress to;
    std::deque<wire::Notice> queue;  ///< The first is in flight, if any is.
    std::uint32_t tid = 0;
    unsigned sent = 0;  ///< Times, of the first.
    TimePoint deadline{};
  };
  using Iterator = std::map<Subscriber, Receiver>::iterator;
  void remove(Iterator it);
  void send_first(Receiver& receiver, TimePoint now, const MadSender& send);

  ReporterConfig config_;
  std::map<Subscriber, Receiver> receivers_;  ///< With something in their queue.
  std::set<Subscriber> in_flight_;
  std::deque<Subscriber> turn_;  ///< Who has something to be told and nothing in flight.
  std::size_t waiting_ = 0;      ///< Notices in all queues.
  std::uint32_t next_tid_ = 0;
  TimePoint last_now_{};
  ReporterCounters counters_;
};

}  // namespace ipoib::sa
