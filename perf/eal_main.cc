// SPDX-License-Identifier: BSD-3-Clause
// main() of the benchmarks that need EAL.
#include <benchmark/benchmark.h>

#include "lib/fabric/eal_end.h"
#include "tests/support/eal.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv) || !ipoib::start_eal(argv[0])) return 1;
  benchmark::RunSpecifiedBenchmarks();
  ipoib::fabric::end_eal();
  return 0;
}
