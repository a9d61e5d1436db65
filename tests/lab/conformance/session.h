// SPDX-License-Identifier: BSD-3-Clause
// One run against one subnet. It has a client at every port and keeps their Reports, memberships
// and subscriptions, so that each test restores the state of the subnet.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/sa/client.h"
#include "lib/wire/notice.h"
#include "tests/lab/conformance/subnet_under_test.h"

namespace ipoib::conformance {

class Session {
 public:
  explicit Session(std::unique_ptr<SubnetUnderTest> subnet);

  [[nodiscard]] SubnetUnderTest& subnet() { return *subnet_; }
  [[nodiscard]] sa::Client& client(PortId port) { return *ports_[port].client; }
  [[nodiscard]] std::vector<wire::Notice>& notices(PortId port) { return ports_[port].notices; }

  /// Runs until done() is true or `limit` has passed. Returns the former.
  bool run_until(const std::function<bool()>& done, Duration limit);

  /// Sends a request through the port's client. Ends with an answer or with the client's timeout.
  [[nodiscard]] sa::Outcome ask(PortId port, const sa::Request& request);
  /// Sends a request without the client. Returns the whole answer, or nothing if none came in time.
  [[nodiscard]] std::optional<wire::SaMad> ask_raw(PortId port, const wire::SaMad& request);

  /// Ends all memberships and subscriptions that ask() made and forgets the Reports.
  void clean_up();

 private:
  struct Port {
    std::unique_ptr<sa::Client> client;
    std::vector<wire::Notice> notices;
    /// JoinState bits by MGID and PortGID.
    std::map<std::pair<wire::Gid, wire::Gid>, std::uint8_t> memberships;
    std::vector<wire::InformInfo> subscriptions;
  };
  void deliver(PortId port, const fabric::ReceivedMad& mad);
  void remember(Port& port, const sa::Request& request, const sa::Reply& reply);

  std::unique_ptr<SubnetUnderTest> subnet_;
  std::array<Port, kPorts> ports_;
  std::uint32_t raw_tid_ = 0x7a000000;
  std::optional<wire::SaMad> raw_answer_;
};

}  // namespace ipoib::conformance
