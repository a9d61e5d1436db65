// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/eal_end.h"

#include <rte_alarm.h>
#include <rte_dev.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>

namespace ipoib::fabric {
namespace {

using namespace std::chrono_literals;

/// Keeps the interrupt thread busy while a device registers with it and EAL ends. This happens on
/// machines that have more threads than CPUs.
[[noreturn]] void end_while_the_interrupt_thread_is_behind() {
  static std::promise<void> begun;
  const auto dawdle = [](void*) {
    begun.set_value();
    std::this_thread::sleep_for(100ms);
  };
  if (rte_eal_alarm_set(1, dawdle, nullptr) != 0) std::exit(2);
  begun.get_future().wait();
  if (rte_eal_hotplug_add("vdev", "net_memif_end",
                          "role=server,socket=ipoib-end-test,socket-abstract=yes") != 0)
    std::exit(3);
  end_eal();
  // Without end_eal()'s wait, the interrupt thread would wake up during this sleep.
  std::this_thread::sleep_for(200ms);
  std::exit(0);
}

TEST(EndEalDeathTest, WaitsForTheInterruptThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(end_while_the_interrupt_thread_is_behind(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ipoib::fabric
