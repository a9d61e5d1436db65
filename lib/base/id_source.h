// SPDX-License-Identifier: BSD-3-Clause
// Identifiers of messages that no other host can guess. Source: RFC 4086 §7.
#pragma once

#include <cstdint>

#include "lib/base/keyed_hash.h"

namespace ipoib {

/// Without the seed, no number can be computed from the others. Equal seeds give equal numbers, so
/// that simulations are reproducible.
class IdSource {
 public:
  explicit IdSource(std::uint64_t seed) noexcept : hash_{seed} {}

  [[nodiscard]] std::uint64_t next() noexcept { return hash_(count_++); }
  /// Returns an ID other than 0 of which `used` returns false.
  template <class Id, class Used>
  [[nodiscard]] Id next_unused(Used used) {
    while (true) {
      const auto id = static_cast<Id>(next());
      if (id != 0 && !used(id)) return id;
    }
  }

 private:
  KeyedHash hash_;
  std::uint64_t count_ = 0;
};

}  // namespace ipoib
