// SPDX-License-Identifier: BSD-3-Clause
// main() of test programs that need EAL.
#include <gtest/gtest.h>

#include "lib/fabric/eal_end.h"
#include "tests/support/eal.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!ipoib::start_eal(argv[0])) return 1;
  const int result = RUN_ALL_TESTS();
  ipoib::fabric::end_eal();
  return result;
}
