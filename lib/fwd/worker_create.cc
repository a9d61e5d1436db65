// SPDX-License-Identifier: BSD-3-Clause
#include <rte_cycles.h>

#include <algorithm>
#include <new>

#include "lib/base/hash_seed.h"
#include "lib/fwd/modes/io_forward.h"
#include "lib/fwd/worker.h"
#include "lib/fwd/worker_state.h"

namespace ipoib::fwd {
namespace {

/// Returns the first item that is missing; null: none.
const char* missing(const WorkerConfig& c) {
  if (c.settings == nullptr) return "settings";
  if (c.up == nullptr || c.down == nullptr) return "rings to management";
  if (c.doorbell == nullptr) return "doorbell";
  if (c.next_hops == nullptr || c.prefixes == nullptr || c.prefixes6 == nullptr ||
      c.own_addresses == nullptr)
    return "route tables";
  if (c.header_rules == nullptr) return "rules of headers";
  if (c.rcu == nullptr) return "RCU variable";
  if (c.fragment_pool == nullptr) return "mempool for fragments";
  if (c.punt.interval_us == 0) return "punt interval";
  if (std::ranges::count(c.hcas, nullptr, &PolledHca::hca) != 0) return "HCA";
  return nullptr;
}

Status check_interface(const WorkerConfig& c, std::size_t id) {
  const InterfaceEntry& entry = c.interfaces[id];
  if (entry.owner == c.number) {
    const bool ethernet = entry.kind == InterfaceKind::kEthernet;
    if (ethernet ? c.queues[id].eth_tx.has_value() : c.queues[id].ud != nullptr) return {};
    return fail(Errc::kInvalidArgument, "worker {}: {} {} has no queue", c.number,
                ethernet ? "port" : "link", id);
  }
  const auto has_ring = [&entry](const std::vector<rte_ring*>& rings) {
    return entry.owner < rings.size() && rings[entry.owner] != nullptr;
  };
  if (!has_ring(c.handoff_out))
    return fail(Errc::kInvalidArgument, "worker {}: no ring to worker {}, which owns interface {}",
                c.number, entry.owner, id);
  return {};
}

}  // namespace

std::vector<InterfaceQueues> queues_of_owner(std::span<const InterfaceEntry> interfaces,
                                             unsigned worker) {
  std::vector<InterfaceQueues> queues(interfaces.size());
  for (std::size_t i = 0; i < interfaces.size(); ++i) {
    if (interfaces[i].owner != worker) continue;
    if (interfaces[i].kind == InterfaceKind::kEthernet)
      queues[i] = {.eth_rx = {0}, .eth_tx = 0};
    else
      queues[i].ud = interfaces[i].ud_queues.front();
  }
  return queues;
}

Worker::State::State(const WorkerConfig& config, std::unique_ptr<table::NeighbourTable> cache,
                     std::unique_ptr<table::DeliveryTable> deliveries)
    : handoff_in{config.handoff_in},
      down{config.down},
      settings{*config.settings},
      rcu{config.rcu},
      number{config.number},
      generating{config.number},
      spread{config},
      tsc_hz{rte_get_tsc_hz()},
      context{config, std::move(cache), std::move(deliveries)} {
  next_second_tsc = config.epoch_tsc + tsc_hz;  // the first loop catches up
  handoff_in.erase(std::remove(handoff_in.begin(), handoff_in.end(), nullptr), handoff_in.end());
  context.io_peers = io_peers(config.interfaces);
  for (std::size_t i = 0; i < config.interfaces.size(); ++i) {
    const InterfaceEntry& entry = config.interfaces[i];
    Owned queue{.id = static_cast<table::InterfaceId>(i), .entry = &entry};
    if (entry.kind == InterfaceKind::kEthernet) {
      for (const std::uint16_t nth : config.queues[i].eth_rx) {
        queue.ethdev_queue = nth;
        owned.push_back(queue);
      }
    } else if (config.queues[i].ud != nullptr) {
      queue.ud_queue = config.queues[i].ud;
      if (entry.ud_queues.size() > 1)
        queue.senders = senders.emplace_back(std::make_unique<fabric::SenderSamples>()).get();
      owned.push_back(queue);
    }
    if (config.queues[i].receive != nullptr) {
      queue.ud_queue = nullptr;
      queue.senders = nullptr;
      queue.receive_queue = config.queues[i].receive;
      owned.push_back(queue);
    }
  }
  for (const auto& [hca, nth] : config.hcas)
    if (const auto poll = hca->poll_function()) devices.push_back({hca, nth, poll});
}

Result<std::unique_ptr<Worker>> Worker::create(const WorkerConfig& config) {
  if (const char* what = missing(config))
    return fail(Errc::kInvalidArgument, "worker {}: no {}", config.number, what);
  if (config.interfaces.size() >= table::kNoInterface)
    return fail(Errc::kInvalidArgument, "worker {}: too many interfaces ({})", config.number,
                config.interfaces.size());
  if (config.queues.size() != config.interfaces.size())
    return fail(Errc::kInvalidArgument, "worker {}: queues of {} interfaces, there are {}",
                config.number, config.queues.size(), config.interfaces.size());
  for (std::size_t i = 0; i < config.interfaces.size(); ++i)
    if (auto status = check_interface(config, i); !status)
      return tl::make_unexpected(status.error());

  auto cache =
      table::NeighbourTable::create(config.neighbour_capacity, secret_seed(), config.socket);
  if (!cache) return tl::make_unexpected(cache.error());
  auto deliveries =
      table::DeliveryTable::create(config.delivery_capacity, secret_seed(), config.socket);
  if (!deliveries) return tl::make_unexpected(deliveries.error());
  return std::unique_ptr<Worker>{
      new Worker{std::make_unique<State>(config, std::move(*cache), std::move(*deliveries))}};
}

Worker::Worker(std::unique_ptr<State> state) : state_{std::move(state)} {}
Worker::~Worker() = default;

}  // namespace ipoib::fwd
