// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/prefix_table.h"

#include <rte_errno.h>
#include <rte_rcu_qsbr.h>

#include <new>

#include "lib/base/contract.h"

namespace ipoib::table {

Result<std::unique_ptr<PrefixTable>> PrefixTable::create(const Config& config, rte_rcu_qsbr* rcu) {
  expects_management();
  rte_lpm_config lpm_config{};
  lpm_config.max_rules = config.max_prefixes;
  lpm_config.number_tbl8s = config.max_groups;
  rte_lpm* const lpm = rte_lpm_create(config.name.c_str(), config.socket, &lpm_config);
  if (lpm == nullptr)
    return fail(Errc::kNoResources, "prefix table {} of {} prefixes and {} groups: {}", config.name,
                config.max_prefixes, config.max_groups, rte_strerror(rte_errno));
  std::unique_ptr<PrefixTable> table{new (std::nothrow) PrefixTable{lpm}};
  if (!table) {
    rte_lpm_free(lpm);
    return fail(Errc::kNoResources, "no memory for prefix table {}", config.name);
  }
  // A freed group waits in a queue for the grace period; no call blocks.
  rte_lpm_rcu_config rcu_config{};
  rcu_config.v = rcu;
  rcu_config.mode = RTE_LPM_QSBR_MODE_DQ;
  if (rte_lpm_rcu_qsbr_add(lpm, &rcu_config) != 0)
    return fail(Errc::kNoResources, "prefix table {}: cannot attach RCU: {}", config.name,
                rte_strerror(rte_errno));
  return table;
}

PrefixTable::~PrefixTable() {
  rte_lpm_free(lpm_);
}

Status PrefixTable::add(const wire::IpPrefix& prefix, NextHopIndex next_hop) {
  expects_management();
  if (!prefix.addr.is_v4() || prefix.len > 32)
    return fail(Errc::kInvalidArgument, "{} is not an IPv4 prefix", wire::to_string(prefix));
  if (next_hop >= kMaxNextHops)
    return fail(Errc::kInvalidArgument, "invalid next hop {} of {}, allowed: below {}", next_hop,
                wire::to_string(prefix), kMaxNextHops);
  if (prefix.len == 0) {
    // Release: pairs with the load in view(). A reader of the number sees its next hop, too.
    default_.store(next_hop, std::memory_order_release);
    has_default_ = true;
    return {};
  }
  if (const int rc = rte_lpm_add(lpm_, prefix.addr.v4_host(), prefix.len, next_hop); rc != 0)
    return fail(Errc::kNoResources, "no room for prefix {}: {}", wire::to_string(prefix),
                rte_strerror(-rc));
  return {};
}

Status PrefixTable::remove(const wire::IpPrefix& prefix) {
  expects_management();
  if (!prefix.addr.is_v4() || prefix.len > 32)
    return fail(Errc::kInvalidArgument, "{} is not an IPv4 prefix", wire::to_string(prefix));
  bool removed = false;
  if (prefix.len == 0) {
    removed = has_default_;
    default_.store(kNextHopNone, std::memory_order_relaxed);
    has_default_ = false;
  } else {
    removed = rte_lpm_delete(lpm_, prefix.addr.v4_host(), prefix.len) == 0;
  }
  if (!removed) return fail(Errc::kNotFound, "no prefix {}", wire::to_string(prefix));
  return {};
}

}  // namespace ipoib::table
