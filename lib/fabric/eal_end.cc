#include "lib/fabric/eal_end.h"

#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_ethdev.h>

#include <chrono>
#include <future>

namespace ipoib::fabric {
namespace {

/// Alarms are called by the interrupt thread, which is through with what came before them then.
void wait_for_interrupt_thread() {
  static std::promise<void> reached;  // it outlives a thread that comes later than the time-out
  const auto reach = [](void*) { reached.set_value(); };
  if (rte_eal_alarm_set(1, reach, nullptr) != 0) return;
  reached.get_future().wait_for(std::chrono::seconds{1});
}

}  // namespace

void end_eal() {
  for (std::uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port) {
    if (!rte_eth_dev_is_valid_port(port)) continue;
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
  }
  wait_for_interrupt_thread();
  rte_eal_cleanup();
}

}  // namespace ipoib::fabric
