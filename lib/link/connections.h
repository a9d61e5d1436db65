// SPDX-License-Identifier: BSD-3-Clause
// Connected mode of one IPoIB link: with which peers there are connections, when they are asked
// for, taken and closed. Stands between the neighbour cache and the paths of UD: a neighbour is
// described as reached by its connection while there is one that may be sent on, by UD otherwise.
// Source: draft-ietf-ipoib-connected-mode-03 §3, §7; linux-interop.md §4.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cm/manager.h"
#include "lib/link/connection_types.h"
#include "lib/link/interface.h"
#include "lib/link/jitter.h"
#include "lib/link/medium.h"
#include "lib/link/path_table.h"
#include "lib/link/time_order.h"

namespace ipoib::link {

/// What the connections of a link have around them.
struct ConnectionSurroundings {
  /// Where a peer's port is; nothing: not known (yet).
  std::function<std::optional<PathTable::Known>(const wire::Gid&)> path_to;
  /// When a packet last left for the neighbour.
  std::function<TimePoint(const wire::IpAddr&)> last_used;
  /// What describe() says of the neighbour has changed.
  std::function<void(const wire::IpAddr&, TimePoint)> changed;
};

/// Management lcore only. `ud`, `actions` and `manager` must outlive it.
class Connections final : public NeighbourPaths<wire::LinkAddr>, private cm::Consumer {
 public:
  Connections(ConnectionConfig config, std::uint16_t pkey, NeighbourPaths<wire::LinkAddr>& ud,
              ConnectionActions& actions, cm::Manager& manager, ConnectionSurroundings around,
              std::uint64_t seed);
  ~Connections() override;

  /// Flags octet of the link's address (draft §3.1).
  [[nodiscard]] std::uint8_t flags() const;
  /// The link is up as `own`: listens, and asks from here on. Errors: kExists, another link of the
  /// port has this queue pair number.
  Status start(const wire::LinkAddr& own, const fabric::PortAttr& port, TimePoint now);
  /// The link is down: every connection is closed, nothing is taken any more.
  void stop(TimePoint now);

  /// Largest IP packet that a connection may carry: as configured.
  [[nodiscard]] unsigned most_mtu() const {
    return config_.receive_mtu - unsigned{sizeof(wire::IpoibHdr)};
  }
  /// describe() says no more than this from here on. Nobody is told.
  void limit_mtu(std::uint16_t mtu) { max_mtu_ = mtu; }
  /// Errors: kNotFound.
  Status close(cm::Handle handle, TimePoint now);
  /// News of one of the link's queues.
  void on_queue_event(const fabric::QueueEvent& event, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// Those of any state, the ones that are over but not yet forgotten left out.
  [[nodiscard]] std::vector<ConnectionInfo> list(TimePoint now) const;
  [[nodiscard]] std::size_t size() const { return open_; }
  /// Queues that are the device's still, those of connections that are over included.
  [[nodiscard]] std::size_t queues() const { return by_qpn_.size(); }
  [[nodiscard]] const ConnectionCounters& counters() const { return counters_; }

  // NeighbourPaths: those of UD, and who uses which peer.
  PathState acquire(const wire::IpAddr& user, const wire::LinkAddr& hw, TimePoint now) override;
  void moved(const wire::IpAddr& user, const wire::LinkAddr& from, const wire::LinkAddr& to,
             TimePoint now) override;
  void release(const wire::IpAddr& user, const wire::LinkAddr& hw) override;
  void refresh(const wire::LinkAddr& hw, TimePoint now) override { ud_.refresh(hw, now); }
  [[nodiscard]] PathState state(const wire::LinkAddr& hw) const override { return ud_.state(hw); }
  [[nodiscard]] table::NeighbourMode mode() const override { return ud_.mode(); }
  void describe(const wire::LinkAddr& hw, table::Neighbour& out) const override;
  void describe(const wire::LinkAddr& hw, NeighbourInfo& out) const override;

 private:
  /// How often it is asked whether packets go to a peer without a connection.
  static constexpr Duration kLook = std::chrono::seconds(1);
  /// And whether a UC peer that says nothing still knows of its connection: what is sent to one
  /// that has restarted is lost without a word.
  static constexpr Duration kSilence = std::chrono::seconds(3);

  /// An interface of the fabric, whatever its flags octet says at the time.
  struct PeerKey {
    wire::Gid gid;
    std::uint32_t qpn = 0;
    friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
  };
  struct Peer {
    std::uint8_t flags = 0;
    wire::ServiceIdForm form;  ///< Of the service ID that is asked next.
    bool linux_habit = false;  ///< It asked with Linux's service ID, or answered to it.
    bool other_form_tried = false;
    bool lost_users = false;  ///< The last one went; its connections are to follow.
    unsigned failures = 0;    ///< In a row.
    TimePoint retry_at{};
    cm::Handle sending = cm::kNoHandle;  ///< Established, and may be sent on.
    std::set<wire::IpAddr> users{};
    std::vector<cm::Handle> handles{};  ///< Its connections, of any state.
    TimePoint wake = kNever;            ///< Place in the order of timers.
  };
  struct Connection {
    PeerKey peer;
    fabric::ConnectedQueue* queue = nullptr;
    bool active = false;
    bool up = false;
    bool over = false;
    std::uint32_t psn = 0;  ///< The first this side expects.
    std::uint32_t peer_qpn = 0;
    std::uint32_t peer_mtu = 0;  ///< The largest message it takes.
    TimePoint since{};
    TimePoint active_at{};  ///< A packet was last seen on it.
    // Messages seen by then.
    std::uint64_t tx_messages = 0;
    std::uint64_t rx_messages = 0;
    std::uint64_t serial = 0;       ///< Of half_open_; 0: not there.
    fabric::ReadyToSend to_send{};  ///< Passive side: for when it is established.
  };

  // cm::Consumer.
  void on_request(cm::Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
                  TimePoint now) override;
  void on_reply(cm::Handle handle, const wire::CmRep& rep, TimePoint now) override;
  void on_established(cm::Handle handle, TimePoint now) override;
  void on_closed(cm::Handle handle, const cm::Closed& closed, TimePoint now) override;
  void on_released(cm::Handle handle, TimePoint now) override;

  [[nodiscard]] static PeerKey key_of(const wire::LinkAddr& hw) { return {hw.gid, hw.qpn.host()}; }
  [[nodiscard]] static wire::LinkAddr address_of(const PeerKey& key);
  Peer& peer(const PeerKey& key);
  void forget_if_idle(const PeerKey& key);
  void schedule(const PeerKey& key, TimePoint when);
  [[nodiscard]] std::optional<fabric::Transport> transport_with(const Peer& p) const;
  [[nodiscard]] bool per_direction(const Peer& p) const;

  void add_user(const wire::IpAddr& user, const wire::LinkAddr& hw, TimePoint now);
  void remove_user(const wire::IpAddr& user, const wire::LinkAddr& hw);

  // Asking.
  void look_at(const PeerKey& key, TimePoint now);
  [[nodiscard]] bool wanted(const Peer& p, TimePoint now) const;
  [[nodiscard]] bool has_one_to_send(const Peer& p) const;
  Status ask(const PeerKey& key, Peer& p, fabric::Transport transport, TimePoint now);
  void back_off(const PeerKey& key, TimePoint now);
  [[nodiscard]] bool try_other_service(Peer& p, const cm::Closed& closed);

  // Answering.
  [[nodiscard]] wire::RejReason fault_of(const wire::CmReq& req, const fabric::MadAddress& from,
                                         TimePoint now);
  [[nodiscard]] bool is_elsewhere(const PeerKey& key, const fabric::MadAddress& from) const;
  [[nodiscard]] bool has_room(TimePoint now);
  [[nodiscard]] bool give_way(cm::Handle handle, const PeerKey& key, TimePoint now);
  Status take(cm::Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
              TimePoint now);

  Connection& add(cm::Handle handle, const PeerKey& key, fabric::ConnectedQueue& queue, bool active,
                  TimePoint now);
  void went_up(Connection& c, TimePoint now);
  void leave_half_open(Connection& c);
  /// Ends it of this side's own accord.
  void close(cm::Handle handle, Connection& c, ConnectionEnd why, TimePoint now);
  /// It has ended.
  void finish(Connection& c, ConnectionEnd why, TimePoint now);
  /// Chooses anew by which connection packets go to the peer, and tells its users.
  void choose(const PeerKey& key, TimePoint now);
  void check_use(TimePoint now);
  [[nodiscard]] Duration use_period() const;
  [[nodiscard]] std::uint32_t connection_mtu(const Connection& c) const;
  [[nodiscard]] std::uint32_t random_psn() {
    return static_cast<std::uint32_t>(random_()) & 0xff'ffff;
  }
  [[nodiscard]] std::vector<std::byte> private_data() const;
  [[nodiscard]] std::uint8_t path_mtu(std::uint8_t code) const;

  ConnectionConfig config_;
  std::uint16_t pkey_;
  NeighbourPaths<wire::LinkAddr>& ud_;
  ConnectionActions& actions_;
  cm::Manager& manager_;
  ConnectionSurroundings around_;
  std::mt19937_64 random_;
  Jitter jitter_;
  bool started_ = false;
  std::uint16_t max_mtu_ = 65'535;
  wire::LinkAddr own_{};
  fabric::PortAttr port_{};
  std::map<PeerKey, Peer> peers_;
  std::map<cm::Handle, Connection> all_;
  std::map<std::uint32_t, cm::Handle> by_qpn_;
  std::map<std::uint64_t, cm::Handle> half_open_;  ///< Accepted, and the peer not ready; by age.
  std::uint64_t next_serial_ = 1;
  std::size_t open_ = 0;  ///< Not over.
  TimeOrder<PeerKey> peer_timers_;
  TimePoint use_check_ = kNever;
  TimePoint now_{};  ///< Latest time seen, for calls that bring none.
  ConnectionCounters counters_;
};

}  // namespace ipoib::link
