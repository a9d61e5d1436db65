// SPDX-License-Identifier: BSD-3-Clause
// Asks the subnet administrator: transactions with time-outs, retries, back-off and a bound on how
// many are outstanding; puts tables together from RMPP segments and takes Reports. A state machine:
// fed with MADs and the time, sends through MadSender.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/sa/recent.h"
#include "lib/sa/rmpp_receiver.h"
#include "lib/wire/mad.h"
#include "lib/wire/notice.h"
#include "lib/wire/rmpp.h"

namespace ipoib::sa {

/// How a MAD leaves: MadPort in the program, the simulated fabric in tests.
using MadSender =
    std::function<Status(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen>)>;

struct Request {
  wire::Method method = wire::Method::kGet;
  wire::Attr attr = wire::Attr::kClassPortInfo;
  std::uint64_t comp_mask = 0;
  std::array<std::byte, wire::kSaDataLen> data{};

  template <wire::WireRecord T>
  [[nodiscard]] static Request of(wire::Method method, wire::Attr attr, std::uint64_t comp_mask,
                                  const T& record) {
    static_assert(sizeof(T) <= wire::kSaDataLen);
    Request r{method, attr, comp_mask, {}};
    std::memcpy(r.data.data(), &record, sizeof(T));
    return r;
  }
};

/// Answer with status 0.
struct Reply {
  std::uint16_t status = 0;
  std::vector<std::byte> data;   ///< Octets from the first record on; whole records for a table.
  std::uint16_t record_len = 0;  ///< AttributeOffset * 8; tables only.

  template <wire::WireRecord T>
  [[nodiscard]] std::optional<T> record(std::size_t i = 0) const {
    return wire::read<T>(data, i * (record_len != 0 ? record_len : sizeof(T)));
  }
  /// Records of a table, 0 for an empty one; 1 for the answer to anything else.
  [[nodiscard]] std::size_t count() const {
    if (record_len != 0) return data.size() / record_len;
    return data.empty() ? 0 : 1;
  }
};

using TransactionId = std::uint32_t;
inline constexpr TransactionId kNoTransaction = 0;

/// How a transaction ends without a reply:
///   kRefused      the SA said no, `status` says why (redirect counts as no; busy was retried);
///   kTimedOut     no answer to any attempt, or a table stopped coming half-way (`rmpp_status`
///   set); kUnavailable  no SM known or nothing could be sent in all that time, or client shut
///   down; kNoResources  too many requests were waiting already, or a table is too big; kProtocol
///   the answer makes no sense, or the SA gave up sending it: `rmpp_status`, when not
///                 0, is what this side or the SA said in its STOP or ABORT.
struct Failure {
  Errc code;
  std::uint16_t status;          ///< MAD status when code is kRefused, else 0.
  std::uint8_t rmpp_status = 0;  ///< Of the STOP or ABORT that ended a table (wire::RmppStatus).
};
using Outcome = tl::expected<Reply, Failure>;
using Handler = std::function<void(const Outcome&, TimePoint now)>;
using ReportHandler = std::function<void(const wire::Notice&, TimePoint now)>;

struct ClientConfig {
  Duration timeout = std::chrono::milliseconds(500);  ///< First; doubles with each retry.
  Duration max_timeout = std::chrono::seconds(4);
  unsigned retries = 4;
  unsigned max_outstanding = 32;  ///< More wait their turn.
  unsigned max_waiting = 65536;   ///< More fail at once with kNoResources.
  // Tables in RMPP segments.
  unsigned window = 16;  ///< Segments the SA may send without an acknowledgement.
  Duration table_silence = std::chrono::seconds(8);      ///< Without a new segment: given up.
  Duration table_time = std::chrono::seconds(40);        ///< For all of a table.
  std::size_t max_table_octets = 32U << 20;              ///< Over all tables being received.
  Duration remember = std::chrono::seconds(10);          ///< Tables that ended, for late segments.
  Duration remember_reports = std::chrono::seconds(60);  ///< Reports, to know copies.
};

struct ClientCounters {
  std::uint64_t sent = 0;     ///< Requests that left, resends included.
  std::uint64_t retried = 0;  ///< Those of them that were resends.
  std::uint64_t answered = 0, refused = 0, timed_out = 0;
  std::uint64_t unmatched = 0;    ///< MADs that answer nothing asked (late, twice, foreign).
  std::uint64_t malformed = 0;    ///< Not an SA MAD, or an answer whose contents make no sense.
  std::uint64_t busy = 0;         ///< Answers "busy", retried.
  std::uint64_t segmented = 0;    ///< Tables that came in several RMPP segments.
  std::uint64_t send_failed = 0;  ///< Attempts the sender did not take.
  std::uint64_t overflowed = 0;   ///< Requests refused because too many waited.

  std::uint64_t segments = 0;           ///< New RMPP segments taken.
  std::uint64_t segments_repeated = 0;  ///< Had already, late ones of a table that ended included.
  std::uint64_t segments_beyond = 0;    ///< Above the window, dropped.
  std::uint64_t tables_stopped = 0;     ///< STOP or ABORT of the SA.
  std::uint64_t tables_given_up = 0;    ///< By STOP or ABORT of this side.

  std::uint64_t reports = 0;           ///< Of the SA, acknowledged; the next three among them.
  std::uint64_t reports_repeated = 0;  ///< Had already.
  std::uint64_t reports_vendor = 0;    ///< Not generic; not handed over.
  std::uint64_t reports_garbled = 0;   ///< Contents make no sense; also counted malformed.
  std::uint64_t reports_foreign = 0;   ///< Not from the SA; neither acknowledged nor handed over.
};

struct Fault;

/// Every attempt waits its time-out plus up to a quarter of it, at random, so that nodes that lost
/// their SM together do not ask together. Management lcore only.
class Client {
 public:
  /// `seed` makes transaction IDs and jitter reproducible in tests.
  Client(MadSender send, ClientConfig config, std::uint64_t seed);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  /// Handlers still owed are not called; shutdown() calls them.
  ~Client() = default;

  /// Where the SA is (LID 0: nowhere); a change re-sends what is outstanding, with all its retries.
  void set_sm(std::uint16_t sm_lid, std::uint8_t sm_sl, TimePoint now);

  /// `handler` is called exactly once, from on_mad, tick or shutdown, never from submit itself. It
  /// may submit, cancel and destroy the client.
  TransactionId submit(const Request& request, Handler handler, TimePoint now);
  /// The handler will not be called. Unknown ids are ignored.
  void cancel(TransactionId id);
  /// Ends every transaction, and every later one, with kUnavailable.
  void shutdown(TimePoint now);

  /// Called once for each Report of the SA that makes sense, from on_mad or tick; by then it has
  /// been acknowledged. The handler may do what that of a request may.
  void set_report_handler(ReportHandler handler) { report_handler_ = std::move(handler); }

  /// Subscriptions are the port's: whoever needs Reports says so, and the last who no longer does
  /// (true) is to end them.
  void add_subscriber() { ++subscribers_; }
  [[nodiscard]] bool remove_subscriber() { return --subscribers_ == 0; }

  /// Feeds one MAD of class SubnAdm that is_for_client (sa_mad.h). True when it was part of an
  /// answer to one of ours, or a Report of the SA.
  bool on_mad(const fabric::ReceivedMad& mad, TimePoint now);
  void tick(TimePoint now);
  /// When tick() has work: at once (the latest time told) while handlers are owed or a request
  /// can start.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const ClientCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Transaction {
    Request request;
    Handler handler;
    TimePoint deadline{};
    Duration timeout{};
    unsigned retries_left = 0;
    bool sent = false;                    ///< At least one attempt left.
    bool busy = false;                    ///< The latest attempt was answered "busy".
    std::unique_ptr<RmppReceiver> table;  ///< From the first segment of its answer on.
    TimePoint table_end{};
    fabric::MadAddress table_from;
  };
  /// What late segments of a table are told.
  using Ended = wire::Rmpp;
  struct Waiting {
    TransactionId id;
    Request request;
    Handler handler;
  };
  struct Finished {
    TransactionId id;
    Handler handler;
    Outcome outcome;
  };

  TransactionId new_id();
  Duration with_jitter(Duration timeout);
  void send(TransactionId id, TimePoint now);
  void start_waiting(TimePoint now);
  void expire(TransactionId id, TimePoint now);
  void finish(TransactionId id, Outcome outcome);
  void owe(TransactionId id, Handler handler, Outcome outcome);
  void deliver(TimePoint now);
  Outcome count(const tl::expected<Reply, Fault>& answer);
  void answer_to(const fabric::MadAddress& to, const wire::SaMad& mad);

  // client_tables.cc
  bool on_segment(TransactionId id, const fabric::ReceivedMad& received, const wire::SaMad& mad,
                  TimePoint now);
  void on_data(TransactionId id, const fabric::MadAddress& from, const wire::SaMad& mad,
               const wire::Rmpp& rmpp, TimePoint now);
  bool on_late_segment(const fabric::MadAddress& from, const wire::SaMad& mad, TimePoint now);
  void say(const fabric::MadAddress& to, const wire::SaHdr& about, const wire::Rmpp& rmpp);
  void give_up(TransactionId id, fabric::MadAddress from, const wire::SaHdr& about,
               wire::RmppStatus status, Errc code, TimePoint now);
  void finish_table(TransactionId id);
  [[nodiscard]] Outcome whole_table(TransactionId id, const wire::SaMad& mad,
                                    const fabric::ReceivedMad& received);
  [[nodiscard]] std::size_t room_for_table(TransactionId id) const;

  // client_reports.cc
  bool on_report(const fabric::ReceivedMad& received, const wire::SaMad& mad, TimePoint now);
  [[nodiscard]] bool is_news(const wire::SaMad& mad, wire::Notice& notice, TimePoint now);

  MadSender send_;
  ClientConfig config_;
  std::mt19937_64 random_;
  std::uint16_t sm_lid_ = 0;
  std::uint8_t sm_sl_ = 0;
  bool down_ = false;
  std::map<TransactionId, Transaction> outstanding_;  ///< Ordered: a seed gives one run.
  std::list<Waiting> waiting_;
  std::unordered_map<TransactionId, std::list<Waiting>::iterator> waiting_by_id_;
  std::deque<Finished> finished_;  ///< Handlers owed.
  TimePoint last_now_{};
  unsigned sending_ = 0;  ///< Depth of calls into send_, which may feed answers right back.
  bool delivering_ = false;
  TransactionId next_id_;
  ClientCounters counters_;
  Recent<std::uint64_t, Ended> ended_;  ///< By transaction ID as on the wire.
  using ReportKey = std::tuple<std::uint64_t, std::uint16_t, wire::Gid>;
  Recent<ReportKey, bool> reports_;  ///< By transaction ID, trap and GID.
  ReportHandler report_handler_;
  unsigned subscribers_ = 0;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ipoib::sa
