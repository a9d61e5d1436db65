// SPDX-License-Identifier: BSD-3-Clause
// One connection as the manager keeps it, and the table of them: by local ID, by what peers call
// them, by what is due. Source of the rules: iba-wire.md §5.6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cm/types.h"

namespace ipoib::cm {

/// What only an exchange of messages needs: gone while the connection is established.
struct Exchange {
  wire::CmMad mad{};             ///< REQ, REP, REJ or DREQ, to repeat.
  TimePoint latest{};            ///< A set-up ends here, whatever the peer says.
  std::uint64_t serial = 0;      ///< Half-open: order of arrival; 0: it is not.
  bool has_alternate = false;    ///< Passive side: the REQ has an alternate path.
  std::uint8_t answer_time = 0;  ///< Time code: this side has so long to answer.
};

struct Connection {
  Handle id = kNoHandle;
  std::uint32_t remote_id = 0;
  Consumer* consumer = nullptr;  ///< None: nobody is told any more.
  std::unique_ptr<Exchange> exchange;
  std::vector<std::byte> private_data;  ///< Of every message of this side that sets up.
  std::uint64_t remote_guid = 0;        ///< CA GUID; active side: from the REP on.
  std::uint64_t tid = 0;                ///< Of the REQ.
  Duration timeout{};  ///< The peer answers in this time, the way there and back included.
  TimePoint due = TimePoint::max();
  fabric::MadAddress to{};
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  State state = State::kReqSent;
  bool passive = false;
  std::uint8_t lifetime = 0;  ///< Time code.
  std::uint8_t max_retries = 0;
  std::uint8_t retries_left = 0;
};
/// With its places in the table and 8 octets of private data an idle connection takes 336 octets.
static_assert(sizeof(Connection) <= 128);

/// Owns the connections. A reference stays good until its connection is erased.
class ConnectionTable {
 public:
  explicit ConnectionTable(Handle first) : next_{first} {}

  /// A new one, with a local ID that none has.
  Connection& add();
  void erase(Connection& c);
  [[nodiscard]] Connection* find(Handle id);
  [[nodiscard]] const Connection* find(Handle id) const;
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  [[nodiscard]] const std::map<Handle, Connection>& all() const { return all_; }

  void set_due(Connection& c, TimePoint when);
  [[nodiscard]] std::optional<TimePoint> next_due() const;
  /// The first whose time has come.
  [[nodiscard]] Connection* due(TimePoint now);

  /// A peer's name for a connection: CA GUID and its communication ID, or its QPN.
  [[nodiscard]] Connection* by_remote_id(std::uint64_t guid, std::uint32_t id);
  [[nodiscard]] Connection* by_remote_qpn(std::uint64_t guid, std::uint32_t qpn);
  /// From here on it is found by remote_guid and remote_id, remote_qpn.
  void index(const Connection& c);
  /// Its queue pair at the peer may be in another connection.
  void forget_qpn(const Connection& c);

  /// The connection, which has an exchange, counts as half-open.
  void set_half_open(Connection& c);
  void clear_half_open(Connection& c);
  [[nodiscard]] std::size_t half_open() const { return half_open_.size(); }
  [[nodiscard]] Connection* oldest_half_open();

 private:
  using Peer = std::pair<std::uint64_t, std::uint32_t>;
  void forget_id(const Connection& c);

  Handle next_;
  std::map<Handle, Connection> all_;  ///< Ordered: a seed gives one run.
  std::set<std::pair<TimePoint, Handle>> due_;
  std::map<Peer, Handle> by_id_;
  std::map<Peer, Handle> by_qpn_;
  std::map<std::uint64_t, Handle> half_open_;
  std::uint64_t next_serial_ = 1;
};

}  // namespace ipoib::cm
