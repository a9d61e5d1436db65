// SPDX-License-Identifier: BSD-3-Clause
// Sends tables in RMPP segments to several receivers at once, with windows, retransmission on
// timeout and a limit of retries. Source: IBA vol 1 §13.6; iba-wire.md §4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/qp1.h"
#include "lib/sa/client.h"
#include "lib/wire/rmpp.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

struct TableSenderConfig {
  Duration timeout = std::chrono::milliseconds(500);  ///< Wait for an acknowledgement.
  unsigned retries = 7;                               ///< Retries without progress.
  Duration total_time = std::chrono::seconds(40);     ///< Limit for a whole table.
  std::size_t max_tables = 1024;
  std::size_t max_tables_per_port = 32;  ///< Equal to ClientConfig::max_outstanding.
  std::size_t max_octets = 64U << 20;    ///< Octets of records over all tables.
  std::size_t max_octets_per_port = 16U << 20;
  /// Octets of records over all tables of which nothing is acknowledged. The records of a table
  /// beyond it are found again at the first acknowledgement.
  std::size_t max_octets_unheard = 4U << 20;
  unsigned burst = 64;  ///< Segments and ABORTs per tick.
};

struct TableSenderCounters {
  std::uint64_t started = 0, finished = 0;
  std::uint64_t segments = 0;  ///< Segments sent, retransmissions included.
  std::uint64_t resent = 0;
  std::uint64_t stopped = 0;      ///< Tables ended by STOP, ABORT or another request.
  std::uint64_t given_up = 0;     ///< Tables out of time or retries, or after invalid RMPP.
  std::uint64_t send_failed = 0;  ///< Segments that the port refused; sent a little later.
  std::uint64_t no_room = 0;      ///< Tables not started for lack of room.
  std::uint64_t gave_way = 0;     ///< Tables without an acknowledgement, ended for a new one.
  std::uint64_t found_again = 0;  ///< Tables whose records were found again.
  std::uint64_t changed = 0;      ///< Tables aborted because their records had changed by then.
};

/// Finds the records of a request again; none if the request would be refused now.
using FindRecords = std::function<std::optional<std::vector<std::byte>>(
    const fabric::MadAddress& from, const wire::SaMad& request)>;

/// A requester that never acknowledges costs little memory: tables without an acknowledgement keep
/// few records, and at `max_tables` the oldest of them gives way to a new one.
class TableSender {
 public:
  explicit TableSender(const TableSenderConfig& config) : config_{config} {}

  /// Result of under_way(): `found` if the table of the request is in progress; `first` is its
  /// first segment again, if none has been acknowledged. A different request with the same
  /// transaction ID ends the table.
  struct UnderWay {
    bool found = false;
    std::optional<wire::SaMad> first;
  };
  [[nodiscard]] UnderWay under_way(const fabric::MadAddress& from, const wire::SaMad& request);

  /// Starts a table with the `header` of the answer to `request`. Returns its first segment, which
  /// the caller must send at once; none if there is no room for another table.
  [[nodiscard]] std::optional<wire::SaMad> start(const fabric::MadAddress& to,
                                                 const wire::SaMad& request,
                                                 const wire::SaHdr& header,
                                                 std::vector<std::byte> records, TimePoint now);

  /// Takes an ACK, STOP or ABORT of a receiver; false if it is for no table in progress. `find` is
  /// called if the records of the table were not kept.
  [[nodiscard]] bool take(const fabric::MadAddress& from, const wire::SaMad& mad, TimePoint now,
                          const FindRecords& find);

  /// Sends the segments that may be sent now, at most `burst`.
  void tick(TimePoint now, const MadSender& send);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const TableSenderCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t size() const { return tables_.size(); }
  [[nodiscard]] std::size_t octets() const { return octets_; }  ///< Octets of the kept records.

 private:
  using Key = std::pair<std::uint16_t, std::uint64_t>;  ///< LID, transaction ID.
  /// Replaces the records of a table until they are found again.
  struct NotKept {
    wire::SaMad request, first;  ///< The first segment as it was sent.
  };
  struct Table {
    fabric::MadAddress to;
    wire::SaHdr header{};
    std::uint64_t comp_mask = 0;  ///< ComponentMask of the request.
    std::size_t octets = 0;       ///< Octets of all records.
    std::vector<std::byte> records;
    std::unique_ptr<NotKept> not_kept;
    bool heard = false;                  ///< The receiver has acknowledged a segment.
    std::list<Key>::iterator unheard{};  ///< Its place in unheard_ until then.
    std::uint32_t segments = 0;
    std::uint32_t acked = 0;
    std::uint32_t window_last = 1;
    std::uint32_t next = 1;     ///< Next segment to send.
    std::uint32_t highest = 0;  ///< Highest segment sent so far.
    unsigned retries_left = 0;
    TimePoint deadline{};
    TimePoint end{};

    [[nodiscard]] bool ready() const { return next <= window_last && next <= segments; }
  };
  struct Goodbye {
    fabric::MadAddress to;
    wire::SaMad mad;
  };
  using Iterator = std::map<Key, Table>::iterator;

  [[nodiscard]] static wire::SaMad segment(const Table& table, std::uint32_t number);
  [[nodiscard]] bool has_room(std::uint16_t lid, std::size_t octets) const;
  void keep(Iterator it, std::vector<std::byte> records);
  void drop_records(Iterator it);
  void on_ack(Iterator it, const wire::Rmpp& ack, TimePoint now, const FindRecords& find);
  [[nodiscard]] bool hear(Iterator it, const FindRecords& find);
  void abort_table(Iterator it, wire::RmppStatus status);
  void remove(Iterator it);
  void expire(TimePoint now);
  [[nodiscard]] bool send_next(Table& table, TimePoint now, const MadSender& send);

  TableSenderConfig config_;
  std::map<Key, Table> tables_;
  struct Share {
    std::size_t tables = 0, octets = 0;
  };
  std::map<std::uint16_t, Share> per_port_;  ///< LIDs with a table in progress.
  std::size_t octets_ = 0;
  std::list<Key> unheard_;          ///< Tables without an acknowledgement, oldest first.
  std::size_t unheard_octets_ = 0;  ///< Octets of records that they keep.
  std::vector<Goodbye> goodbyes_;   ///< ABORTs to send.
  Key served_{};                    ///< Table that was served last.
  TimePoint last_now_{};
  TimePoint not_before_{};  ///< The port refused a MAD: earliest time of the next.
  TableSenderCounters counters_;
};

}  // namespace ipoib::sa
