// SPDX-License-Identifier: BSD-3-Clause
// An open device of libibverbs with its protection domain and its asynchronous events.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drivers/verbs/handles.h"
#include "lib/base/result.h"
#include "lib/fabric/fabric_types.h"

namespace ipoib::verbs {

/// One asynchronous event. Source: ibv_get_async_event(3).
struct VerbsEvent {
  enum class Kind {
    kPort,              ///< See `port_event`; kFatal concerns the whole device.
    kQueueFailed,       ///< QP `qpn`; 0: a completion queue or SRQ.
    kQueueEstablished,  ///< QP `qpn` received from its peer.
    kQueueMigrated,     ///< QP `qpn` uses its alternate path.
  };
  Kind kind;
  fabric::PortEvent port_event{};
  std::uint32_t qpn = 0;
};

/// Management lcore only.
class Device {
 public:
  /// kNotFound (no such device or port), kRefused (permission), kNoResources (protection domain),
  /// kUnavailable (other reasons): the message names the remedy, if known.
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(const std::string& name,
                                                            std::uint8_t port);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  /// Protection domain of memory and address handles.
  [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }
  /// Protection domain of the queues of a worker (fabric::UdQueueConfig::worker). If the provider
  /// has thread domains, it is a parent domain with one of the worker's own, so that posts and polls
  /// take no lock.
  [[nodiscard]] ibv_pd* queue_pd(unsigned worker);
  [[nodiscard]] bool has_thread_domain(unsigned worker) { return queue_pd(worker) != pd(); }
  [[nodiscard]] const ibv_device_attr& attr() const { return attr_; }
  /// Capabilities::ack_delay
  [[nodiscard]] std::uint8_t ack_delay() const {
    return std::min<std::uint8_t>(attr_.local_ca_ack_delay, 31);
  }
  [[nodiscard]] bool has(ibv_device_cap_flags flag) const {
    return (attr_.device_cap_flags & flag) != 0;
  }
  [[nodiscard]] bool ethernet() const { return ethernet_; }
  /// NUMA node that the device is attached to; -1: not known, or the machine has only one.
  [[nodiscard]] int numa_node() const { return numa_node_; }

  /// False: the kernel is removing the device and waits until it is closed, which some drivers
  /// (rdma_rxe) do not report as an event.
  [[nodiscard]] bool present() const;
  /// Returns the next event of this port, a queue or the whole device; skips other ports' events.
  [[nodiscard]] std::optional<VerbsEvent> next_event();

 private:
  Device(std::string name, std::uint8_t port, ContextPtr context);

  /// Queues of one thread share the hardware's registers for sending, without a lock.
  struct ThreadDomain {
    TdPtr td;
    PdPtr parent;  ///< Parent domain of pd_ and `td`; null: the provider has no thread domains.
  };
  [[nodiscard]] ThreadDomain make_thread_domain() const;

  std::string name_;
  std::uint8_t port_;
  ContextPtr context_;
  PdPtr pd_;
  std::vector<ThreadDomain> thread_domains_;  ///< Indexed by worker; made on demand.
  ibv_device_attr attr_{};
  bool ethernet_ = false;
  int numa_node_ = -1;
};

/// While it exists, memory that this thread allocates comes from `node`, if it has any left.
class PreferNode {
 public:
  explicit PreferNode(int node);
  PreferNode(const PreferNode&) = delete;
  PreferNode& operator=(const PreferNode&) = delete;
  ~PreferNode();

 private:
  bool changed_ = false;
  int before_ = -1;
};

}  // namespace ipoib::verbs
