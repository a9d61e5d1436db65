// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/eal_end.h"

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <future>

namespace ipoib::fabric {
namespace {

/// Halts the thread by a private interrupt whose handler does not return. (An alarm does not work,
/// because rte_eal_cleanup() waits for its handler.) False: no interrupt, or the thread is busy.
bool halt_interrupt_thread() {
  static std::promise<void> halted;  // static: the handler may run after the timeout
  const auto halt = [](void*) {
    halted.set_value();
    while (true) pause();
  };
  const int fd = eventfd(1, EFD_CLOEXEC);
  rte_intr_handle* const handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  const bool requested =
      fd >= 0 && handle != nullptr && rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
      rte_intr_fd_set(handle, fd) == 0 && rte_intr_callback_register(handle, halt, nullptr) == 0;
  rte_intr_instance_free(handle);  // EAL has a copy
  return requested &&
         halted.get_future().wait_for(std::chrono::seconds{1}) == std::future_status::ready;
}

}  // namespace

void end_eal() {
  for (std::uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port) {
    if (!rte_eth_dev_is_valid_port(port)) continue;
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
  }
  if (halt_interrupt_thread()) rte_eal_cleanup();
}

}  // namespace ipoib::fabric
