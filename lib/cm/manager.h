// SPDX-License-Identifier: BSD-3-Clause
// The communication manager of a port: sets up, keeps and ends the connections of its consumers
// with other ports by CM MADs, both sides of it. A state machine: fed with MADs, wishes and the
// time; sends through MadSender, tells consumers. Source: IBA vol 1 §12.9; iba-wire.md §5.
//
// What it stands: any loss, repetition, delay or disorder of MADs, peers that restart and forget,
// floods of requests. A message that cannot be is dropped and counted, or answered as the
// specification says. Every connection ends at the latest with its time-outs; no state outlives
// them but that of established connections. Whether the peer of an established connection still
// lives is seen by its traffic, which is the consumer's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <variant>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/cm/connection.h"
#include "lib/cm/sidr.h"
#include "lib/cm/types.h"
#include "lib/fabric/types.h"
#include "lib/wire/cm_messages.h"

namespace ipoib::cm {

/// How the port is addressed: REQs that name another one are refused.
struct PortIdentity {
  wire::Gid gid;          ///< Its default prefix (fe80::/64) is good too.
  std::uint16_t lid = 0;  ///< 0: not known, not checked.
  std::uint8_t lmc = 0;
};

/// Management lcore only.
class Manager {
 public:
  /// `seed`: of communication and transaction IDs; in the program another one at each start.
  Manager(MadSender send, ManagerConfig config, std::uint64_t seed);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  /// Ends nothing and tells nobody; shutdown() does.
  ~Manager() = default;

  void set_port(const PortIdentity& port) { port_ = port; }

  /// REQs for `service_id` are the consumer's. `private_data`: of the REJs the manager itself sends
  /// for it. Errors: kExists.
  Status listen(std::uint64_t service_id, Consumer& consumer, std::vector<std::byte> private_data);
  /// Connections and requests that came are not touched.
  void unlisten(std::uint64_t service_id) { listeners_.erase(service_id); }

  // Wishes. Errors: kNotFound, there is no such handle (any more); kUnavailable, not in its state;
  // nothing is done then.

  /// Asks for a connection. Errors: kInvalidArgument, kNoResources, kUnavailable (shut down).
  Result<Handle> connect(const ConnectParams& params, Consumer& consumer, TimePoint now);
  /// Answers an on_request with a REP. The queue pair must receive from here on, and send from
  /// on_established on.
  Status accept(Handle handle, const AcceptParams& params, TimePoint now);
  /// Answers an on_reply with an RTU: established.
  Status confirm(Handle handle, TimePoint now);
  /// Answers either with a REJ. `info`: additional information some reasons have.
  Status reject(Handle handle, wire::RejReason reason, TimePoint now,
                std::span<const std::byte> info = {});
  /// Ends a connection or the attempt at one, whatever its state.
  Status disconnect(Handle handle, TimePoint now);
  /// Forgets a request that came and is not established, and tells its sender nothing.
  Status drop(Handle handle, TimePoint now);
  /// Asks whether the peer of an established connection still knows it, by one more RTU: one that
  /// has forgotten it answers with a REJ, as on_closed() then tells; any other says nothing.
  Status probe(Handle handle, TimePoint now);
  /// A packet came on the connection's queue pair: where the RTU is missing, it stands for it.
  void on_traffic(Handle handle, TimePoint now);
  /// The consumer goes away: it is told nothing more, and all its connections are disconnected.
  void detach(const Consumer& consumer, TimePoint now);

  // Service ID resolution.
  Result<SidrId> ask_service(const SidrQuestion& question, SidrHandler handler, TimePoint now);
  void cancel_question(SidrId id) { sidr_.cancel(id); }
  void serve(std::uint64_t service_id, SidrService service) {
    sidr_.serve(service_id, std::move(service));
  }
  void end_service(std::uint64_t service_id) { sidr_.end_service(service_id); }

  /// Feeds one MAD of class ComMgt. True when it could be read.
  bool on_mad(const fabric::ReceivedMad& mad, TimePoint now);
  void tick(TimePoint now);
  /// When tick() has work; at once (the latest time told) while consumers are to be told something.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  /// Disconnects everything; nothing new begins. Done when size() is 0: ticks and MADs go on until
  /// then, as long as the owner wants to wait.
  void shutdown(TimePoint now);

  [[nodiscard]] const ManagerCounters& counters() const { return counters_; }
  /// Connections of any state, those that are over and remembered included.
  [[nodiscard]] std::size_t size() const { return table_.size(); }
  /// Nothing is under way with a peer: what there is is established, or over.
  [[nodiscard]] bool settled() const;
  [[nodiscard]] std::size_t half_open() const { return table_.half_open(); }
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
  /// Something a consumer is to be told.
  struct Event {
    Consumer* consumer;
    Handle handle;
    std::variant<Request, wire::CmRep, Established, Closed, Released> what;
  };
  struct Outgoing {
    fabric::MadAddress to;
    wire::CmMad mad;
  };

  // manager.cc
  [[nodiscard]] std::uint64_t ca_guid() const {
    return config_.ca_guid != 0 ? config_.ca_guid : port_.gid.guid();
  }
  void send(const fabric::MadAddress& to, const wire::CmMad& mad, bool repeated = false);
  void flush();
  void owe(const Connection& c, decltype(Event::what) what);
  void deliver(TimePoint now);
  void expire(Connection& c, TimePoint now);
  void retry(Connection& c, TimePoint now);
  void give_up(Connection& c, TimePoint now);
  [[nodiscard]] Duration lifetime_of(std::uint8_t code) const;
  [[nodiscard]] Duration answer_time(std::uint8_t code) const;
  [[nodiscard]] Duration peer_time(std::uint8_t code, std::uint8_t lifetime) const;

  // manager_active.cc
  void on_rep(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void take_rep(Connection& c, const wire::CmRep& rep, TimePoint now);
  void on_repeated_rep(Connection& c, const wire::CmMad& mad, TimePoint now);
  void on_mra(const wire::CmMad& mad, TimePoint now);

  // manager_passive.cc
  void on_req(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void on_repeated_req(Connection& c, const wire::CmMad& mad, const fabric::MadAddress& from,
                       TimePoint now);
  [[nodiscard]] bool refuse_req(const wire::CmMad& mad, const wire::CmReq& req,
                                const fabric::MadAddress& from, const Listener* listener);
  void refuse(const wire::CmMad& mad, const fabric::MadAddress& from, wire::RejReason reason,
              std::uint64_t& counter, std::span<const std::byte> info = {},
              std::span<const std::byte> private_data = {});
  void make_room();
  void drop(Connection& c);
  void on_rtu(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void establish(Connection& c);

  // manager_end.cc
  void end(Connection& c, TimePoint now);
  void send_rej(Connection& c, wire::RejReason reason, TimePoint now,
                std::span<const std::byte> info = {});
  void repeat_rej(Connection& c, TimePoint now);
  [[nodiscard]] Duration rej_memory(const Connection& c) const;
  [[nodiscard]] Connection* rejected_by(const wire::CmRej& rej);
  void on_rej(const wire::CmMad& mad, TimePoint now);
  void start_dreq(Connection& c, TimePoint now);
  void on_dreq(const wire::CmMad& mad, const fabric::MadAddress& from, TimePoint now);
  void on_drep(const wire::CmMad& mad, TimePoint now);
  void on_lap(const wire::CmMad& mad, const fabric::MadAddress& from);
  void close(const Connection& c, CloseReason reason, const wire::CmRej* rej = nullptr);
  void enter_time_wait(Connection& c, TimePoint now);
  void release(Connection& c);
  [[nodiscard]] bool make_stale(Connection& c, const fabric::MadAddress& by, TimePoint now);

  MadSender send_;
  ManagerConfig config_;
  std::mt19937_64 random_;
  PortIdentity port_;
  ConnectionTable table_;
  std::map<std::uint64_t, Listener> listeners_;
  std::uint64_t next_tid_;
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
