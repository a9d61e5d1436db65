// SPDX-License-Identifier: BSD-3-Clause
// Connected mode of one IPoIB link: keeps its connections, and decides when to request, accept and
// close them. It stands between the neighbour cache and the UD paths: a neighbour is described as
// reached by its connection while one may be sent on, by UD otherwise.
//
// A link with several UD queue pairs, each of another worker, accepts requests at the service ID of
// each, and requests from the first one. Peers with connected mode know the first one only, except
// those that had no connected mode before. The queue pair is a part of the connection's name:
// requests of a peer at two of them concern two connections. The worker of a connection does not
// depend on its name: it is the one with the fewest connected queues. Source: draft-ietf-ipoib-connected-mode-03 §3,
// §7; linux-interop.md §4.
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
#include "lib/link/interface.h"
#include "lib/link/ipoib/connected/ack_timeouts.h"
#include "lib/link/ipoib/connected/connection_types.h"
#include "lib/link/ipoib/paths/path_table.h"
#include "lib/link/jitter.h"
#include "lib/link/log_limit.h"
#include "lib/link/medium.h"
#include "lib/link/time_order.h"

namespace ipoib::link {

/// The functions of the link that its connections call.
struct ConnectionSurroundings {
  /// Path to a peer's port; empty: not known (yet).
  std::function<std::optional<PathTable::ReadyPath>(const wire::Gid&)> path_to;
  /// Asks for a path to the port that differs from `in_use` and has this MTU (code) or a larger one,
  /// and passes it to the handler later, or none. False: there can be none, and the handler is not
  /// called.
  using SecondPath = std::function<void(const std::optional<PathTable::ReadyPath>&, TimePoint now)>;
  std::function<bool(const wire::Gid&, const fabric::AhAttr& in_use, std::uint8_t least_mtu,
                     SecondPath, TimePoint now)>
      second_path_to;
  /// PathTable::is_answered()
  std::function<bool(const wire::Gid&, TimePoint since, TimePoint now)> is_answered;
  /// The last time a packet was sent to the neighbour.
  std::function<TimePoint(const wire::IpAddr&)> last_used;
  /// Number of queue pairs over whose workers new connections are spread.
  std::function<unsigned()> queues;
  /// The result of describe() for the neighbour has changed.
  std::function<void(const wire::IpAddr&, TimePoint)> changed;
};

/// Management lcore only. `ud`, `actions` and `manager` must outlive it.
class Connections final : public NeighbourPaths, private cm::Consumer {
 public:
  Connections(ConnectionConfig config, std::uint16_t pkey, NeighbourPaths& ud,
              ConnectionActions& actions, cm::Manager& manager, ConnectionSurroundings around,
              std::uint64_t seed);
  ~Connections() override;

  /// Flags octet of the link's address (draft-ietf-ipoib-connected-mode-03 §3.1).
  [[nodiscard]] std::uint8_t flags() const;
  /// The link is up with addresses `own`, one for each queue pair; QPN 0: it has no hardware.
  /// Listens, and requests connections from here on. Errors: kExists, another link of the port has
  /// one of the queue pair numbers.
  Status start(std::vector<wire::LinkAddr> own, const fabric::PortAttr& port, TimePoint now);
  /// The link is down: closes every connection and accepts none.
  void stop(TimePoint now);

  /// Largest IP packet that a connection may carry, from the configuration.
  [[nodiscard]] unsigned max_mtu() const {
    return config_.receive_mtu - unsigned{sizeof(wire::IpoibHdr)};
  }
  /// Limits the MTU of describe() from here on. Users are not notified.
  void limit_mtu(std::uint16_t mtu) { max_mtu_ = mtu; }
  /// Errors: kNotFound.
  Status close(cm::Handle handle, TimePoint now);
  /// The path to the peer may have changed. Closes connections to the port that the peer has left,
  /// and sends on one that the peer opened, if the path now leads to the peer's port.
  void on_path(const wire::HwAddr& peer, TimePoint now);
  /// An event of one of the link's queues.
  void on_queue_event(const fabric::QueueEvent& event, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// Connections of any state, except ended ones that are still remembered; the oldest first.
  [[nodiscard]] std::vector<ConnectionInfo> list(TimePoint now) const;
  [[nodiscard]] std::size_t size() const { return open_; }
  /// True if the address is that of a peer with which connections are possible.
  [[nodiscard]] bool is_able(const wire::LinkAddr& peer) const {
    return transport_with(peer.flags).has_value();
  }
  /// True if an interface of the port is such a peer, or has a connection.
  [[nodiscard]] bool may_have(const wire::Gid& port) const;
  /// Number of the queue pair whose worker has the connection that packets to the peer use; empty:
  /// they use none.
  [[nodiscard]] std::optional<unsigned> served_by(const wire::HwAddr& peer) const;
  /// Shares of their time in which the workers of the queue pairs were busy. Those that are short of
  /// time get no new connections while others are not.
  void set_busy(std::vector<double> shares) { busy_ = std::move(shares); }
  /// Queues that the device still has, including those of ended connections.
  [[nodiscard]] std::size_t queues() const { return by_qpn_.size(); }
  [[nodiscard]] const ConnectionCounters& counters() const { return counters_; }

  // NeighbourPaths: passed to those of UD; also records the users of each peer.
  PathState acquire(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now) override;
  void asked_for(const wire::HwAddr& hw) override { ud_.asked_for(hw); }
  void moved(const wire::IpAddr& user, const wire::HwAddr& from, const wire::HwAddr& to,
             TimePoint now) override;
  void release(const wire::IpAddr& user, const wire::HwAddr& hw) override;
  void refresh(const wire::HwAddr& hw, TimePoint now) override { ud_.refresh(hw, now); }
  void answered(const wire::HwAddr& hw, TimePoint now) override { ud_.answered(hw, now); }
  [[nodiscard]] PathState state(const wire::HwAddr& hw) const override { return ud_.state(hw); }
  [[nodiscard]] table::NeighbourMode mode() const override { return ud_.mode(); }
  void describe(const wire::HwAddr& hw, table::Neighbour& out) const override;
  void describe(const wire::HwAddr& hw, NeighbourInfo& out) const override;

 private:
  /// Number of the UD queue pair that requests of this side name.
  static constexpr unsigned kRequestsFrom = 0;
  /// Packets to a peer that takes less stay on UD. Source: draft-ietf-ipoib-connected-mode-03 §5.0,
  /// RFC 8200 §5.
  static constexpr std::uint32_t kLeastMtu = wire::kMinIpv6Mtu;
  /// Interval of checks whether packets are sent to a peer without a connection.
  static constexpr Duration kLook = std::chrono::seconds(1);
  /// Interval of checks whether a silent UC peer still knows its connection: packets to a peer that
  /// has restarted are lost without notice.
  static constexpr Duration kSilence = std::chrono::seconds(3);
  /// A peer may have one alternate path loaded in this time: each is a command to the device.
  static constexpr Duration kLoads = std::chrono::seconds(1);
  /// Least interval between attempts to get an alternate path; it doubles after each one, so many
  /// times at most.
  static constexpr Duration kSeekInterval = std::chrono::minutes(1);
  static constexpr unsigned kSeekDoublings = 6;
  /// Interval of checks whether the path works to which a connection has migrated.
  static constexpr Duration kSettleInterval = std::chrono::milliseconds(100);
  static constexpr Duration kLogInterval = std::chrono::seconds(1);

  /// An interface of the fabric. Its flags octet may change and is not part of the key.
  struct PeerKey {
    wire::Gid gid;
    std::uint32_t qpn = 0;
    friend auto operator<=>(const PeerKey&, const PeerKey&) = default;
  };
  struct Peer {
    wire::ServiceIdForm form;  ///< Form of the service ID in the next request.
    bool linux_habit = false;  ///< It requested with Linux's service ID, or answered to it.
    bool lost_users = false;   ///< Its last user is gone; its connections will be closed.
    unsigned failures = 0;     ///< Consecutive failures.
    TimePoint retry_at{};
    cm::Handle sending = cm::kNoHandle;            ///< Established, and may be sent on.
    std::map<wire::IpAddr, std::uint8_t> users{};  ///< With the flags octet of each.
    std::vector<cm::Handle> handles{};             ///< Its connections, in any state.
    TimePoint wake = kNever;                       ///< Position in the order of timers.
  };
  struct Connection {
    PeerKey peer;
    fabric::ConnectedQueue* queue = nullptr;
    unsigned queue_pair = kRequestsFrom;  ///< Number of the UD queue pair in its handshake.
    unsigned served_by = 0;               ///< Number of the UD queue pair whose worker has it.
    fabric::MadAddress port{};            ///< The peer's, according to the messages' headers.
    cm::PortName port_name{};             ///< That of `port`, set by add().
    bool active = false;
    bool up = false;
    bool over = false;
    bool still_heard = false;  ///< Over; its queue receives until the time-wait ends.
    std::uint32_t psn = 0;     ///< The first PSN that this side expects.
    std::uint32_t peer_qpn = 0;
    std::uint32_t peer_mtu = 0;  ///< The largest message that the peer accepts.
    TimePoint since{};
    TimePoint active_at{};   ///< The last time a packet was seen on it.
    TimePoint use = kNever;  ///< Position in the order of `uses_`: active_at while it is up.
    TimePoint heard_at{};    ///< The last time a packet was received on it.
    TimePoint kept_at{};     ///< A further request was refused for it, the first since heard_at.
    // Message counts at the last check.
    std::uint64_t tx_messages = 0;
    std::uint64_t rx_messages = 0;
    std::uint64_t serial = 0;       ///< Key in half_open_; 0: not there.
    fabric::ReadyToSend to_send{};  ///< Passive side: applied when it is established.
    fabric::AhAttr path{};          ///< Path in use.
    /// Path that will be loaded when the peer agrees or is ready.
    std::optional<fabric::AlternatePath> asked{};
    std::optional<fabric::AhAttr> loaded{};  ///< Alternate path of the queue pair.
    std::uint8_t peer_delay = 0;  ///< Active side: the ACK delay in the peer's REP, a time code.
    std::uint8_t path_mtu = 0;    ///< Code, that of the queue pair: each of its paths must have it.
    bool seeking = false;         ///< The SA is asked for an alternate path.
    unsigned seeks = 0;           ///< In vain, since the last one was loaded.
    TimePoint seek_at{};          ///< The next attempt, without an alternate path.
    TimePoint next_load{};        ///< LAPs before it load no other path.
    TimePoint settles = kNever;   ///< Position in the order of `settling_`.
    TimePoint migrated_at{};      ///< The last time.
    /// Message counts at the first check after that time: what is later is on the new path.
    struct Before {
      std::uint64_t sent = 0;
      std::uint64_t received = 0;
    };
    std::optional<Before> before{};
  };

  // cm::Consumer.
  [[nodiscard]] cm::Admission admit(const wire::CmReq& req, const fabric::MadAddress& from,
                                    std::optional<TimePoint> waits_since, TimePoint now) override;
  void on_request(cm::Handle handle, const wire::CmReq& req, const fabric::MadAddress& from,
                  TimePoint now) override;
  void on_reply(cm::Handle handle, const wire::CmRep& rep, TimePoint now) override;
  void on_established(cm::Handle handle, TimePoint now) override;
  void on_closed(cm::Handle handle, const cm::Closed& closed, TimePoint now) override;
  void on_released(cm::Handle handle, TimePoint now) override;
  wire::ApStatus on_alternate(cm::Handle handle, const wire::CmLap& lap, TimePoint now) override;
  void on_alternate_answer(cm::Handle handle, std::optional<wire::ApStatus> status,
                           TimePoint now) override;

  [[nodiscard]] static PeerKey key_of(const wire::HwAddr& hw) {
    const auto addr = hw.link_addr();
    return {addr.gid, addr.qpn.host()};
  }
  [[nodiscard]] static wire::LinkAddr address_of(const PeerKey& key);
  Peer& peer(const PeerKey& key);
  void forget_if_idle(const PeerKey& key);
  void schedule(const PeerKey& key, TimePoint when);
  [[nodiscard]] Status listen();
  void unlisten();
  /// Number of the link's queue pair at which the service ID is offered.
  [[nodiscard]] unsigned queue_pair_of(wire::Be64 service_id) const;
  [[nodiscard]] std::optional<fabric::Transport> transport_with(std::uint8_t flags) const;
  /// Flags octet of a peer: all that one of its addresses offers.
  [[nodiscard]] static std::uint8_t flags_of(const Peer& p);
  [[nodiscard]] static std::vector<wire::IpAddr> users_of(const Peer& p);
  /// The queue of a new connection.
  struct NewQueue {
    fabric::ConnectedQueue* queue;
    unsigned served_by;
  };
  /// Creates it for the worker with the fewest, or for another one if that has no receive queue.
  Result<NewQueue> create_queue(fabric::Transport transport);
  [[nodiscard]] std::vector<unsigned> workers_by_rank() const;
  [[nodiscard]] bool per_direction(const Peer& p) const;

  void add_user(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now);
  void remove_user(const wire::IpAddr& user, const wire::HwAddr& hw);

  // Requesting.
  void look_at(const PeerKey& key, TimePoint now);
  [[nodiscard]] bool wanted(const Peer& p, TimePoint now) const;
  [[nodiscard]] bool has_one_to_send(const Peer& p) const;
  Status ask(const PeerKey& key, Peer& p, fabric::Transport transport, TimePoint now);
  void back_off(const PeerKey& key, TimePoint now);
  [[nodiscard]] bool try_other_service(Peer& p, const cm::Closed& closed);

  // Answering.
  /// The reason to refuse a request, and its counter.
  struct Fault {
    wire::RejReason reason;
    std::uint64_t ConnectionCounters::*counter;
  };
  [[nodiscard]] std::optional<Fault> fault_of(const wire::CmReq& req,
                                              const fabric::MadAddress& from) const;
  /// True if the path to the GID leads to this port; empty: no path is known.
  [[nodiscard]] std::optional<bool> leads_to(const wire::Gid& gid,
                                             const fabric::MadAddress& port) const;
  /// True if packets to the peer may be sent on the connection.
  [[nodiscard]] bool is_to_send(const Peer& p, const Connection& c) const;
  [[nodiscard]] bool is_kept(cm::Handle handle, Connection& c, TimePoint now);
  [[nodiscard]] bool keeps_first(cm::Handle handle, const PeerKey& key, unsigned queue_pair,
                                 TimePoint now);
  [[nodiscard]] bool give_way(cm::Handle handle, const PeerKey& key, unsigned queue_pair,
                              TimePoint now);
  Status take(cm::Handle handle, const wire::CmReq& req, unsigned queue_pair,
              const fabric::MadAddress& from, TimePoint now);

  // Alternate paths, in connection_alternates.cc.
  /// The connection if it is up; else null.
  [[nodiscard]] Connection* up_connection(cm::Handle handle);
  void seek_alternate(cm::Handle handle, Connection& c, TimePoint now);
  void on_second_path(cm::Handle handle, const std::optional<PathTable::ReadyPath>& path,
                      TimePoint now);
  Status load_alternate(Connection& c, const fabric::AlternatePath& alternate);
  void on_migrated(cm::Handle handle, Connection& c, const fabric::AhAttr& path, TimePoint now);
  [[nodiscard]] bool new_path_works(Connection& c) const;
  void settle(cm::Handle handle, TimePoint now);
  /// The fault of an alternate path that the peer names: one between other ports than those of the
  /// connection.
  [[nodiscard]] wire::ApStatus fault_of_alternate(const Connection& c,
                                                  const wire::CmPath& path) const;

  // Room, in connection_room.cc.
  [[nodiscard]] cm::PortName name_of(const fabric::MadAddress& port) const;
  /// True if one more connection may be made. Ended ones keep their queue pairs for a while, and are
  /// limited too; no other connection can make room for that.
  [[nodiscard]] bool may_add() const { return all_.size() < 2 * config_.max_connections; }
  [[nodiscard]] bool has_room(const fabric::MadAddress& port, bool displaces, TimePoint now);
  [[nodiscard]] bool drop_half_open(TimePoint now);
  [[nodiscard]] std::optional<cm::Handle> longest_unused(TimePoint now);
  [[nodiscard]] std::optional<cm::Handle> one_too_many(const cm::PortName& port) const;
  struct Use {
    bool sent = false;
    bool heard = false;
  };
  /// Returns the use of the connection since the last call.
  Use note_use(cm::Handle handle, Connection& c, TimePoint now);
  void count_port(const Connection& c, bool more);

  Connection& add(cm::Handle handle, const Connection& connection, TimePoint now);
  void connection_up(Connection& c, TimePoint now);
  void leave_half_open(Connection& c);
  /// Closes it from this side.
  void close(cm::Handle handle, Connection& c, ConnectionEnd why, TimePoint now);
  /// Handles its end.
  [[nodiscard]] static bool is_still_heard(const Connection& c, ConnectionEnd why);
  void finish(Connection& c, ConnectionEnd why, TimePoint now);
  /// Selects the connection for packets to the peer again, and notifies its users of a change.
  void choose(const PeerKey& key, TimePoint now);
  void check_use(TimePoint now);
  [[nodiscard]] Duration use_period() const;
  [[nodiscard]] std::uint32_t connection_mtu(const Connection& c) const;
  [[nodiscard]] std::uint32_t random_psn() {
    return static_cast<std::uint32_t>(random_()) & 0xff'ffff;
  }
  [[nodiscard]] std::vector<std::byte> private_data(unsigned queue_pair) const;
  [[nodiscard]] std::uint8_t path_mtu(std::uint8_t code) const;

  ConnectionConfig config_;
  std::uint16_t pkey_;
  NeighbourPaths& ud_;
  ConnectionActions& actions_;
  cm::Manager& manager_;
  ConnectionSurroundings around_;
  std::mt19937_64 random_;
  Jitter jitter_;
  bool started_ = false;
  std::uint16_t max_mtu_ = 65'535;
  std::vector<wire::LinkAddr> own_addresses_;  ///< Indexed by queue pair.
  std::vector<std::uint64_t> listening_;       ///< Service IDs.
  std::vector<double> busy_;                   ///< set_busy()
  fabric::PortAttr port_{};
  std::map<PeerKey, Peer> peers_;
  std::map<cm::Handle, Connection> all_;
  std::map<std::uint32_t, cm::Handle> by_qpn_;
  std::map<std::uint64_t, cm::Handle> half_open_;  ///< Accepted, but the peer is not ready; by age.
  std::uint64_t next_serial_ = 1;
  std::size_t open_ = 0;  ///< Number of connections that are not over.
  std::map<cm::PortName, std::size_t> open_of_port_;
  TimeOrder<cm::Handle> uses_;  ///< Connections that are up, the longest unused first.
  TimeOrder<PeerKey> peer_timers_;
  TimeOrder<cm::Handle> settling_;  ///< Connections whose new path is not known to work.
  TimePoint use_check_ = kNever;
  TimePoint now_{};  ///< Latest time seen, for functions without a time argument.
  LogLimit load_log_{kLogInterval};
  LogLimit migration_log_{kLogInterval};
  ConnectionCounters counters_;
};

}  // namespace ipoib::link
