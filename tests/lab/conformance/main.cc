// SPDX-License-Identifier: BSD-3-Clause
// The conformance suite of subnet administration, for the embedded administrator and for OpenSM:
//   conformance [--subnet=embedded|opensm] [GoogleTest option]...
// conformance.sh starts OpenSM for it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "tests/lab/conformance/embedded_subnet.h"
#include "tests/lab/conformance/fixture.h"
#include "tests/lab/conformance/opensm_subnet.h"
#include "tests/lab/conformance/port_process.h"

namespace ipoib::conformance {
namespace {

std::unique_ptr<Session> the_session;

Result<std::unique_ptr<SubnetUnderTest>> make_subnet(std::string_view name) {
  if (name == "embedded") return std::make_unique<EmbeddedSubnet>();
  if (name != "opensm") return fail(Errc::kInvalidArgument, "no such subnet: {}", name);
  auto subnet = OpensmSubnet::create();
  if (!subnet) return tl::make_unexpected(subnet.error());
  return std::move(*subnet);
}

int run(std::string_view name) {
  auto subnet = make_subnet(name);
  if (!subnet) {
    fmt::print(stderr, "{}\n", subnet.error().what);
    return 1;
  }
  the_session = std::make_unique<Session>(std::move(*subnet));
  const int status = RUN_ALL_TESTS();
  the_session.reset();
  return status;
}

}  // namespace

Session& session() {
  return *the_session;
}

}  // namespace ipoib::conformance

int main(int argc, char** argv) {
  using namespace ipoib::conformance;
  constexpr std::string_view kSubnet = "--subnet=", kPort = "--port-process=";
  std::string_view subnet = "embedded";
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with(kPort)) return run_port_process(std::atoi(argv[i] + kPort.size()));
    if (!arg.starts_with(kSubnet)) {
      fmt::print(stderr, "what is {}?\n", arg);
      return 2;
    }
    subnet = arg.substr(kSubnet.size());
  }
  return run(subnet);
}
