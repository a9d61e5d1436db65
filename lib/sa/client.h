// SPDX-License-Identifier: BSD-3-Clause
// The client of the subnet administrator (SA): transactions with timeouts, retries, backoff and a
// bound on outstanding requests. It reassembles tables from RMPP segments and receives Reports. A
// state machine: it is fed with MADs and the time, and sends through MadSender.
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
#include "lib/base/id_source.h"
#include "lib/base/result.h"
#include "lib/fabric/qp1.h"
#include "lib/sa/recent.h"
#include "lib/sa/rmpp_receiver.h"
#include "lib/sa/sa_info.h"
#include "lib/wire/notice.h"
#include "lib/wire/rmpp.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

/// Sends a MAD: through MadPort in the program, through the simulated fabric in tests.
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

/// An answer with status 0.
struct Reply {
  std::uint16_t status = 0;
  std::vector<std::byte> data;  ///< Octets from the first record on; only whole records of a table.
  std::uint16_t record_len = 0;  ///< AttributeOffset * 8; tables only.

  template <wire::WireRecord T>
  [[nodiscard]] std::optional<T> record(std::size_t i = 0) const {
    return wire::read<T>(data, i * (record_len != 0 ? record_len : sizeof(T)));
  }
  /// Number of records: 0 for an empty table, 1 for the answer to any other request.
  [[nodiscard]] std::size_t count() const {
    if (record_len != 0) return data.size() / record_len;
    return data.empty() ? 0 : 1;
  }
};

using TransactionId = std::uint32_t;
inline constexpr TransactionId kNoTransaction = 0;

/// End of a transaction without a reply:
///   kRefused      the SA refused; `status` is the reason (redirect is refused; busy was retried);
///   kTimedOut     no attempt was answered, or a table did not end in time (`rmpp_status` is set);
///   kUnavailable  no SM was known, no attempt could be sent, or the client was shut down;
///   kNoResources  too many requests were waiting already, or a table is too big (`rmpp_status` is
///                 set);
///   kProtocol     the answer is invalid, or the SA stopped sending it. `rmpp_status`, if not 0, is
///                 the status in the STOP or ABORT of this side or of the SA.
struct Failure {
  Errc code;
  std::uint16_t status;          ///< MAD status if `code` is kRefused, else 0.
  std::uint8_t rmpp_status = 0;  ///< wire::RmppStatus of the STOP or ABORT that ended a table.
};
using Outcome = tl::expected<Reply, Failure>;
using Handler = std::function<void(const Outcome&, TimePoint now)>;
using ReportHandler = std::function<void(const wire::Notice&, TimePoint now)>;

struct ClientConfig {
  Duration timeout = std::chrono::milliseconds(500);  ///< First attempt; doubles with each retry.
  Duration max_timeout = std::chrono::seconds(4);
  unsigned retries = 4;
  unsigned max_outstanding = 32;  ///< Further requests wait.
  unsigned max_waiting = 65536;   ///< Further requests fail at once: kNoResources.
  // Tables in RMPP segments.
  unsigned window = 16;  ///< Segments the SA may send without an acknowledgement.
  Duration table_silence = std::chrono::seconds(8);  ///< Longest wait for a new segment.
  Duration table_time = std::chrono::seconds(40);    ///< Limit for a whole table.
  std::size_t max_table_octets = 32U << 20;          ///< Sum over all tables being received.
  Duration remember = std::chrono::seconds(10);      ///< For ended tables: answers late segments.
  Duration remember_reports = std::chrono::seconds(60);  ///< For Reports: detects duplicates.
};

struct Fault;

/// The kinds of Reports that users subscribe to.
enum class Subscription : std::uint8_t {
  kGroups,  ///< Created and deleted multicast groups.
  kPorts,   ///< Ports that come into service and go out of it.
};

/// Management lcore only. Each attempt waits for its timeout plus a random jitter of up to a
/// quarter of it, so that nodes that lost their SM at the same time do not retry at the same time.
class Client {
 public:
  /// `seed`: secret seed of transaction IDs and jitter, another one at each start.
  Client(MadSender send, ClientConfig config, std::uint64_t seed);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  /// Pending handlers are not called; shutdown() calls them.
  ~Client() = default;

  /// Sets the address of the SA; LID 0: not known. A change sends outstanding requests again, with
  /// all their retries, except that a new SL alone does not restart a table being received.
  void set_sm(std::uint16_t sm_lid, std::uint8_t sm_sl, TimePoint now);

  /// Queues a request. `handler` is called exactly once, from on_mad, tick or shutdown, never from
  /// submit itself. It may submit, cancel and destroy the client.
  TransactionId submit(const Request& request, Handler handler, TimePoint now);
  /// Ends a transaction without a call of its handler. Unknown ids are ignored.
  void cancel(TransactionId id);
  /// Ends every transaction, and every later one, with kUnavailable.
  void shutdown(TimePoint now);

  /// Sets the handler that is called once for each valid Report of the SA, from on_mad, tick or
  /// shutdown, after the Report is acknowledged. It may submit, cancel and destroy the client.
  void set_report_handler(ReportHandler handler) { report_handler_ = std::move(handler); }

  /// Subscriptions belong to the port, so the users that need a kind of Reports are counted.
  /// remove_subscriber() returns true to the last user, which must end the subscriptions.
  void add_subscriber(Subscription to = Subscription::kGroups) { ++subscribers_of(to); }
  [[nodiscard]] bool remove_subscriber(Subscription to = Subscription::kGroups) {
    return --subscribers_of(to) == 0;
  }
  /// The SA may have started again and have lost the subscriptions. Its later Reports are news, even
  /// if it repeats transaction IDs of earlier ones.
  void forget_reports() { reports_.clear(); }

  /// Takes one MAD of class SubnAdm that is_for_client() (sa_mad.h). True if it is part of an
  /// answer to a request of this client, or a Report of the SA.
  bool on_mad(const fabric::ReceivedMad& mad, TimePoint now);
  void tick(TimePoint now);
  /// The time at which tick() has work: the latest `now` passed in, so at once, while handlers are
  /// pending or a request can start.
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
    bool sent = false;                    ///< At least one attempt was sent.
    bool busy = false;                    ///< The latest attempt was answered "busy".
    std::unique_ptr<RmppReceiver> table;  ///< Set from the first segment of the answer on.
    TimePoint table_end{};
    fabric::MadAddress table_from;
  };
  /// The ACK, STOP or ABORT that answers late segments of an ended table.
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
  void enqueue_outcome(TransactionId id, Handler handler, Outcome outcome);
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
  void abort_table(TransactionId id, fabric::MadAddress from, const wire::SaHdr& about,
                   wire::RmppStatus status, Errc code, TimePoint now);
  void finish_table(TransactionId id);
  [[nodiscard]] Outcome whole_table(TransactionId id, const wire::SaMad& mad,
                                    const fabric::ReceivedMad& received);
  [[nodiscard]] std::size_t room_for_table(TransactionId id) const;

  unsigned& subscribers_of(Subscription to) { return subscribers_[static_cast<std::size_t>(to)]; }
  // client_reports.cc
  bool on_report(const fabric::ReceivedMad& received, const wire::SaMad& mad, TimePoint now);
  [[nodiscard]] bool is_news(const wire::SaMad& mad, wire::Notice& notice, TimePoint now);

  MadSender send_;
  ClientConfig config_;
  std::mt19937_64 random_;
  std::uint16_t sm_lid_ = 0;
  std::uint8_t sm_sl_ = 0;
  bool down_ = false;
  std::map<TransactionId, Transaction> outstanding_;  ///< Ordered, so that a seed gives one run.
  std::list<Waiting> waiting_;
  std::unordered_map<TransactionId, std::list<Waiting>::iterator> waiting_by_id_;
  std::deque<Finished> finished_;  ///< Pending handlers.
  TimePoint last_now_{};
  unsigned sending_ = 0;  ///< Depth of calls into send_, which may call on_mad().
  bool delivering_ = false;
  IdSource ids_;
  ClientCounters counters_;
  Recent<std::uint64_t, Ended> ended_;  ///< Key: transaction ID as on the wire.
  /// Transaction ID; trap, GID, issuer's LID and GID, toggle and count of the notice.
  using ReportKey =
      std::tuple<std::uint64_t, std::uint16_t, wire::Gid, std::uint16_t, wire::Gid, std::uint16_t>;
  Recent<ReportKey, bool> reports_;
  ReportHandler report_handler_;
  std::array<unsigned, 2> subscribers_{};
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ipoib::sa
