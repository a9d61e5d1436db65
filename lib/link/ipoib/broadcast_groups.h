// SPDX-License-Identifier: BSD-3-Clause
// The multicast groups of a link that has only its broadcast group: each packet to a group goes to
// all hosts, and each host takes those that it listens to. The draft of 2001 maps no group of IP to
// one of the fabric. Source: draft-pelissier-ipoib-encaparp-00 §6.2.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/link/ipoib/link_groups.h"

namespace ipoib::link {

/// Groups are neighbours with the link-layer address of the broadcast group.
class BroadcastGroups final : public LinkGroups {
 public:
  explicit BroadcastGroups(GroupSurroundings around) : around_{std::move(around)} {}

  void resume(const wire::McMemberRecord& broadcast, TimePoint now) override;
  void rejoin(TimePoint) override {}
  void suspend() override {}
  void prepare_stop() override {}
  void stop(TimePoint) override {}
  [[nodiscard]] bool left() const override { return true; }
  void abort_leaves() override {}

  Status join(const wire::IpAddr& group, TimePoint now) override;
  Status leave(const wire::IpAddr& group, TimePoint now) override;

  void request_group(const wire::IpAddr& group, HeldPacket packet, TimePoint now) override;
  bool send(const wire::IpAddr& group, std::span<const std::byte> frame, TimePoint now) override;

  void on_created(const wire::Gid&, TimePoint) override {}
  void on_deleted(const wire::Gid&, TimePoint) override {}

  void begin_to_move() override {}
  bool move(std::size_t, TimePoint) override { return false; }
  void tick(TimePoint) override {}
  [[nodiscard]] std::optional<TimePoint> next_deadline() const override { return std::nullopt; }

  [[nodiscard]] std::vector<GroupInfo> list(TimePoint now) const override;
  [[nodiscard]] std::size_t size() const override { return 0; }

 private:
  GroupSurroundings around_;
  wire::Gid mgid_;  ///< MGID of the broadcast group; zero before the first resume().
  std::uint16_t mlid_ = 0;
  std::map<wire::IpAddr, unsigned> joins_;
};

}  // namespace ipoib::link
