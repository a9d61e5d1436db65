// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/device_faults.h"

#include <dlfcn.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace ipoib::mgmt {
namespace {

struct Listener {
  std::uint16_t port;
  rte_eth_event_type event;
  rte_eth_dev_cb_fn function;
  void* argument;
  friend bool operator==(const Listener&, const Listener&) = default;
};

std::mutex listeners_mutex;
std::vector<Listener> all_listeners;

/// Returns the library's own function.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

DeviceFaults& DeviceFaults::get() {
  static DeviceFaults faults;
  return faults;
}

void DeviceFaults::remove(std::uint16_t port) {
  const std::lock_guard lock{listeners_mutex};
  for (const Listener& l : all_listeners)
    if (l.port == port && l.event == RTE_ETH_EVENT_INTR_RMV)
      l.function(port, l.event, l.argument, nullptr);
}

std::size_t DeviceFaults::listeners() {
  const std::lock_guard lock{listeners_mutex};
  return all_listeners.size();
}

}  // namespace ipoib::mgmt

// NOLINTBEGIN(readability-identifier-naming)
using namespace ipoib::mgmt;

extern "C" {

int rte_eth_allmulticast_enable(std::uint16_t port) {
  if (DeviceFaults::get().no_all_multicast) return -ENOTSUP;
  return next<decltype(rte_eth_allmulticast_enable)>("rte_eth_allmulticast_enable")(port);
}

int rte_eth_promiscuous_enable(std::uint16_t port) {
  if (DeviceFaults::get().no_promiscuous) return -ENOTSUP;
  return next<decltype(rte_eth_promiscuous_enable)>("rte_eth_promiscuous_enable")(port);
}

int rte_eth_dev_set_mc_addr_list(std::uint16_t, rte_ether_addr* list, std::uint32_t n) {
  DeviceFaults& faults = DeviceFaults::get();
  if (faults.max_groups == 0) return -ENOTSUP;
  if (n > faults.max_groups) return -ENOSPC;
  faults.groups.resize(n);
  for (std::uint32_t i = 0; i < n; ++i)
    std::memcpy(faults.groups[i].data(), list[i].addr_bytes, sizeof(list[i].addr_bytes));
  return 0;
}

int rte_eth_dev_info_get(std::uint16_t port, rte_eth_dev_info* info) {
  const int result = next<decltype(rte_eth_dev_info_get)>("rte_eth_dev_info_get")(port, info);
  if (result == 0 && DeviceFaults::get().says) DeviceFaults::get().says(*info);
  return result;
}

int rte_eth_dev_configure(std::uint16_t port, std::uint16_t nb_rx, std::uint16_t nb_tx,
                          const rte_eth_conf* conf) {
  DeviceFaults& asked = DeviceFaults::get();
  asked.removal_interrupt = conf->intr_conf.rmv != 0;
  asked.rx_queues = nb_rx;
  asked.tx_queues = nb_tx;
  asked.rss = conf->rx_adv_conf.rss_conf;
  asked.rss_hf = conf->rxmode.mq_mode == RTE_ETH_MQ_RX_RSS ? asked.rss.rss_hf : 0;
  rte_eth_conf own = *conf;
  own.intr_conf.rmv = 0;  // no driver of these tests supports it
  if (asked.powers_of_two && !std::has_single_bit(nb_rx)) return -EINVAL;
  return next<decltype(rte_eth_dev_configure)>("rte_eth_dev_configure")(port, nb_rx, nb_tx, &own);
}

int rte_eth_dev_start(std::uint16_t port) {
  DeviceFaults& asked = DeviceFaults::get();
  asked.rss_key.assign(asked.rss.rss_key, asked.rss.rss_key + asked.rss.rss_key_len);
  return next<decltype(rte_eth_dev_start)>("rte_eth_dev_start")(port);
}

int rte_eth_dev_callback_register(std::uint16_t port, rte_eth_event_type event,
                                  rte_eth_dev_cb_fn function, void* argument) {
  const std::lock_guard lock{listeners_mutex};
  all_listeners.push_back({port, event, function, argument});
  return 0;
}

int rte_eth_dev_callback_unregister(std::uint16_t port, rte_eth_event_type event,
                                    rte_eth_dev_cb_fn function, void* argument) {
  const std::lock_guard lock{listeners_mutex};
  std::erase(all_listeners, Listener{port, event, function, argument});
  return 0;
}

rte_proc_type_t rte_eal_process_type() {
  if (DeviceFaults::get().secondary) return RTE_PROC_SECONDARY;
  return next<decltype(rte_eal_process_type)>("rte_eal_process_type")();
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
