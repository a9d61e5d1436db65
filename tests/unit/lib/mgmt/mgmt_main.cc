// main() of the tests of the management lcore: EAL with an lcore for one worker.
#include <rte_eal.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "lib/fabric/packet_meta.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Both lcores may run anywhere: the machine may have one CPU for them.
  std::array<const char*, 11> arguments = {
      argv[0], "--no-huge", "--no-shconf", "--no-pci",    "--no-telemetry", "-m",
      "512",   "--lcores",  "0@0,1@0",     "--log-level", "lib.eal:error"};
  if (rte_eal_init(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data())) < 0 ||
      !ipoib::fabric::register_packet_meta()) {
    std::fputs("EAL does not start\n", stderr);
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  rte_eal_cleanup();
  return result;
}
