// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/own_addresses.h"

#include <algorithm>

#include "lib/base/contract.h"

namespace ipoib::table {

void OwnAddresses::add(const wire::IpAddr& addr) {
  expects_management();
  if (!addresses_.insert(addr).second) return;
  const std::size_t bit = bit_of(word_of(addr));
  std::atomic<std::uint64_t>& word = words_[bit / 64];
  word.store(word.load(std::memory_order_relaxed) | std::uint64_t{1} << bit % 64,
             std::memory_order_relaxed);
}

void OwnAddresses::remove(const wire::IpAddr& addr) {
  expects_management();
  if (addresses_.erase(addr) == 0) return;
  const std::size_t bit = bit_of(word_of(addr));
  const bool shared = std::any_of(addresses_.begin(), addresses_.end(), [bit](const auto& other) {
    return bit_of(word_of(other)) == bit;
  });
  if (shared) return;
  std::atomic<std::uint64_t>& word = words_[bit / 64];
  word.store(word.load(std::memory_order_relaxed) & ~(std::uint64_t{1} << bit % 64),
             std::memory_order_relaxed);
}

}  // namespace ipoib::table
