// SPDX-License-Identifier: BSD-3-Clause
// A connection of the manager, and the table of connections: by local ID, by the peer's ID or QPN,
// and by timer. Source of the rules: iba-wire.md §5.6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/id_source.h"
#include "lib/cm/manager_types.h"

namespace ipoib::cm {

/// The connections of which there may be only so many, each in order of age.
enum class Crowd : std::uint8_t {
  kHalfOpen,  ///< Passive, between REQ and RTU.
  kRejected,
  kEnding,  ///< A DREQ waits for its answer.
  kCount,
};

/// State that only an exchange of messages needs; absent while the connection is established, unless
/// its LAP waits for an answer.
struct Exchange {
  wire::CmMad mad{};         ///< REQ, REP, REJ, LAP or DREQ, for retransmits.
  TimePoint latest{};        ///< The set-up ends here, whichever MRAs the peer sends.
  std::uint64_t serial = 0;  ///< Order of arrival in `crowd`; 0: in none.
  Crowd crowd = Crowd::kHalfOpen;
  bool has_alternate = false;    ///< Passive side: the REQ has an alternate path.
  std::uint8_t answer_time = 0;  ///< Time code: this side must answer in this time.
};

struct Connection {
  Handle id = kNoHandle;
  std::uint32_t remote_id = 0;
  Consumer* consumer = nullptr;  ///< Null: detached, gets no more events.
  std::unique_ptr<Exchange> exchange;
  std::vector<std::byte> private_data;  ///< Private data of all set-up messages of this side.
  std::uint64_t remote_guid = 0;        ///< CA GUID; active side: known from the REP on.
  std::uint64_t tid = 0;                ///< Transaction ID of the REQ.
  Duration timeout{};  ///< The peer answers in this time, packet lifetimes of both ways included.
  TimePoint due = TimePoint::max();
  fabric::MadAddress to{};
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  State state = State::kReqSent;
  bool passive = false;
  bool counted = false;        ///< The PortLimiter counts it.
  std::uint8_t lifetime = 0;   ///< Time code.
  std::uint8_t ack_delay = 0;  ///< Passive side: that of its REP; time code.
  std::uint8_t max_retries = 0;
  std::uint8_t retries_left = 0;
};
/// An idle connection takes 336 octets, table entries and 8 octets of private data included.
static_assert(sizeof(Connection) <= 128);

/// Owns the connections. A reference stays valid until its connection is erased.
class ConnectionTable {
 public:
  explicit ConnectionTable(std::uint64_t seed) : ids_{seed} {}

  /// Adds a connection with a local ID that no other has.
  Connection& add();
  void erase(Connection& c);
  [[nodiscard]] Connection* find(Handle id);
  [[nodiscard]] const Connection* find(Handle id) const;
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] const std::map<Handle, Connection>& all() const { return all_; }

  void set_due(Connection& c, TimePoint when);
  [[nodiscard]] std::optional<TimePoint> next_due() const;
  /// Returns the connection with the earliest timer that has expired, or null.
  [[nodiscard]] Connection* due(TimePoint now);

  /// Lookups by the peer's names: CA GUID and its communication ID, or its QPN. The CA GUID is the
  /// word of the peer alone, so that connections of other ports are not found by it.
  [[nodiscard]] Connection* by_remote_id(const fabric::MadAddress& port, std::uint64_t guid,
                                         std::uint32_t id);
  [[nodiscard]] Connection* by_remote_qpn(const fabric::MadAddress& port, std::uint64_t guid,
                                          std::uint32_t qpn);
  /// From here on lookups find the connection by `to`, remote_guid, and remote_id or remote_qpn.
  void index(const Connection& c);
  /// Removes the QPN from the lookup: the peer may use its queue pair in another connection.
  void forget_qpn(const Connection& c);

  /// Precondition: the connection has an exchange. It belongs to this crowd from here on.
  void join(Connection& c, Crowd crowd);
  void leave_crowd(Connection& c);
  [[nodiscard]] std::size_t size(Crowd crowd) const {
    return crowds_[static_cast<std::size_t>(crowd)].size();
  }
  /// Returns null if there is none.
  [[nodiscard]] Connection* oldest(Crowd crowd);

 private:
  /// LID or GID of the port, CA GUID, ID or QPN.
  using Peer = std::tuple<std::uint16_t, wire::Gid, std::uint64_t, std::uint32_t>;
  [[nodiscard]] static Peer key_of(const fabric::MadAddress& port, std::uint64_t guid,
                                   std::uint32_t number) {
    return {port.gid.is_zero() ? port.lid : std::uint16_t{0}, port.gid, guid, number};
  }
  void forget_id(const Connection& c);

  IdSource ids_;
  std::map<Handle, Connection> all_;  ///< Ordered, so that runs with one seed are identical.
  std::set<std::pair<TimePoint, Handle>> due_;
  std::map<Peer, Handle> by_id_;
  std::map<Peer, Handle> by_qpn_;
  std::array<std::map<std::uint64_t, Handle>, static_cast<std::size_t>(Crowd::kCount)> crowds_;
  std::uint64_t next_serial_ = 1;
};

}  // namespace ipoib::cm
