// SPDX-License-Identifier: BSD-3-Clause
// One IpoibLink with a real SA client and a scripted SA, in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/link/ipoib/ipoib_link.h"
#include "lib/sa/client.h"
#include "tests/support/link_fakes.h"
#include "tests/support/sim_time.h"

namespace ipoib::link {

inline constexpr std::uint16_t kSmLid = 1;

/// Answers joins with `group` and path queries from `paths`, except where a member below changes
/// its behaviour.
class FakeSa {
 public:
  FakeSa();

  struct Answer {
    std::uint16_t status = 0;
    std::vector<std::byte> data;
  };

  /// Returns the answer to a request, or nothing if the SA is silent.
  [[nodiscard]] std::optional<Answer> answer(const wire::SaMad& mad);
  /// Returns the answer as a MAD.
  [[nodiscard]] static fabric::ReceivedMad reply(const wire::SaMad& to, const Answer& answer);

  wire::McMemberRecord group{};
  std::map<wire::Gid, wire::PathRecord> paths;
  std::vector<wire::PathRecord> more_paths;  ///< Only in tables, behind those of `paths`.
  bool silent = false;
  std::uint16_t join_status = 0;
  unsigned only_scope = 0;     ///< Scope of the broadcast group; 0: any.
  bool only_creation = false;  ///< The group exists only after a join created it.
  /// Received requests; joins and leaves are those of the broadcast group.
  std::vector<wire::SaMad> joins, checks, leaves, path_queries;
  std::vector<wire::SaMad> group_requests;  ///< About other groups; all joins succeed.
  unsigned members = 0;
  bool hides_members = false;  ///< It denies every membership that a port asks about.
};

class SimIpoibLink : public test::SimTime {
 public:
  /// Creates a port with LID 2 and GUID …0a; its link has 10.0.0.1/24 and is not started.
  explicit SimIpoibLink(LinkConfig config = default_config(), std::uint64_t seed = 1,
                        std::optional<IpoibLink::Connected> connected = std::nullopt);

  [[nodiscard]] static LinkConfig default_config();
  /// Returns the default configuration after `change` was called for it.
  [[nodiscard]] static LinkConfig config_with(const std::function<void(LinkConfig&)>& change);

  void start() { link.start(now); }
  void bring_up();
  /// Brings the link up, and resolves 10.0.0.2. Returns the address of that host.
  wire::LinkAddr bring_up_with_peer();
  void run_until(TimePoint end);
  void run_for(Duration d) { run_until(now + d); }

  HeldPacket want(const wire::IpAddr& addr);
  /// A packet wants the address, the host replies, and the SA answers about the path to it.
  HeldPacket resolve(std::string_view addr, const wire::LinkAddr& host);
  /// The port has an event. Then time passes.
  void on_port_event(fabric::PortEvent event, Duration then);
  /// Receives an ARP record from the host with this GUID and QPN.
  void receive_arp(wire::ArpOp op, const wire::LinkAddr& sender, std::string_view sender_ip,
                   const wire::LinkAddr& target, std::string_view target_ip);
  void receive_arp_reply(const wire::LinkAddr& sender, std::string_view sender_ip);
  void receive_arp_request(const wire::LinkAddr& sender, std::string_view sender_ip,
                           std::string_view target_ip = "10.0.0.1");
  /// Adds a host with a path in the SA.
  wire::LinkAddr add_host(std::uint64_t guid, std::uint32_t qpn, std::uint16_t lid);
  [[nodiscard]] NeighbourInfo row(std::string_view addr) const;
  [[nodiscard]] std::size_t arp_requests_for(std::string_view addr, bool broadcast) const;
  void expect_nothing_left();

  FakeNeighbourSink sink;
  FakeLinkActions actions{sink};
  FakeSa sa;
  Duration sa_delay = std::chrono::milliseconds(1);
  /// Called with each answer of the SA before it is sent, and may change it. Returns false if the
  /// answer is lost.
  std::function<bool(fabric::ReceivedMad&)> meddle;
  sa::Client client;
  IpoibLink link;
};

}  // namespace ipoib::link
