// main() of test programs that need EAL.
#include <gtest/gtest.h>

#include "tests/eal.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!ipoib::start_eal(argv[0])) return 1;
  const int result = RUN_ALL_TESTS();
  rte_eal_cleanup();
  return result;
}
