// SPDX-License-Identifier: BSD-3-Clause
// Sends SMPs to ports and retransmits them until they are answered. One SMP per port is in flight,
// and a bounded number over all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/qp1.h"
#include "lib/sa/client.h"
#include "lib/wire/smp.h"

namespace ipoib::sa {

struct SmpRequesterConfig {
  Duration timeout = std::chrono::seconds(1);  ///< Wait for an answer.
  unsigned retries = 2;
  std::size_t max_outstanding = 256;
};

struct SmpCounters {
  std::uint64_t sent = 0;  ///< SMPs, retransmissions included.
  std::uint64_t resent = 0;
  std::uint64_t answered = 0;
  std::uint64_t silent = 0;       ///< Requests without an answer.
  std::uint64_t send_failed = 0;  ///< The port refused them; retransmitted like lost ones.
};

class SmpRequester {
 public:
  explicit SmpRequester(const SmpRequesterConfig& config) : config_{config} {}

  /// Queues a request to a port. It replaces an earlier one.
  void post(std::uint16_t lid, const wire::Smp& request, TimePoint now);
  /// Drops the request to a port.
  void forget(std::uint16_t lid);
  /// Takes an answer and returns the method of its request; none if no request is in flight for it.
  /// The upper half of the transaction ID is not compared, like that of Reports.
  [[nodiscard]] std::optional<wire::Method> take(std::uint16_t lid, const wire::Smp& answer,
                                                 TimePoint now);
  /// Sends the SMPs that are due. Returns the LIDs of ports that did not answer.
  [[nodiscard]] std::vector<std::uint16_t> tick(TimePoint now, const MadSender& send);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const SmpCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t outstanding() const { return in_flight_.size(); }

 private:
  struct Request {
    wire::Smp smp{};
    unsigned sent = 0;  ///< Transmissions.
    TimePoint deadline{};
  };
  void send(std::uint16_t lid, Request& request, TimePoint now, const MadSender& send);

  SmpRequesterConfig config_;
  std::map<std::uint16_t, Request> requests_;  ///< Key: LID.
  std::set<std::uint16_t> in_flight_;
  std::deque<std::uint16_t> turn_;  ///< LIDs of other requests, and of some that were dropped.
  std::uint32_t next_tid_ = 0;
  TimePoint last_now_{};
  SmpCounters counters_;
};

}  // namespace ipoib::sa
