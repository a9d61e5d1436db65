// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fwd/filter/filter_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

namespace ipoib::fwd {
namespace {

/// Size of the tries up to which rte_acl makes few, which are fast; larger sets of rules get more.
constexpr std::size_t kFastOctets = 32 << 20;
constexpr unsigned kProtocolField = 0, kIfaceField = 1, kDirectionField = 2, kHasPortsField = 3,
                   kAddressField = 4;

/// `kWords`: of an address.
template <std::size_t kWords>
constexpr std::size_t kFields = kAddressField + 2 * kWords + 2;

template <std::size_t kWords>
struct AclRule {
  rte_acl_rule_data data{};
  std::array<rte_acl_field, kFields<kWords>> field{};
};

rte_acl_field_def field_def(std::uint8_t type, std::size_t size, std::size_t field,
                            std::size_t input, std::size_t offset) {
  return {type, static_cast<std::uint8_t>(size), static_cast<std::uint8_t>(field),
          static_cast<std::uint8_t>(input), static_cast<std::uint32_t>(offset)};
}

/// The fields of FilterKey4 or FilterKey6.
template <std::size_t kWords>
rte_acl_config config_of() {
  using Key = std::conditional_t<kWords == 1, FilterKey4, FilterKey6>;
  constexpr std::uint8_t kBits = RTE_ACL_FIELD_TYPE_BITMASK, kMask = RTE_ACL_FIELD_TYPE_MASK,
                         kRange = RTE_ACL_FIELD_TYPE_RANGE;
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  rte_acl_config config{};
  config.num_categories = 1;
  config.num_fields = kFields<kWords>;
  auto* def = config.defs;
  *def++ = field_def(kBits, 1, kProtocolField, 0, offsetof(FilterKeyHead, protocol));
  *def++ = field_def(kBits, 2, kIfaceField, 1, offsetof(FilterKeyHead, iface));
  *def++ = field_def(kBits, 1, kDirectionField, 1, offsetof(FilterKeyHead, direction));
  *def++ = field_def(kBits, 1, kHasPortsField, 1, offsetof(FilterKeyHead, has_ports));
  for (std::size_t i = 0; i < 2 * kWords; ++i)
    *def++ = field_def(kMask, kWord, kAddressField + i, 2 + i, sizeof(FilterKeyHead) + i * kWord);
  constexpr std::size_t kPorts = kAddressField + 2 * kWords, kInput = 2 + 2 * kWords;
  *def++ = field_def(kRange, 2, kPorts, kInput, sizeof(Key) - kWord);
  *def++ = field_def(kRange, 2, kPorts + 1, kInput, sizeof(Key) - kWord / 2);
  return config;
}

rte_acl_field exactly(std::uint16_t value, std::uint16_t mask) {
  rte_acl_field field{};
  field.value.u16 = value;
  field.mask_range.u16 = mask;
  return field;
}

rte_acl_field range(const std::optional<PortRange>& ports) {
  const PortRange allowed = ports.value_or(PortRange{});
  return exactly(allowed.first, allowed.last);
}

/// Writes the words of a prefix, each with the number of its bits that count.
template <std::size_t kWords>
void set_prefix(rte_acl_field* field, const std::optional<wire::IpPrefix>& prefix) {
  if (!prefix) return;
  constexpr unsigned kWordBits = 32;
  const std::byte* word = prefix->addr.bytes.data() + sizeof(wire::IpAddr) - 4 * kWords;
  for (unsigned i = 0; i < kWords; ++i, word += 4) {
    wire::Be32 value;
    std::memcpy(&value, word, sizeof(value));
    const unsigned before = i * kWordBits;
    field[i].value.u32 = value.host();
    field[i].mask_range.u32 =
        std::min(prefix->len - std::min<unsigned>(prefix->len, before), kWordBits);
  }
}

template <std::size_t kWords>
AclRule<kWords> acl_rule(const NumberedRule& numbered, std::size_t number) {
  const FilterRule& rule = numbered.rule;
  AclRule<kWords> acl;
  acl.data.category_mask = 1;
  acl.data.priority = static_cast<std::int32_t>(kMaxFilterRules - number);
  acl.data.userdata = static_cast<std::uint32_t>(number + 1);
  const auto any = exactly(0, 0);
  acl.field[kProtocolField] = rule.protocol ? exactly(*rule.protocol, 0xff) : any;
  acl.field[kIfaceField] =
      numbered.iface != table::kNoInterface ? exactly(numbered.iface, 0xffff) : any;
  acl.field[kDirectionField] = exactly(static_cast<std::uint16_t>(rule.direction), 0xff);
  acl.field[kHasPortsField] = rule.has_ports() ? exactly(1, 0xff) : any;
  set_prefix<kWords>(&acl.field[kAddressField], rule.source);
  set_prefix<kWords>(&acl.field[kAddressField + kWords], rule.destination);
  acl.field[kAddressField + 2 * kWords] = range(rule.source_ports);
  acl.field[kAddressField + 2 * kWords + 1] = range(rule.destination_ports);
  return acl;
}

/// rte_acl_create() returns an existing object of the name.
std::string unique_name() {
  static std::atomic<unsigned> made{0};
  return fmt::format("ipoib_filter_{}", made++);
}

FilterTable::Scope scope_of(const FilterRule& rule) {
  FilterTable::Scope scope = 0;
  if (rule.is_for(true)) scope |= FilterTable::kRules4;
  if (rule.is_for(false)) scope |= FilterTable::kRules6;
  if (rule.has_ports()) scope |= scope << 2;
  if (rule.protocol) scope |= (scope & (FilterTable::kRules4 | FilterTable::kRules6)) << 4;
  return scope;
}

}  // namespace

template <std::size_t kWords>
Result<FilterTable::Acl> FilterTable::build(std::span<const NumberedRule> rules, int socket) {
  const auto no_memory = [&rules](int error) {
    return fail(Errc::kNoResources, "no memory for {} filter rules ({})", rules.size(),
                std::strerror(-error));
  };
  std::vector<AclRule<kWords>> made;
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].rule.is_for(kWords == 1)) made.push_back(acl_rule<kWords>(rules[i], i));
  if (made.empty()) return Acl{};
  const std::string name = unique_name();
  const rte_acl_param param{name.c_str(), socket, RTE_ACL_RULE_SZ(kFields<kWords>),
                            static_cast<std::uint32_t>(made.size())};
  static_assert(sizeof(AclRule<kWords>) == RTE_ACL_RULE_SZ(kFields<kWords>));
  Acl acl{rte_acl_create(&param)};
  if (acl == nullptr) return no_memory(-ENOMEM);
  if (const int error =
          rte_acl_add_rules(acl.get(), reinterpret_cast<const rte_acl_rule*>(made.data()),
                            static_cast<std::uint32_t>(made.size()));
      error != 0)
    return no_memory(error);
  rte_acl_config config = config_of<kWords>();
  config.max_size = kFastOctets;
  int error = rte_acl_build(acl.get(), &config);
  if (error == -ERANGE || error == -ENOMEM) {
    config.max_size = 0;
    error = rte_acl_build(acl.get(), &config);
  }
  if (error != 0) return no_memory(error);
  return acl;
}

FilterTable::FilterTable(std::span<const NumberedRule> rules, const Shape& shape)
    : scopes_(shape.interfaces),
      lines_{(rules.size() + kPerLine - 1) / kPerLine},
      counters_(lines_ * shape.workers) {
  for (const auto& [iface, rule] : rules) {
    drops_.push_back(rule.action == FilterAction::kDrop ? 1 : 0);
    const Scope scope = scope_of(rule);
    const auto direction = static_cast<std::size_t>(rule.direction);
    for (std::size_t i = 0; i < scopes_.size(); ++i)
      if (iface == table::kNoInterface || iface == i) scopes_[i][direction] |= scope;
    has_egress_ = has_egress_ || rule.direction == FilterDirection::kOut;
  }
}

Result<std::unique_ptr<FilterTable>> FilterTable::create(std::span<const NumberedRule> rules,
                                                         const Shape& shape) {
  if (rules.size() > kMaxFilterRules)
    return fail(Errc::kInvalidArgument, "{} filter rules, allowed: up to {}", rules.size(),
                kMaxFilterRules);
  for (const auto& [iface, rule] : rules)
    if (const auto fault = fault_of(rule); !fault.empty())
      return fail(Errc::kInvalidArgument, "filter rule: {}", fault);
  std::unique_ptr<FilterTable> table{new FilterTable{rules, shape}};
  auto acl4 = build<1>(rules, shape.socket);
  if (!acl4) return tl::make_unexpected(acl4.error());
  auto acl6 = build<4>(rules, shape.socket);
  if (!acl6) return tl::make_unexpected(acl6.error());
  table->acl4_ = std::move(*acl4);
  table->acl6_ = std::move(*acl6);
  return table;
}

std::uint64_t FilterTable::packets(std::size_t rule) const noexcept {
  std::uint64_t sum = 0;
  for (std::size_t at = rule / kPerLine; at < counters_.size(); at += lines_)
    sum += counters_[at].counters[rule % kPerLine].get();
  return sum;
}

}  // namespace ipoib::fwd
