// SPDX-License-Identifier: BSD-3-Clause
// The shared addresses of one IPoIB link: a SharedGroup for each IP family, on the link's messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/ip/ip_stack.h"
#include "lib/link/ip/shared_addresses.h"
#include "lib/link/ipoib/shared/shared_group.h"
#include "lib/link/medium.h"
#include "lib/link/shared_info.h"

namespace ipoib::link {

/// The parts of the link that the groups use. References are kept.
struct SharedSurroundings {
  const std::string& name;
  const SharedConfig& config;
  Medium& medium;
  IpStack& ip;
  bool router = true;  ///< Advertisements of neighbour discovery say so.
  /// True if the link receives packets to the group.
  std::function<bool(const wire::IpAddr& group)> listens;
  std::uint64_t seed = 0;
};

/// Management lcore only. The stack asks it about its addresses from the constructor on.
class SharedGateway final : public SharedAddresses {
 public:
  explicit SharedGateway(SharedSurroundings around);
  ~SharedGateway() override;

  /// The link is up; joins the groups that advertisements are sent to.
  void up(TimePoint now);
  void down();
  void leave(TimePoint now);
  void set_serving(bool serving, TimePoint now);

  [[nodiscard]] bool has(const wire::IpAddr& addr) const override;
  [[nodiscard]] bool answers(const wire::IpAddr& shared, const wire::IpAddr& host,
                             const std::optional<wire::HwAddr>& hw, TimePoint now) override;
  bool claimed(const wire::IpAddr& shared, const std::optional<wire::HwAddr>& hw,
               TimePoint now) override;
  void announce(TimePoint now) override;

  /// The sender of the messages that follow, as the fabric knows it.
  void set_source(std::uint16_t slid, std::uint32_t src_qpn) {
    source_ = slid != 0 ? slid : src_qpn;
  }
  /// See Interface::on_vrrp().
  bool on_packet(std::span<const std::byte> packet, const wire::Gid& from, std::uint32_t src_qpn,
                 TimePoint now);
  void on_out_of_service(const wire::Gid& gid, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::vector<SharedGroupInfo> info(TimePoint now) const;

 private:
  class Family;

  [[nodiscard]] Family* family_of(const wire::IpAddr& addr) const {
    return families_[addr.is_v4() ? 0 : 1].get();
  }

  SharedSurroundings around_;
  std::uint32_t source_ = 0;
  std::array<std::unique_ptr<Family>, 2> families_;  ///< IPv4, IPv6; null: it shares no address.
};

/// The addresses as the link has them: alone, so that no packet but an answer has one as its source.
[[nodiscard]] std::vector<wire::IpPrefix> shared_prefixes(const SharedConfig& config);

}  // namespace ipoib::link
