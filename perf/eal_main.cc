// main() of benchmarks that need EAL.
#include <benchmark/benchmark.h>

#include "tests/eal.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv) || !ipoib::start_eal(argv[0])) return 1;
  benchmark::RunSpecifiedBenchmarks();
  rte_eal_cleanup();
  return 0;
}
