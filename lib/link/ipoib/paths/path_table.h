// SPDX-License-Identifier: BSD-3-Clause
// Unicast paths of one IPoIB link: GID -> address handle, by PathRecord queries to the SA. One
// query per path serves all its users; answers are cached, negative ones too. Source: RFC 4391
// §9.1.2.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/base/rate_limiter.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/jitter.h"
#include "lib/link/log_limit.h"
#include "lib/link/medium.h"
#include "lib/link/path_checks.h"
#include "lib/link/time_order.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// The name of a path: the GID of a port, and the Q_Key of packets if the peer's address has one.
struct PathKey {
  wire::Gid gid;
  std::optional<std::uint32_t> qkey;

  // A conversion, because a GID alone names a path with the link's Q_Key.
  PathKey(const wire::Gid& of) : gid{of} {}
  PathKey(const wire::Gid& of, std::uint32_t with) : gid{of}, qkey{with} {}
  /// The Q_Key of a multicast group is that of the link.
  explicit PathKey(const wire::DatagramAddr& to) : gid{to.gid} {
    if (!gid.is_multicast()) qkey = to.qkey;
  }
  friend auto operator<=>(const PathKey&, const PathKey&) = default;
};
/// The Q_Key needs no key of its own: the paths to one port with one of their own are few.
struct PathKeyHash {
  KeyedHash of_gid;
  std::size_t operator()(const PathKey& key) const noexcept {
    return of_gid(key.gid) ^ key.qkey.value_or(0);
  }
};

struct PathConfig {
  std::string name;  ///< Name of the link, for the log.
  std::uint16_t pkey = wire::kDefaultPkey;
  Duration negative = std::chrono::seconds(3);
  wire::Encapsulation encapsulation = wire::Encapsulation::kTypeFirst;
  unsigned paths = 1;  ///< Largest number to one port; at most table::Neighbour::kMaxPaths.
};

/// Packet lifetime of a path that the SA has not described, a time code (4.096 us << code): 0.27 s.
inline constexpr std::uint8_t kUsualLifetime = 16;

/// The attributes of a handle for the path of a record. `port`: the source of the path. On InfiniBand
/// the record's SLID is one of its LIDs.
[[nodiscard]] fabric::AhAttr path_attr(const wire::PathRecord& record,
                                       const fabric::PortAttr& port);

class PathTable final : public NeighbourPaths {
 public:
  static constexpr std::size_t kMaxClaimed = 512;
  /// Called for every user of a path that became ready, changed or failed. May call back.
  using Listener = std::function<void(const wire::IpAddr& user, TimePoint now)>;

  /// Sends a message that the user answers. Returns false if it is not used since `since`.
  using Prober = std::function<bool(const wire::IpAddr& user, TimePoint since, TimePoint now)>;

  /// `prober`: checks several paths to one port; null: they are not checked.
  PathTable(PathConfig config, LinkActions& actions, sa::Client& sa, LinkCounters& counters,
            Listener listener, std::uint64_t seed, Prober prober = nullptr);
  ~PathTable() override;
  PathTable(const PathTable&) = delete;
  PathTable& operator=(const PathTable&) = delete;

  /// From here on the SA is queried and handles are made; until then every path is pending. Called
  /// again when the parameters change. `tclass`: Dialect::path_tclass(); `mtu`: MTU of the link,
  /// octets of IP; `qkey`: of the link, which needs no handle of its own.
  void resume(std::optional<std::uint8_t> tclass, std::uint16_t mtu, std::uint32_t qkey,
              TimePoint now);
  /// Sets the path without the SA, until unpin().
  void pin(const PathKey& key, const fabric::AhAttr& attr, TimePoint now);
  void unpin(const PathKey& key);
  /// The first of several; connections use this one.
  struct ReadyPath {
    fabric::AhAttr attr;
    std::uint8_t mtu_code = 0;  ///< 0: not known.
    std::uint8_t lifetime = kUsualLifetime;
  };
  /// The path if it is ready, else empty.
  [[nodiscard]] std::optional<ReadyPath> ready_path(const wire::Gid& gid) const;
  /// A host claims this GID, in a request that arrived at `since`. Returns true if the SA has answered
  /// since then, or the path needs no SA: ready_path() is what is known. Else the SA is queried, at a
  /// limited rate; a path without users is kept for this while there are calls, and a moment longer.
  /// Paths that only claims have made are limited to kMaxClaimed: the one whose answer is the oldest
  /// makes room. While that is a moment old or there is none, none is made, and false is returned.
  [[nodiscard]] bool is_answered(const wire::Gid& gid, TimePoint since, TimePoint now);
  /// The ports of this subnet to which paths are ready, by LID. Ports that share a LID are left out.
  [[nodiscard]] std::unordered_map<std::uint16_t, wire::Gid> ports() const;
  /// The addresses of the port; empty: no path to it is known.
  [[nodiscard]] std::set<wire::IpAddr> users_of(const wire::Gid& gid) const;
  /// Address handle of a ready path; kNoAh otherwise.
  [[nodiscard]] fabric::AhIndex ah(const wire::Gid& gid) const;
  /// Sends a frame from the IPoIB header on, at once or when the path is known. A frame whose path
  /// fails, or for which too many wait, counts as LinkCounters::arp_unsent or nd_unsent.
  void send(const wire::HwAddr& to, std::span<const std::byte> frame, TimePoint now);
  /// While messages with this source LID are answered: those of several paths that lead to it are
  /// preferred. A peer that checks its paths then learns of both directions. 0: none.
  void prefer_lid(std::uint16_t lid) { preferred_lid_ = lid; }
  /// A packet from the host arrived with this source LID. If the LID has changed, the host may have
  /// moved. Then the SA is queried, because the way back may differ from the way there.
  void heard(const wire::HwAddr& from, std::uint16_t slid, TimePoint now);
  /// Queries every path in use again, a few at a time: the fabric may have changed.
  void refresh_all(TimePoint now);
  /// Destroys every handle and returns to the state before resume(). Precondition: no handle is in
  /// use.
  void clear();

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::size_t size() const { return paths_.size(); }

  PathState acquire(const wire::IpAddr& user, const wire::HwAddr& hw, TimePoint now) override;
  void asked_for(const wire::HwAddr& hw) override;
  void release(const wire::IpAddr& user, const wire::HwAddr& hw) override;
  void refresh(const wire::HwAddr& hw, TimePoint now) override;
  void answered(const wire::HwAddr& hw, TimePoint now) override;
  [[nodiscard]] PathState state(const wire::HwAddr& hw) const override;
  [[nodiscard]] table::NeighbourMode mode() const override { return table::NeighbourMode::kUd; }
  void describe(const wire::HwAddr& hw, table::Neighbour& out) const override;
  void describe(const wire::HwAddr& hw, NeighbourInfo& out) const override;

 private:
  /// Minimum interval of queries for one path.
  static constexpr Duration kQueryInterval = std::chrono::seconds(1);

  struct Frame {
    std::uint32_t qpn;
    std::vector<std::byte> bytes;
  };
  struct Way {
    fabric::AhAttr attr;
    fabric::AhIndex ah = fabric::kNoAh;
    std::size_t place = 0;  ///< Its own one among Path::ways, while it is in use.
  };
  /// The way to a port, or several between different LIDs.
  struct Path {
    explicit Path(const PathKey& of) : key{of} {}
    PathKey key;
    PathState state = PathState::kPending;
    bool pinned = false;
    bool asked = false;    ///< See asked_for(); false without users.
    bool evicted = false;  ///< Fails at the next tick.
    bool claimed = false;  ///< See is_answered(); it has had no users yet.
    sa::TransactionId query = sa::kNoTransaction;
    fabric::AhAttr attr;                 ///< That of the first way, or of a pinned one to come.
    fabric::AhIndex ah = fabric::kNoAh;  ///< That of the first way.
    /// The different ways, those left included. They own the handles.
    std::vector<Way> known;
    /// One for each of PathConfig::paths values of the flow hash; fewer different ones have several
    /// places each. Empty: there is no handle.
    std::vector<Way> ways;
    PathChecks checks;          ///< They judge the known ways.
    wire::IpAddr checked_user;  ///< It gets the messages of checks.
    unsigned silences = 0;      ///< PathChecks::silences() at the last one.
    unsigned turn = 0;          ///< Way of the next message of the link itself.
    bool single = false;        ///< Its query is for one path.
    bool table_failed = false;  ///< That query follows one for a table.
    std::uint8_t mtu_code = 0;  ///< 0: not known.
    std::uint8_t lifetime = kUsualLifetime;
    std::uint16_t heard = 0;  ///< Source LID of the host's latest packet; 0: none yet.
    TimePoint queried_at{};   ///< Time of the last query.
    TimePoint answered_at = TimePoint::min();  ///< Time of the SA's last answer or silence.
    TimePoint refresh_at = kNever;             ///< Time of the next query.
    TimePoint unasked = kNever;                ///< Position in the order of `unasked_`.
    TimePoint settled = kNever;                ///< Position in the order of `settled_claims_`.
    TimePoint expires = kNever;                ///< Unused; erased at this time.
    TimePoint wake = kNever;                   ///< Position in the order of timers.
    std::set<wire::IpAddr> users;
    std::vector<Frame> waiting;

    [[nodiscard]] bool unused() const { return users.empty() && waiting.empty() && !pinned; }
    /// The attributes of its known ways.
    [[nodiscard]] std::vector<fabric::AhAttr> attrs() const;
  };

  [[nodiscard]] static PathKey key_of(const wire::HwAddr& hw) {
    return PathKey{hw.datagram_addr()};
  }
  [[nodiscard]] const Path* find(const PathKey& key) const;
  Path* find(const PathKey& key);
  Path& make(const PathKey& key);
  [[nodiscard]] Path* find_or_make(const PathKey& key);
  [[nodiscard]] bool make_room(const wire::Gid& gid);
  [[nodiscard]] Path* make_claimed(const wire::Gid& gid, TimePoint now);
  void end_claim(Path& p);
  void erase(Path& p);
  void schedule(Path& p);
  void query(Path& p, TimePoint now);
  void let_linger(Path& p, TimePoint now);
  void query_now(Path& p, TimePoint now);
  void submit(Path& p, TimePoint now);
  [[nodiscard]] bool wants_table(const Path& p, TimePoint now);
  [[nodiscard]] bool asks_for_one(Path& p, const sa::Outcome& outcome, TimePoint now);
  void retry_tables(TimePoint now);
  void tables_work(TimePoint now);
  void tables_fail(TimePoint now);
  void query_unasked(TimePoint now);
  void cancel_query(Path& p);
  void on_answer(const PathKey& key, const sa::Outcome& outcome, TimePoint now);
  [[nodiscard]] Status check(const wire::Gid& gid, const wire::PathRecord& record) const;
  [[nodiscard]] Result<std::vector<wire::PathRecord>> accept(const wire::Gid& gid,
                                                             const sa::Reply& reply, TimePoint now);
  void log_refused(const wire::Gid& gid, const std::string& why, TimePoint now);
  Status take_over(Path& p, const std::vector<wire::PathRecord>& records, TimePoint now);
  void report_small_mtu(const Path& p, TimePoint now);
  void report_small_mtus(TimePoint now);
  [[nodiscard]] bool on_one_port(std::uint16_t lid, std::uint16_t other) const;
  Status apply(Path& p, std::vector<fabric::AhAttr> attrs, std::uint8_t mtu_code, TimePoint now);
  [[nodiscard]] Result<std::vector<Way>> make_ways(const std::vector<Way>& old,
                                                   const std::vector<fabric::AhAttr>& attrs);
  [[nodiscard]] std::vector<Way> places_of(const std::vector<Way>& used) const;
  [[nodiscard]] fabric::AhIndex own_way(Path& p) const;
  void check_ways(Path& p, TimePoint now);
  void log_left(const Path& p, const std::vector<Way>& used, TimePoint now);
  [[nodiscard]] bool send_check(Path& p, TimePoint now);
  void destroy_unused(const std::vector<Way>& ways, const std::vector<Way>& used);
  void renew_handles(TimePoint now);
  void on_failure(Path& p, const std::string& why, TimePoint now);
  void apply_pinned(Path& p, const fabric::AhAttr& attr, TimePoint now);
  void fail(Path& p, TimePoint now);
  void notify(const Path& p, TimePoint now);
  void flush_waiting(Path& p);
  void drop_waiting(Path& p);
  void count_unsent(std::span<const std::byte> frame);

  PathConfig config_;
  LinkActions& actions_;
  sa::Client& sa_;
  LinkCounters& counters_;
  Listener listener_;
  Prober prober_;
  Jitter jitter_;
  bool operational_ = false;
  std::optional<std::uint8_t> tclass_;
  std::uint16_t link_mtu_ = 0;
  std::uint32_t link_qkey_ = 0;
  std::size_t queries_ = 0;
  std::size_t frames_waiting_ = 0;
  TimePoint now_{};  ///< Latest time seen, for functions without a time argument.
  std::unordered_map<PathKey, Path, PathKeyHash> paths_;
  /// Q_Keys of the paths to each port, oldest first; none for those without a Q_Key.
  std::unordered_map<wire::Gid, std::vector<std::uint32_t>, KeyedHash> qkeys_;
  TimeOrder<PathKey> timers_;
  TimeOrder<PathKey> unasked_;  ///< Paths to query of which only other hosts have spoken.
  RateLimiter unasked_limit_;
  std::size_t claimed_ = 0;            ///< Number of claimed paths.
  TimeOrder<PathKey> settled_claims_;  ///< The answered ones among them.
  RateLimiter checks_limit_;
  LogLimit records_log_, mtu_log_, left_log_;
  bool tables_refused_ = false;  ///< The SA answers queries for one path, but none for a table.
  TimePoint tables_again_ = TimePoint::min();  ///< Then one query for a table tries again.
  std::uint16_t preferred_lid_ = 0;            ///< See prefer_lid().
  RateLimiter claims_limit_;  ///< Queries for known paths whose GIDs other ports claim.
};

}  // namespace ipoib::link
