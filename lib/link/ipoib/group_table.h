// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups of one IPoIB link: the memberships of this port, and the way of packets to
// each group. Each group advances step by step from its present state to the needed one, after any
// event. Only a few SA requests are open at a time. Source: RFC 4391 §10-§12.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/base/rate_limiter.h"
#include "lib/base/result.h"
#include "lib/link/ipoib/group.h"
#include "lib/link/ipoib/group_senders.h"
#include "lib/link/ipoib/ipoib_types.h"
#include "lib/link/ipoib/link_groups.h"
#include "lib/link/ipoib/queue_spread.h"
#include "lib/link/jitter.h"
#include "lib/link/log_limit.h"
#include "lib/link/time_order.h"
#include "lib/sa/client.h"

namespace ipoib::link {

/// Groups of the fabric for IP groups, by RFC 4391.
class GroupTable final : public LinkGroups {
 public:
  /// References are kept.
  GroupTable(const LinkConfig& config, LinkActions& actions, NeighbourSink& sink,
             AddressSink& receiver, sa::Client& sa, LinkCounters& counters, std::uint64_t seed);
  ~GroupTable() override;
  GroupTable(const GroupTable&) = delete;
  GroupTable& operator=(const GroupTable&) = delete;

  void resume(const wire::McMemberRecord& broadcast, TimePoint now) override;
  void rejoin(TimePoint now) override;
  void look_for_groups(TimePoint now) override;
  void begin_to_move() override;
  bool move(std::size_t max, TimePoint now) override;
  void suspend() override;
  void prepare_stop() override { stopping_ = true; }
  void stop(TimePoint now) override;
  [[nodiscard]] bool left() const override { return groups_.empty(); }
  void abort_leaves() override;

  Status join(const wire::IpAddr& group, TimePoint now) override;
  Status leave(const wire::IpAddr& group, TimePoint now) override;
  void route(const wire::IpPrefix& groups, TimePoint now) override;
  void unroute(const wire::IpPrefix& groups, TimePoint now) override;

  void limit_mtu6(std::uint16_t mtu) override;
  void request_group(const wire::IpAddr& group, HeldPacket packet, TimePoint now) override;
  bool send(const wire::IpAddr& group, std::span<const std::byte> frame, TimePoint now) override;

  void on_created(const wire::Gid& mgid, TimePoint now) override;
  void on_deleted(const wire::Gid& mgid, TimePoint now) override;

  void tick(TimePoint now) override;
  [[nodiscard]] std::optional<TimePoint> next_deadline() const override;

  [[nodiscard]] std::vector<GroupInfo> list(TimePoint now) const override;
  [[nodiscard]] std::size_t size() const override { return groups_.size(); }
  [[nodiscard]] std::size_t queries() const { return queries_; }

 private:
  // Records.
  [[nodiscard]] wire::Gid mgid_of(const wire::IpAddr& group) const;
  [[nodiscard]] wire::Gid routers_of(const Group& g) const;
  [[nodiscard]] bool is_of_link(const wire::Gid& mgid) const;
  /// True if this node routes packets of some groups that arrive on the link.
  [[nodiscard]] bool is_router() const {
    return config_.group.multicast_router || !routed_.empty();
  }
  /// True if this node routes the packets of the group.
  [[nodiscard]] bool routes(const wire::Gid& mgid) const;
  [[nodiscard]] bool is_link_group(const Group& g) const { return g.mgid == broadcast_.mgid; }
  Group* find(const wire::Gid& mgid);
  Group& find_or_make(const wire::Gid& mgid, TimePoint now);
  [[nodiscard]] bool make_room(TimePoint now);
  void give_place_back(Group& g);
  [[nodiscard]] bool can_give_way(const Group& g) const;
  void erase(Group& g);
  void schedule(Group& g, TimePoint now);
  void reconsider(Group& g, TimePoint at);
  void drop_request(sa::TransactionId& id);
  void drop_requests(Group& g);
  void withdraw(Group& g);
  void end_memberships(Group& g, TimePoint due);

  // Steps (group_table.cc).
  void advance(Group& g, TimePoint now);
  void query_group(Group& g, TimePoint now);
  void set_delivery(Group& g, TimePoint now);
  [[nodiscard]] GroupDelivery delivery_of(Group& g, TimePoint now);
  void depend_on_routers(Group& g, bool depends, TimePoint now);
  void forget(Group& g, TimePoint now);

  // Requests to the SA (group_sa.cc).
  [[nodiscard]] bool may_ask(TimePoint& due, TimePoint now);
  [[nodiscard]] bool may_join(const Group& g, GroupMembership& m, TimePoint now);
  void ask(Group& g, TimePoint now);
  void on_found(Group& g, const sa::Outcome& outcome, TimePoint now);
  void become_absent(Group& g, Duration how_long, TimePoint now);
  void step(Group& g, GroupMembership& m, bool wanted, TimePoint now);
  void request_join(Group& g, GroupMembership& m, TimePoint now);
  void request_leave(Group& g, GroupMembership& m, TimePoint now);
  void on_joined(Group& g, GroupMembership& m, const sa::Outcome& outcome, TimePoint now);
  void on_left(Group& g, GroupMembership& m, const sa::Outcome& outcome, TimePoint now);
  bool withhold_leave(GroupMembership& m);
  void leave_former(Group& g, GroupMembership& m, TimePoint now);
  void on_refused(Group& g, GroupMembership& m, const sa::Failure& failure, TimePoint now);
  void fail_join(Group& g, GroupMembership& m, const Error& why, bool stays, TimePoint now);
  void back_off(GroupMembership& m, TimePoint now);
  Result<wire::McMemberRecord> accept(const Group& g, const sa::Reply& reply) const;
  [[nodiscard]] unsigned place_of(const Group& g) const {
    return spread_.queue_pair_of(g.mgid, spread_width(config_, actions_));
  }
  Status attach(Group& g);
  /// True if the group is attached where its packets arrive now.
  [[nodiscard]] bool is_heard(const Group& g) const;
  void detach(Group& g);
  void detach_unless_member(Group& g);
  void report(Group& g, const std::string& why, TimePoint now);
  /// Formats the reason only for a line that is written.
  template <class... Args>
  void log_failure(const wire::Gid& mgid, TimePoint now, fmt::format_string<Args...> why,
                   Args&&... args);
  void refuse(const wire::Gid& mgid, TimePoint now);
  void list_groups(TimePoint now);
  void on_listed(const sa::Outcome& outcome, TimePoint now);

  const LinkConfig& config_;
  LinkActions& actions_;
  NeighbourSink& sink_;
  AddressSink& receiver_;
  sa::Client& sa_;
  LinkCounters& counters_;
  GroupSenders senders_;
  Jitter jitter_;
  QueueSpread spread_;
  LogLimit log_limit_;
  bool operational_ = false;
  bool stopping_ = false;
  wire::McMemberRecord broadcast_{};  ///< The link's broadcast group; valid while operational.
  wire::Gid port_;                    ///< Own GID when memberships were last confirmed.
  std::map<wire::IpAddr, unsigned> joins_;
  std::map<wire::IpPrefix, unsigned> routed_;  ///< Prefixes of route().
  std::unordered_map<wire::Gid, Group, KeyedHash> groups_;
  TimeOrder<wire::Gid> timers_;
  TimeOrder<wire::Gid> give_way_;  ///< Groups that make room for others, since they can.
  ResolutionPlaces places_;        ///< For groups that are not resolved yet.
  RateLimiter queries_of_data_;
  std::vector<wire::Gid> to_move_;  ///< Groups whose queue pair is no longer that of the spread.
  std::size_t queries_ = 0;
  std::size_t withheld_creations_ = 0;
  // Multicast router.
  sa::TransactionId listing_ = sa::kNoTransaction;
  TimePoint list_at_ = kNever;
  Duration list_backoff_{};
};

}  // namespace ipoib::link
