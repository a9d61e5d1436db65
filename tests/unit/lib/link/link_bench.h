// SPDX-License-Identifier: BSD-3-Clause
// One IpoibLink with a real SA client on a scripted SA, in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/link/ipoib_link.h"
#include "lib/sa/client.h"
#include "tests/unit/lib/link/fakes.h"

namespace ipoib::link {

inline constexpr std::uint16_t kSmLid = 1;

/// Answers joins with `group`, path queries from `paths`; what it is told to do otherwise comes
/// first.
class ScriptedSa {
 public:
  ScriptedSa();

  struct Answer {
    std::uint16_t status = 0;
    std::vector<std::byte> data;
  };

  /// The answer to a request; nothing: silence.
  [[nodiscard]] std::optional<Answer> answer(const wire::SaMad& mad);
  /// The answer as a MAD.
  [[nodiscard]] static fabric::ReceivedMad reply(const wire::SaMad& to, const Answer& answer);

  wire::McMemberRecord group{};
  std::map<wire::Gid, wire::PathRecord> paths;
  bool silent = false;
  std::uint16_t join_status = 0;
  unsigned only_scope = 0;     ///< The broadcast group is of this scope; 0: of any.
  bool only_creation = false;  ///< It is not there until somebody creates it.
  std::vector<wire::SaMad> joins, leaves, path_queries;  ///< Of the broadcast group.
  std::vector<wire::SaMad> group_requests;               ///< About any other; all join.
  unsigned members = 0;
};

class LinkBench {
 public:
  /// Port of LID 2, GUID …0a; the link has 10.0.0.1/24 and is not started.
  explicit LinkBench(LinkConfig config = default_config(), std::uint64_t seed = 1,
                     std::optional<IpoibLink::Connected> connected = std::nullopt);

  [[nodiscard]] static LinkConfig default_config();

  void start() { link.start(now); }
  void bring_up();
  void run_until(TimePoint end);
  void run_for(Duration d) { run_until(now + d); }

  HeldPacket want(const wire::IpAddr& addr);
  /// An ARP record arrives from the host with this GUID and QPN.
  void hear(wire::ArpOp op, const wire::LinkAddr& sender, std::string_view sender_ip,
            const wire::LinkAddr& target, std::string_view target_ip);
  void hear_reply(const wire::LinkAddr& sender, std::string_view sender_ip);
  void hear_request(const wire::LinkAddr& sender, std::string_view sender_ip,
                    std::string_view target_ip = "10.0.0.1");
  /// A host the SA knows a path to.
  wire::LinkAddr add_host(std::uint64_t guid, std::uint32_t qpn, std::uint16_t lid);
  [[nodiscard]] NeighbourInfo row(std::string_view addr) const;
  [[nodiscard]] std::size_t arp_requests_for(std::string_view addr, bool broadcast) const;
  void expect_nothing_left();

  TimePoint now{std::chrono::seconds(100)};
  FakeSink sink;
  FakeLinkActions actions{sink};
  ScriptedSa sa;
  Duration sa_delay = std::chrono::milliseconds(1);
  /// Sees each answer of the SA before it is under way, and may change it; false: it is lost.
  std::function<bool(fabric::ReceivedMad&)> meddle;
  sa::Client client;
  IpoibLink link;

 private:
  void step();
  std::multimap<TimePoint, fabric::ReceivedMad> coming_;
};

}  // namespace ipoib::link
