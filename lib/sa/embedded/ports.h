// SPDX-License-Identifier: BSD-3-Clause
// The ports that an administrator without subnet discovery knows: those that sent it requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/wire/gid.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

struct Port {
  wire::Gid gid;
  std::uint16_t lid = 0;  ///< The base LID.
  /// P_Keys that the port named, without the membership bit: requests always have this bit set
  /// (RFC 4391 §4.1), so limited members cannot be recognised.
  std::set<std::uint16_t> partitions;
  TimePoint heard{};
  std::uint16_t former_lid = 0;  ///< LID before the last move; 0: never moved.
  TimePoint moved{};
  bool own = false;      ///< The administrator's port, which never moves.
  std::uint8_t mtu = 0;  ///< Code of the MTU in its PortInfo at this LID; 0: not known.
  TimePoint doubted{};   ///< The last event of an MTU in doubt.

  /// True unless the port is known to carry only smaller packets than a group or path of this code.
  [[nodiscard]] bool carries(std::uint8_t mtu_code) const { return mtu == 0 || mtu_code <= mtu; }
};

/// A port was learned, was lost, or moved (`lid`: the former LID if lost or moved); or its MTU may have
/// changed.
struct PortChange {
  enum class Kind { kInService, kOutOfService, kMoved, kMtuInDoubt } kind;
  wire::Gid gid;
  std::uint16_t lid = 0;
};

/// GIDs and base LIDs, one to one, because the software fabric has no alias GIDs. Each port has 2^lmc
/// LIDs, and is named by any of them.
class PortTable {
 public:
  /// Longest time that a request may be in transit.
  static constexpr Duration kMaxDelay = std::chrono::seconds(2);
  /// The shortest time between two events of one port's MTU in doubt.
  static constexpr Duration kDoubtInterval = std::chrono::seconds(5);

  PortTable(std::size_t max_ports, Duration silence, std::uint8_t lmc = 0)
      : max_ports_{max_ports}, silence_{silence}, lmc_{lmc} {}

  /// The LID without its path bits.
  [[nodiscard]] std::uint16_t base_of(std::uint16_t lid) const {
    return static_cast<std::uint16_t>(lid >> lmc_ << lmc_);
  }

  void add_own(const wire::Gid& gid, std::uint16_t lid);

  /// Checks that port `gid` may send from `lid`. kSaRequestInvalid: one of the two is the
  /// administrator's, or the LID is another port's. kSaNoResources: the table is full. kBusy: the
  /// port has just moved away from the LID, so the request was late. A GID may change its LID at
  /// once. A LID changes its port (a node restarted with another GUID) only if the old port is in
  /// no group (`holder_idle`) or has been silent, so that one request with a wrong PortGID does not
  /// take a live port down.
  [[nodiscard]] wire::MadStatus may_claim(const wire::Gid& gid, std::uint16_t lid, bool holder_idle,
                                          TimePoint now) const;
  /// Binds `gid` to `lid`; may_claim() must have returned kOk. Returns the port that lost its LID,
  /// if any.
  std::optional<wire::Gid> claim(const wire::Gid& gid, std::uint16_t lid, TimePoint now);

  /// Handles a packet or query from `lid` that names `gid` as its source, which may be a third party.
  /// Learns the pair if neither is known yet, refreshes it if they belong together. True if they do
  /// now. Adds no port to a table that is half full, so that ports that join find places. A pair may be
  /// forged, but lasts no longer than until the port joins, or another one does from the LID: a GID may
  /// claim another LID at once, and a port in no group loses its LID.
  bool hear(const wire::Gid& gid, std::uint16_t lid, TimePoint now);

  void add_partition(const wire::Gid& gid, std::uint16_t pkey);
  /// Takes the MTU code of a known port.
  void set_mtu(const wire::Gid& gid, std::uint8_t mtu);
  /// A known port behaves as if it had another MTU: causes an event, unless there was one recently.
  void doubt_mtu(const wire::Gid& gid, TimePoint now);

  [[nodiscard]] const Port* find(const wire::Gid& gid) const;
  [[nodiscard]] const Port* at(std::uint16_t lid) const;
  [[nodiscard]] const std::map<wire::Gid, Port>& all() const { return by_gid_; }

  /// Returns the events since the last call, in order; own ports cause none.
  [[nodiscard]] std::vector<PortChange> take_events() { return std::exchange(events_, {}); }

 private:
  std::size_t max_ports_;
  Duration silence_;
  std::uint8_t lmc_;
  std::map<wire::Gid, Port> by_gid_;
  std::map<std::uint16_t, wire::Gid> by_lid_;
  std::vector<PortChange> events_;
};

/// A P_Key without its membership bit.
[[nodiscard]] constexpr std::uint16_t partition_of(std::uint16_t pkey) noexcept {
  return pkey & 0x7fff;
}

/// Returns the partition of a path between two ports if the request names none: one that they
/// share, the default one before others.
[[nodiscard]] std::optional<std::uint16_t> shared_partition(const Port& a, const Port& b);

}  // namespace ipoib::sa
