// SPDX-License-Identifier: BSD-3-Clause
// OpenSM on the simulated fabric, in real time. Each port has its own process (port_process.h).
// conformance.sh starts simulator and OpenSM and sets environment variables:
//   UMAD2SIM       path of libumad2sim.so; the simulator itself uses IBSIM_SOCKNAME
//   IBSIM_CONSOLE  path from which the simulator reads commands
#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "tests/lab/conformance/port_process.h"
#include "tests/lab/conformance/subnet_under_test.h"

namespace ipoib::conformance {

class OpensmSubnet final : public SubnetUnderTest {
 public:
  /// Starts the ports and waits until all are active. The error kUnavailable names what is missing.
  [[nodiscard]] static Result<std::unique_ptr<OpensmSubnet>> create();
  OpensmSubnet(const OpensmSubnet&) = delete;
  OpensmSubnet& operator=(const OpensmSubnet&) = delete;
  ~OpensmSubnet() override;

  [[nodiscard]] std::string_view name() const override { return "opensm"; }
  [[nodiscard]] PortUnderTest port(PortId id) const override {
    return {ports_[id].attr.gid, ports_[id].attr.lid};
  }
  [[nodiscard]] PortUnderTest administrator() const override;
  [[nodiscard]] TimePoint now() const override;
  Status send(PortId from, const fabric::MadAddress& to,
              std::span<const std::byte, wire::kMadLen> mad) override;
  void step(TimePoint until, const Deliver& deliver) override;
  void unplug(PortId id) override { command("Unlink", id); }
  void plug(PortId id) override { command("Relink", id); }
  [[nodiscard]] std::size_t longest_answer() const override { return wire::kMadLen; }

 private:
  struct Port {
    pid_t process = -1;
    int socket = -1;
    PortMessage attr;  ///< The last message of kind kAttr.
  };
  OpensmSubnet() = default;
  [[nodiscard]] Status start(PortId id, const char* library);
  [[nodiscard]] bool all_active() const;
  void command(const char* what, PortId id) const;

  std::array<Port, kPorts> ports_{};
  std::string console_;
};

}  // namespace ipoib::conformance
