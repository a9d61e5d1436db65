// SPDX-License-Identifier: BSD-3-Clause
// A list of filter rules compiled for workers, by rte_acl: one trie for each IP version. A search
// compares all rules at once. Interface and direction are fields of the keys, so one table has the rules
// of all interfaces.
#pragma once

#include <rte_acl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/counters.h"
#include "lib/base/result.h"
#include "lib/fwd/filter/filter_rule.h"
#include "lib/table/neighbour.h"

namespace ipoib::fwd {

/// A packet as rte_acl compares it: a first field of one octet, then groups of four octets, in
/// network order.
struct FilterKeyHead {
  std::uint8_t protocol;
  std::array<std::uint8_t, 3> unused;
  wire::Be16 iface;
  FilterDirection direction;
  bool has_ports;
};
template <class Address>
struct FilterKey {
  FilterKeyHead head;
  Address src;
  Address dst;
  std::uint32_t ports;  ///< In the order of the packet.
};
using FilterKey4 = FilterKey<wire::Be32>;
using FilterKey6 = FilterKey<wire::IpAddr>;
static_assert(sizeof(FilterKey4) == 20 && sizeof(FilterKey6) == 44);

/// A rule with the number of its interface.
struct NumberedRule {
  table::InterfaceId iface = table::kNoInterface;  ///< kNoInterface: every interface.
  FilterRule rule;
};

/// Constant, except the counters. Management makes and frees it (after a grace period), workers use
/// it within one loop.
class FilterTable {
 public:
  struct Shape {
    std::size_t interfaces = 0;  ///< Interface numbers are below this.
    unsigned workers = 1;
    int socket = -1;  ///< NUMA node of the memory; -1: any.
  };
  /// Any thread; may take seconds. `rules`: in order, each without a fault_of(). Errors:
  /// kNoResources: no memory; kInvalidArgument.
  static Result<std::unique_ptr<FilterTable>> create(std::span<const NumberedRule> rules,
                                                     const Shape& shape);
  FilterTable(const FilterTable&) = delete;
  FilterTable& operator=(const FilterTable&) = delete;

  /// Bits for the members that the rules of an interface and direction compare.
  using Scope = std::uint8_t;
  static constexpr Scope kRules4 = 1, kRules6 = 2;          ///< There are rules of that version.
  static constexpr Scope kPorts4 = 4, kPorts6 = 8;          ///< Some have ports.
  static constexpr Scope kProtocol4 = 16, kProtocol6 = 32;  ///< Some have a protocol.
  [[nodiscard]] Scope scope(table::InterfaceId iface, FilterDirection direction) const noexcept {
    return iface < scopes_.size() ? scopes_[iface][static_cast<std::size_t>(direction)] : Scope{0};
  }
  /// True if some interface has rules for packets that leave.
  [[nodiscard]] bool has_egress() const noexcept { return has_egress_; }

  /// Sets results[i] to 1 plus the number of the first rule that keys[i] fits; 0: it fits none.
  /// Call only if there are rules of that version.
  void classify4(std::span<const std::uint8_t*> keys, std::uint32_t* results) const noexcept {
    classify(acl4_.get(), keys, results);
  }
  void classify6(std::span<const std::uint8_t*> keys, std::uint32_t* results) const noexcept {
    classify(acl6_.get(), keys, results);
  }
  [[nodiscard]] bool drops(std::size_t rule) const noexcept { return drops_[rule] != 0; }
  /// The worker counts a packet that fits the rule.
  void count(unsigned worker, std::size_t rule) noexcept {
    counters_[worker * lines_ + rule / kPerLine].counters[rule % kPerLine].add(1);
  }

  [[nodiscard]] std::size_t size() const noexcept { return drops_.size(); }
  /// Any thread. Packets that fit the rule, of all workers.
  [[nodiscard]] std::uint64_t packets(std::size_t rule) const noexcept;

 private:
  struct AclFree {
    void operator()(rte_acl_ctx* acl) const noexcept { rte_acl_free(acl); }
  };
  using Acl = std::unique_ptr<rte_acl_ctx, AclFree>;
  static constexpr std::size_t kPerLine = 8;
  struct alignas(64) Line {
    std::array<Counter, kPerLine> counters;
  };

  FilterTable(std::span<const NumberedRule> rules, const Shape& shape);
  template <std::size_t kWords>
  static Result<Acl> build(std::span<const NumberedRule> rules, int socket);
  static void classify(const rte_acl_ctx* acl, std::span<const std::uint8_t*> keys,
                       std::uint32_t* results) noexcept {
    static_cast<void>(
        rte_acl_classify(acl, keys.data(), results, static_cast<std::uint32_t>(keys.size()), 1));
  }

  Acl acl4_, acl6_;                           ///< Null: no rules of that version.
  std::vector<std::array<Scope, 2>> scopes_;  ///< Indexed by interface and direction.
  bool has_egress_ = false;
  std::vector<std::uint8_t> drops_;  ///< Indexed by rule: 1: its action is drop.
  std::size_t lines_;                ///< Lines of each worker, so that no two share one.
  std::vector<Line> counters_;
};

}  // namespace ipoib::fwd
