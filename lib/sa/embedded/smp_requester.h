// SPDX-License-Identifier: BSD-3-Clause
// Sends SMPs to ports and retransmits them until they are answered. One SMP per port is in flight,
// and a bounded number over all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/qp1.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/retransmitter.h"
#include "lib/sa/sa_info.h"
#include "lib/wire/smp.h"

namespace ipoib::sa {

struct SmpRequesterConfig {
  Duration timeout = std::chrono::seconds(1);  ///< Wait for an answer.
  unsigned retries = 2;
  std::size_t max_outstanding = 256;
};

class SmpRequester {
 public:
  explicit SmpRequester(const SmpRequesterConfig& config)
      : times_{config.timeout, config.retries, config.max_outstanding} {}

  /// Queues a request to a port. It replaces an earlier one.
  void post(std::uint16_t lid, const wire::Smp& request, TimePoint now);
  /// Drops the request to a port.
  void forget(std::uint16_t lid);
  /// Takes an answer and returns the method of its request; none if no request is in flight for it.
  /// The upper half of the transaction ID is not compared, like that of Reports.
  [[nodiscard]] std::optional<wire::Method> take(std::uint16_t lid, const wire::Smp& answer,
                                                 TimePoint now);
  /// Sends SMPs that are due, a bounded number of them. Returns the LIDs of ports that did not answer.
  [[nodiscard]] std::vector<std::uint16_t> tick(TimePoint now, const MadSender& send);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return times_.next_deadline(); }

  [[nodiscard]] const SmpCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t outstanding() const { return times_.outstanding(); }

 private:
  void send(std::uint16_t lid, bool again, TimePoint now, const MadSender& send);

  std::map<std::uint16_t, wire::Smp> requests_;  ///< Key: LID.
  Retransmitter<std::uint16_t> times_;
  std::uint32_t next_tid_ = 0;
  SmpCounters counters_;
};

}  // namespace ipoib::sa
