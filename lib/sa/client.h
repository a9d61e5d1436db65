// Asks the subnet administrator: transactions with time-outs, retries, back-off and a bound on how
// many are outstanding. A state machine: fed with MADs and the time, sends through MadSender.
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
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/types.h"
#include "lib/wire/mad.h"

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
///   kTimedOut     no answer to any attempt;
///   kUnavailable  no SM known or nothing could be sent in all that time, or client shut down;
///   kNoResources  too many requests were waiting already;
///   kProtocol     the answer makes no sense, or comes in several RMPP segments.
struct Failure {
  Errc code;
  std::uint16_t status;  ///< MAD status when code is kRefused, else 0.
};
using Outcome = tl::expected<Reply, Failure>;
using Handler = std::function<void(const Outcome&, TimePoint now)>;

struct ClientConfig {
  Duration timeout = std::chrono::milliseconds(500);  ///< First; doubles with each retry.
  Duration max_timeout = std::chrono::seconds(4);
  unsigned retries = 4;
  unsigned max_outstanding = 32;  ///< More wait their turn.
  unsigned max_waiting = 65536;   ///< More fail at once with kNoResources.
};

struct ClientCounters {
  std::uint64_t sent = 0;     ///< MADs that left, resends included.
  std::uint64_t retried = 0;  ///< Those of them that were resends.
  std::uint64_t answered = 0, refused = 0, timed_out = 0;
  std::uint64_t unmatched = 0;    ///< MADs that answer nothing asked (late, twice, foreign).
  std::uint64_t malformed = 0;    ///< Not an SA MAD, or an answer whose contents make no sense.
  std::uint64_t busy = 0;         ///< Answers "busy", retried.
  std::uint64_t segmented = 0;    ///< Answers in several RMPP segments, not taken.
  std::uint64_t send_failed = 0;  ///< Attempts the sender did not take.
  std::uint64_t overflowed = 0;   ///< Requests refused because too many waited.
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

  /// Feeds one MAD of class SubnAdm. True when it was an answer to one of ours.
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
    bool sent = false;  ///< At least one attempt left.
    bool busy = false;  ///< The latest attempt was answered "busy".
  };
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
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace ipoib::sa
