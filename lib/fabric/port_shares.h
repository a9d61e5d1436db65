// SPDX-License-Identifier: BSD-3-Clause
// The mbufs that messages to one port hold, of all queue pairs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "lib/base/contract.h"
#include "lib/fabric/fabric_types.h"

namespace ipoib::fabric {

/// Mbufs of the messages to one port, of the queue pairs of one worker. Totals count modulo 2^32.
class PortShare {
 public:
  /// Worker lcore.
  [[nodiscard]] std::uint32_t held() const noexcept {
    expects_worker();
    return held_ - given_back_.load(std::memory_order_relaxed);
  }
  /// Worker lcore.
  void add(std::uint32_t mbufs) noexcept {
    expects_worker();
    held_ += mbufs;
  }
  /// Worker lcore.
  void remove(std::uint32_t mbufs) noexcept {
    expects_worker();
    held_ -= mbufs;
  }
  /// Management lcore: the mbufs of a queue pair that no worker uses any more.
  void give_back(std::uint32_t mbufs) noexcept {
    expects_management();
    given_back_.fetch_add(mbufs, std::memory_order_relaxed);
  }

 private:
  std::uint32_t held_ = 0;
  std::atomic<std::uint32_t> given_back_{0};
};

/// The shares of the ports to which there are queue pairs. Management lcore.
class PortShares {
 public:
  /// The share of the port at the end of a path. A port is known by its GID where the path has a GRH,
  /// so that ports behind one router are apart, and by its LID elsewhere.
  [[nodiscard]] std::shared_ptr<PortShare> of(const AhAttr& path) {
    expects_management();
    if (shares_.size() >= tidy_at_) {
      std::erase_if(shares_, [](const auto& entry) { return entry.second.expired(); });
      tidy_at_ = 2 * shares_.size() + kLeastTidied;
    }
    const Key key = path.global ? Key{0, path.dgid} : Key{path.dlid, {}};
    auto share = shares_[key].lock();
    if (share == nullptr) shares_[key] = share = std::make_shared<PortShare>();
    return share;
  }

 private:
  static constexpr std::size_t kLeastTidied = 16;
  using Key = std::pair<std::uint16_t, wire::Gid>;
  std::map<Key, std::weak_ptr<PortShare>> shares_;
  /// At this size, ports without queue pairs are removed. It doubles, so that the cost of one port does
  /// not grow with the others.
  std::size_t tidy_at_ = kLeastTidied;
};

}  // namespace ipoib::fabric
