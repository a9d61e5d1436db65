// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/node/filter_list.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/wire/ip_prefix.h"

namespace ipoib::mgmt {
namespace {

bool has_host_bits(const std::optional<wire::IpPrefix>& prefix) {
  return prefix && wire::network(*prefix) != prefix->addr;
}

}  // namespace

/// Shared with the thread.
struct FilterList::Job {
  // Set before the thread starts.
  Rules rules;
  std::map<RuleId, std::size_t> numbers;
  std::function<Compiled(const Rules&)> compile;
  std::function<void()> wake;

  /// Written by the thread before `finished`.
  Compiled compiled;
  /// Release: `compiled` is complete; pairs with the load in advance().
  std::atomic<bool> finished{false};
  /// Release: the thread uses nothing of the node any more. Later it may free the job, but not
  /// `compiled`, which management takes. Pairs with the waits in ~FilterList() and finish().
  std::atomic<bool> over{false};

  void run() {
    compiled = compile(rules);
    finished.store(true, std::memory_order_release);
    wake();
    over.store(true, std::memory_order_release);
    over.notify_all();
  }
};

FilterList::FilterList(Surroundings surroundings) : around_{std::move(surroundings)} {}

FilterList::~FilterList() {
  around_.settings.filters.store(nullptr, std::memory_order_relaxed);
  if (job_ == nullptr) return;
  job_->over.wait(false, std::memory_order_acquire);
  // The thread may be the last that has the job, and may free it after EAL has ended.
  const Compiled last = std::move(job_->compiled);
}

std::uint64_t FilterList::Table::packets(RuleId id) const {
  const auto number = numbers.find(id);
  return number != numbers.end() ? table->packets(number->second) : 0;
}

Status FilterList::check(const FilterConfig& rule) const {
  if (rules_.size() >= fwd::kMaxFilterRules)
    return fail(Errc::kNoResources, "there are {} filter rules, which is the most",
                fwd::kMaxFilterRules);
  if (const auto fault = fwd::fault_of(rule.rule); !fault.empty())
    return fail(Errc::kInvalidArgument, "{}", fault);
  if (has_host_bits(rule.rule.source) || has_host_bits(rule.rule.destination))
    return fail(Errc::kInvalidArgument, "the prefix of a filter rule has host bits");
  if (!rule.iface.empty() && around_.interface_of(rule.iface) == table::kNoInterface)
    return fail(Errc::kNotFound, "no link or port {}", rule.iface);
  return {};
}

Status FilterList::begin_with(const std::vector<FilterConfig>& rules) {
  for (const FilterConfig& rule : rules)
    if (auto added = add(rule, std::nullopt); !added) return added;
  changed_ = false;
  if (rules_.empty()) return {};
  Table table;
  auto compiled = around_.compile(numbered(table.numbers));
  if (!compiled) return tl::make_unexpected(compiled.error());
  table.table = std::move(*compiled);
  publish(std::move(table));
  return {};
}

Status FilterList::add(const FilterConfig& rule, std::optional<std::size_t> number) {
  expects_management();
  if (auto good = check(rule); !good) return good;
  const std::size_t place = number.value_or(rules_.size() + 1);
  if (place < 1 || place > rules_.size() + 1)
    return fail(Errc::kInvalidArgument, "no place {} for a filter rule; allowed: 1-{}", place,
                rules_.size() + 1);
  rules_.insert(rules_.begin() + static_cast<std::ptrdiff_t>(place - 1),
                Entry{++last_id_, rule, 0});
  list_changed();
  return {};
}

Status FilterList::remove(std::size_t number) {
  expects_management();
  if (number < 1 || number > rules_.size())
    return fail(Errc::kNotFound, "no filter rule {}; there are {}", number, rules_.size());
  rules_.erase(rules_.begin() + static_cast<std::ptrdiff_t>(number - 1));
  list_changed();
  return {};
}

/// The new list may be one that can be compiled: it does not wait for the next attempt of the old.
void FilterList::list_changed() {
  changed_ = true;
  not_before_ = {};
  pause_ = kFirstPause;
}

void FilterList::advance(TimePoint now) {
  expects_management();
  if (job_ != nullptr && job_->finished.load(std::memory_order_acquire)) finish(now);
  free_old();
  if (changed_ && job_ == nullptr && old_.table == nullptr && now >= not_before_) start(now);
}

/// The rules as workers need them. `numbers`: those of the result. Rules of interfaces that are not
/// there are left out.
FilterList::Rules FilterList::numbered(std::map<RuleId, std::size_t>& numbers) const {
  Rules rules;
  for (const Entry& entry : rules_) {
    const bool every = entry.config.iface.empty();
    const table::InterfaceId iface =
        every ? table::kNoInterface : around_.interface_of(entry.config.iface);
    if (!every && iface == table::kNoInterface) continue;
    numbers.emplace(entry.id, rules.size());
    rules.push_back({iface, entry.config.rule});
  }
  return rules;
}

void FilterList::start(TimePoint now) {
  changed_ = false;
  auto job = std::make_shared<Job>();
  job->rules = numbered(job->numbers);
  if (job->rules.empty()) return publish({});
  job->compile = around_.compile;
  job->wake = around_.wake;
  if (auto started = around_.start_thread([job] { job->run(); }); !started)
    return failed(started.error(), now);
  job_ = std::move(job);
}

void FilterList::finish(TimePoint now) {
  const std::shared_ptr<Job> job = std::exchange(job_, nullptr);
  job->over.wait(false, std::memory_order_acquire);
  if (!job->compiled) return failed(job->compiled.error(), now);
  pause_ = kFirstPause;
  publish({std::move(*job->compiled), std::move(job->numbers)});
}

void FilterList::failed(const Error& error, TimePoint now) {
  if (changed_) {
    log(LogArea::kMgmt, LogLevel::kErr,
        "filter rules that have changed again are not in effect: {}; the next are compiled",
        error.what);
    return;
  }
  log(LogArea::kMgmt, LogLevel::kErr,
      "the changed filter rules are not in effect, those before stay: {}; next attempt in {} s",
      error.what, std::chrono::duration_cast<std::chrono::seconds>(pause_).count());
  changed_ = true;
  not_before_ = now + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
}

void FilterList::publish(Table table) {
  expects(old_.table == nullptr, "one table is replaced at a time");
  old_ = std::exchange(active_, std::move(table));
  // Release: pairs with the load at the begin of a worker's loop.
  around_.settings.filters.store(active_.table.get(), std::memory_order_release);
  if (old_.table == nullptr) return;
  old_token_ = around_.grace.start();
}

/// The counters of an old table are read last when no worker writes to them any more.
void FilterList::free_old() {
  if (old_.table == nullptr || !around_.grace.over(old_token_)) return;
  for (Entry& entry : rules_) entry.packets += old_.packets(entry.id);
  old_ = {};
}

std::vector<FilterInfo> FilterList::rows() const {
  std::vector<FilterInfo> rows;
  rows.reserve(rules_.size());
  for (const Entry& entry : rules_)
    rows.push_back({rows.size() + 1, entry.config,
                    entry.packets + active_.packets(entry.id) + old_.packets(entry.id),
                    active_.numbers.contains(entry.id)});
  return rows;
}

}  // namespace ipoib::mgmt
