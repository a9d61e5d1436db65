// SPDX-License-Identifier: BSD-3-Clause
// The communication manager of a port: sets up, keeps and ends the connections of its consumers
// with other ports by CM MADs, as active and as passive side. A state machine: it takes MADs,
// requests and the time, sends through MadSender and notifies consumers. Source: IBA vol 1 §12.9;
// iba-wire.md §5.
//
// It tolerates any loss, repetition, delay or reordering of MADs, peers that restart and lose their
// state, and floods of requests. An invalid message is dropped and counted, or answered as the
// specification says. A message about a connection is believed only from the peer's port. Every
// handshake ends at the latest with its timeouts; only established connections have state beyond
// them. The consumer must detect a dead peer of an established connection by its traffic.
//
// A REQ gets a connection, and a queue pair of its consumer, only when the consumer believes it, and
// at a bounded rate of its port and of all. Until then it waits in a bounded queue, without an
// answer, and its sender repeats it. The consumer may query the SA only for REQs in the queue.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/id_source.h"
#include "lib/base/result.h"
#include "lib/cm/connection.h"
#include "lib/cm/manager_types.h"
#include "lib/cm/port_limiter.h"
#include "lib/cm/port_name.h"
#include "lib/cm/request_queue.h"
#include "lib/cm/sidr.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/cm_mads.h"

namespace ipoib::cm {

/// Management lcore only.
class Manager {
 public:
  /// `seed`: secret seed of communication and transaction IDs, another one at each start.
  Manager(MadSender send, ManagerConfig config, std::uint64_t seed);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  /// Ends no connection and notifies no consumer; shutdown() does.
  ~Manager() = default;

  void set_port(const PortIdentity& port);

  /// Passes REQs for `service_id` to the consumer. `private_data`: sent in the manager's own REJs
  /// for the service, and in MRAs and REJs until accept(). Errors: kExists.
  Status listen(std::uint64_t service_id, Consumer& consumer, std::vector<std::byte> private_data);
  /// Existing connections and pending requests are not affected.
  void unlisten(std::uint64_t service_id) { listeners_.erase(service_id); }

  // Requests. Errors: kNotFound, the handle does not exist (any more); kUnavailable, not possible
  // in its state. After an error nothing has been done.

  /// Starts a connection. Errors: kInvalidArgument, kNoResources, kUnavailable (shut down).
  Result<Handle> connect(const ConnectParams& params, Consumer& consumer, TimePoint now);
  /// Answers an on_request with a REP. The queue pair must receive from here on, and send from
  /// on_established on.
  Status accept(Handle handle, const AcceptParams& params, TimePoint now);
  /// Answers an on_reply with an RTU: the connection is established.
  Status confirm(Handle handle, TimePoint now);
  /// Answers an on_request or on_reply with a REJ. `info`: additional information of some reasons.
  Status reject(Handle handle, wire::RejReason reason, TimePoint now,
                std::span<const std::byte> info = {});
  /// Ends a connection or an attempt, in any state.
  Status disconnect(Handle handle, TimePoint now);
  /// Forgets a half-open request of a peer without sending a message.
  Status drop(Handle handle, TimePoint now);
  /// Sends one more RTU on an established connection. A peer that has lost the connection answers
  /// with a REJ, which on_closed() reports; any other peer does not answer.
  Status probe(Handle handle, TimePoint now);
  /// Asks the peer of an established connection to load an alternate path, by a LAP. The answer comes as
  /// on_alternate_answer(). kUnavailable also while another LAP has no answer yet.
  Status load_alternate(Handle handle, const AlternateParams& params, TimePoint now);
  /// Reports a packet on the connection's queue pair. It replaces an RTU that has not arrived.
  void on_traffic(Handle handle, TimePoint now);
  /// Removes the consumer: it gets no more events, and all its connections are disconnected.
  void detach(const Consumer& consumer, TimePoint now);

  // Service ID resolution.
  Result<SidrId> ask_service(const SidrQuestion& question, SidrHandler handler, TimePoint now);
  void cancel_question(SidrId id) { sidr_.cancel(id); }
  void serve(std::uint64_t service_id, SidrService service, std::uint16_t pkey = 0) {
    sidr_.serve(service_id, std::move(service), pkey);
  }
  void end_service(std::uint64_t service_id, std::uint16_t pkey = 0) {
    sidr_.end_service(service_id, pkey);
  }

  /// Feeds one MAD of class ComMgt. Returns true if it is well-formed.
  bool on_mad(const fabric::ReceivedMad& mad, TimePoint now);
  void tick(TimePoint now);
  /// Time of the next tick(). While events for consumers are queued, the latest time passed in.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  /// Disconnects everything and accepts nothing new. It is complete when size() is 0; until then
  /// the owner feeds ticks and MADs, as long as it wants to wait.
  void shutdown(TimePoint now);

  [[nodiscard]] const ManagerCounters& counters() const { return counters_; }
  /// Connections of any state, including ended ones that are still remembered.
  [[nodiscard]] std::size_t size() const { return table_.size(); }
  /// True if no handshake or disconnect is under way: each connection is established, rejected or
  /// in time-wait.
  [[nodiscard]] bool settled() const;
  [[nodiscard]] std::size_t half_open() const {
    return table_.size(Crowd::kHalfOpen) + table_.size(Crowd::kRejected);
  }
  /// REQs that wait for the path to their sender or for their turn.
  [[nodiscard]] std::size_t waiting() const { return requests_.size(); }
  [[nodiscard]] const PortLimiter& limiter() const { return limiter_; }
  [[nodiscard]] const Connection* find(Handle handle) const { return table_.find(handle); }
  [[nodiscard]] const ConnectionTable& connections() const { return table_; }

 private:
  struct Listener {
    Consumer* consumer;
    std::vector<std::byte> private_data;
  };
  struct Request {
    wire::CmReq req;
    fabric::MadAddress from;
  };
  struct Established {};
  struct Released {};
  /// A LAP, and the answer to one; empty: none.
  struct Alternate {
    wire::CmLap lap;
    std::uint64_t tid;
    fabric::MadAddress from;
  };
  using AlternateAnswer = std::optional<wire::ApStatus>;
  /// An event to deliver to a consumer.
  struct Event {
    Consumer* consumer;
    Handle handle;
    std::variant<Request, wire::CmRep, Established, Closed, Released, Alternate, AlternateAnswer>
        what;
  };
  struct Arrived {
    wire::CmMad mad;
    fabric::MadAddress from;
  };
  struct Outgoing {
    fabric::MadAddress to;
    wire::CmMad mad;
  };

  // manager.cc
  [[nodiscard]] bool is_peers(const Connection& c, const fabric::MadAddress& from);
  [[nodiscard]] std::uint64_t ca_guid() const {
    return config_.ca_guid != 0 ? config_.ca_guid : port_.gid.guid();
  }
  void send(const fabric::MadAddress& to, const wire::CmMad& mad, bool repeated = false);
  void flush();
  void enqueue_event(const Connection& c, decltype(Event::what) what);
  void deliver(TimePoint now);
  void expire(Connection& c, TimePoint now);
  void retry(Connection& c, TimePoint now);
  void abort_connection(Connection& c, TimePoint now);
  [[nodiscard]] Duration lifetime_of(std::uint8_t code) const;
  [[nodiscard]] Duration answer_time(std::uint8_t code) const;
  [[nodiscard]] Duration peer_time(std::uint8_t code, std::uint8_t lifetime) const;

  // manager_active.cc
  void on_rep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void take_rep(Connection& c, const wire::CmRep& rep, TimePoint now);
  void on_repeated_rep(Connection& c, const wire::CmMad& mad, TimePoint now);
  void on_mra(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);

  // manager_passive.cc
  void on_req(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void on_repeated_req(Connection& c, const wire::CmMad& mad, const fabric::MadAddress& from,
                       TimePoint now);
  [[nodiscard]] bool refuse_req(const wire::CmMad& mad, const wire::CmReq& req,
                                const fabric::MadAddress& from, const Listener* listener);
  void refuse(const wire::CmMad& mad, const fabric::MadAddress& from, wire::RejReason reason,
              std::uint64_t& counter, std::span<const std::byte> info = {},
              std::span<const std::byte> private_data = {});
  void take_req(const wire::CmMad& mad, const fabric::MadAddress& from, bool counted,
                TimePoint now);
  [[nodiscard]] bool refuse_stale(const wire::CmMad& mad, const wire::CmReq& req,
                                  const fabric::MadAddress& from, const Listener& listener,
                                  TimePoint now);
  void make_room();
  void drop(Connection& c);
  void on_rtu(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void establish(Connection& c);

  // manager_alternate.cc
  void on_lap(const wire::CmMad& mad, const fabric::MadAddress& from);
  void answer_lap(const Event& event, const Alternate& asked, TimePoint now);
  void on_apr(const wire::CmMad& mad, const fabric::MadAddress& from);
  void end_lap(Connection& c, AlternateAnswer answer);

  // manager_waiting.cc
  void serve_requests(TimePoint now);
  void judge_arrived(const Arrived& arrived, TimePoint now);
  void judge_waiting(TimePoint now);
  [[nodiscard]] bool judge_again(const RequestQueue::Key& key, bool may_accept, TimePoint now);
  [[nodiscard]] Admission admission_of(const wire::CmMad& mad, const fabric::MadAddress& from,
                                       std::optional<TimePoint> waits_since, TimePoint now);
  [[nodiscard]] bool forget_waiting(const wire::CmRej& rej, const fabric::MadAddress& from);
  void forget_place(Connection& c);

  // manager_end.cc
  void end(Connection& c, TimePoint now);
  void send_rej(Connection& c, wire::RejReason reason, TimePoint now,
                std::span<const std::byte> info = {});
  void repeat_rej(Connection& c, TimePoint now);
  [[nodiscard]] Duration rej_memory(const Connection& c) const;
  [[nodiscard]] Connection* rejected_by(const wire::CmRej& rej, const fabric::MadAddress& from);
  void on_rej(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void start_dreq(Connection& c, TimePoint now);
  void on_dreq(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void on_drep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void close(const Connection& c, CloseReason reason, const wire::CmRej* rej = nullptr);
  [[nodiscard]] Duration time_wait_of(const Connection& c) const;
  void enter_time_wait(Connection& c, TimePoint now);
  void release(Connection& c);
  [[nodiscard]] bool make_stale(Connection& c, TimePoint now);

  MadSender send_;
  ManagerConfig config_;
  IdSource ids_;
  PortIdentity port_;
  ConnectionTable table_;
  std::map<std::uint64_t, Listener> listeners_;
  PortLimiter limiter_;
  RequestQueue requests_;
  std::deque<Arrived> arrived_;  ///< REQs that no consumer has seen yet.
  TimePoint judge_at_ = TimePoint::max();
  std::deque<Outgoing> outbox_;
  std::deque<Event> events_;
  TimePoint last_now_{};
  bool flushing_ = false;
  bool delivering_ = false;
  bool down_ = false;
  ManagerCounters counters_;
  Sidr sidr_;
};

}  // namespace ipoib::cm
