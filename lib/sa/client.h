// Asks the subnet administrator: transactions with time-outs, retries, back-off and a bound on how
// many are outstanding. A state machine: fed with MADs and the time, sends through MadSender.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
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

/// Answer with status 0, or an error: kRefused with `status` for an SA status, kTimedOut,
/// kUnavailable when the client is shut down.
struct Reply {
  std::uint16_t status = 0;
  std::vector<std::byte> data;    ///< Octets from the first record on.
  std::uint16_t record_len = 0;   ///< AttributeOffset * 8; tables only.

  template <wire::WireRecord T>
  [[nodiscard]] std::optional<T> record(std::size_t i = 0) const {
    return wire::read<T>(data, i * (record_len != 0 ? record_len : sizeof(T)));
  }
};

using TransactionId = std::uint32_t;
inline constexpr TransactionId kNoTransaction = 0;

struct Failure {
  Errc code;
  std::uint16_t status;  ///< MAD status when code is kRefused.
};
using Outcome = tl::expected<Reply, Failure>;
using Handler = std::function<void(const Outcome&, TimePoint now)>;

struct ClientConfig {
  Duration timeout = std::chrono::milliseconds(500);      ///< First; doubles with each retry.
  Duration max_timeout = std::chrono::seconds(4);
  unsigned retries = 4;
  unsigned max_outstanding = 32;  ///< More wait their turn.
  unsigned max_waiting = 65536;   ///< More fail at once with kNoResources.
};

struct ClientCounters {
  std::uint64_t sent = 0, retried = 0, answered = 0, refused = 0, timed_out = 0;
  std::uint64_t unmatched = 0;  ///< MADs that answer nothing asked (late, twice, foreign).
  std::uint64_t malformed = 0;
};

class Client {
 public:
  /// `seed` makes transaction IDs and jitter reproducible in tests.
  Client(MadSender send, ClientConfig config, std::uint64_t seed);

  /// Where the SA is; a change re-sends what is outstanding.
  void set_sm(std::uint16_t sm_lid, std::uint8_t sm_sl, TimePoint now);

  /// `handler` is called exactly once, from on_mad, tick or submit's successors, never from submit
  /// itself.
  TransactionId submit(const Request& request, Handler handler, TimePoint now);
  /// The handler will not be called. Unknown ids are ignored.
  void cancel(TransactionId id);

  /// Feeds one MAD of class SubnAdm. True when it was an answer to one of ours.
  bool on_mad(const fabric::ReceivedMad& mad, TimePoint now);
  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const ClientCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t outstanding() const { return outstanding_.size(); }

 private:
  struct Transaction {
    Request request;
    Handler handler;
    TimePoint deadline{};
    Duration timeout{};
    unsigned retries_left = 0;
    bool sent = false;
  };

  void send(TransactionId id, Transaction& t, TimePoint now);
  void start_waiting(TimePoint now);
  void finish(TransactionId id, const Outcome& outcome, TimePoint now);

  MadSender send_;
  ClientConfig config_;
  std::mt19937_64 random_;
  std::uint16_t sm_lid_ = 0;
  std::uint8_t sm_sl_ = 0;
  std::unordered_map<TransactionId, Transaction> outstanding_;
  std::deque<std::pair<TransactionId, Transaction>> waiting_;
  TransactionId next_id_;
  ClientCounters counters_;
};

}  // namespace ipoib::sa
