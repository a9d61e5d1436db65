// SPDX-License-Identifier: BSD-3-Clause
// A second user of a node's port, which joins and leaves groups at the SA as the kernel's ib_ipoib
// does: it counts its own memberships only, and a leave names the whole port. It reads commands
// from standard input, and repeats each on standard output when the SA has answered:
//   up    join the broadcast group of the default partition and the all-hosts group as FullMember
//   down  leave both
// A request that the SA refuses or does not answer ends the program with exit status 1.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "drivers/umad/umad_port.h"
#include "lib/sa/client.h"
#include "lib/sa/queries.h"
#include "lib/wire/ipoib.h"

namespace ipoib {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(1), kLimit = std::chrono::seconds(30);

class PortUser {
 public:
  PortUser() {
    umad::UmadConfig config;
    config.device = "ibsim0";
    port_ = umad::UmadPort::create(config);
  }

  /// False if the port does not become active in time.
  bool wait_until_active() {
    return run_until([this] { return port_->attr().state == fabric::PortState::kActive; });
  }
  /// Joins the groups, and creates absent ones with the attributes of the broadcast group.
  bool join(std::span<const wire::Gid> mgids) {
    const auto broadcast = ask(
        sa::join_group(mgids.front(), gid(), wire::kDefaultPkey, wire::join_state::kFullMember));
    if (!broadcast) return false;
    const auto like = broadcast->record<wire::McMemberRecord>();
    return like && std::ranges::all_of(mgids.subspan(1), [&](const wire::Gid& mgid) {
             return ask(sa::create_group(mgid, gid(), wire::join_state::kFullMember, *like))
                 .has_value();
           });
  }
  bool leave(std::span<const wire::Gid> mgids) {
    return std::ranges::all_of(mgids, [&](const wire::Gid& mgid) {
      return ask(sa::leave_group(mgid, gid(), wire::kDefaultPkey, wire::join_state::kFullMember))
          .has_value();
    });
  }

 private:
  static TimePoint now() { return TimePoint{std::chrono::steady_clock::now().time_since_epoch()}; }

  [[nodiscard]] wire::Gid gid() const { return port_->attr().gid(); }
  /// The answer; empty after a refusal, which is printed.
  std::optional<sa::Reply> ask(const sa::Request& request) {
    std::optional<sa::Outcome> outcome;
    client_.set_sm(port_->attr().sm_lid, port_->attr().sm_sl, now());
    client_.submit(
        request, [&outcome](const sa::Outcome& o, TimePoint) { outcome = o; }, now());
    if (!run_until([&outcome] { return outcome.has_value(); })) return std::nullopt;
    if (*outcome) return **outcome;
    fmt::print(stderr, "{}\n", sa::describe(outcome->error()));
    return std::nullopt;
  }
  template <class Done>
  bool run_until(const Done& done) {
    for (const TimePoint end = now() + kLimit; !done();) {
      if (now() >= end) return false;
      while (port_->next_event()) {
      }
      while (const auto mad = port_->receive()) client_.on_mad(*mad, now());
      client_.tick(now());
      std::this_thread::sleep_for(kStep);
    }
    return true;
  }

  std::unique_ptr<umad::UmadPort> port_;
  sa::Client client_{
      [this](const fabric::MadAddress& to, auto mad) { return port_->send(to, mad); },
      sa::ClientConfig{}, static_cast<std::uint64_t>(now().time_since_epoch().count())};
};

int run() {
  const std::array groups{wire::broadcast_mgid(wire::kDefaultPkey, 2),
                          wire::mgid_of(wire::IpAddr::v4(0xe000'0001), wire::kDefaultPkey, 2)};
  PortUser user;
  if (!user.wait_until_active()) {
    fmt::print(stderr, "the port does not become active\n");
    return 1;
  }
  for (std::string command; std::getline(std::cin, command);) {
    if (command != "up" && command != "down") {
      fmt::print(stderr, "unknown command {}\n", command);
      return 1;
    }
    if (!(command == "up" ? user.join(groups) : user.leave(groups))) return 1;
    fmt::print("{}\n", command);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace ipoib

int main() {
  return ipoib::run();
}
