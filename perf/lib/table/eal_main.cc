// main() of benchmarks that need EAL: no huge pages, no devices, one lcore.
#include <rte_eal.h>

#include <benchmark/benchmark.h>

#include <array>
#include <cstdio>

#include "lib/fabric/packet_meta.h"

int main(int argc, char** argv) {
  std::array<const char*, 11> arguments = {
      argv[0], "--no-huge", "--no-shconf", "--no-pci",    "--no-telemetry", "-m",
      "512",   "-l",        "0",           "--log-level", "lib.eal:error"};
  if (rte_eal_init(static_cast<int>(arguments.size()), const_cast<char**>(arguments.data())) < 0 ||
      !ipoib::fabric::register_packet_meta()) {
    std::fputs("EAL does not start\n", stderr);
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  rte_eal_cleanup();
  return 0;
}
