// SPDX-License-Identifier: BSD-3-Clause
// The node's filter rules, in order. Changed rules are compiled in a thread of their own, because
// that may take seconds, and then replace those that the workers use, all at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/fabric/grace.h"
#include "lib/fwd/filter/filter_table.h"
#include "lib/fwd/worker_config.h"
#include "lib/mgmt/filter_config.h"

namespace ipoib::mgmt {

/// Management lcore only. While one list is compiled, further changes wait for the next one. A list
/// that cannot be compiled leaves the workers theirs; it is logged, and compiled again later, or as
/// soon as it changes. An empty list is not compiled.
class FilterList {
 public:
  using Rules = std::vector<fwd::NumberedRule>;
  using Compiled = Result<std::unique_ptr<fwd::FilterTable>>;

  struct Surroundings {
    fwd::Settings& settings;  ///< The workers read their table there.
    fabric::Grace grace;
    /// kNoInterface: there is no interface of the name; its rules wait.
    std::function<table::InterfaceId(std::string_view name)> interface_of;
    std::function<Compiled(const Rules&)> compile;                  ///< Any thread.
    std::function<Status(std::function<void()> job)> start_thread;  ///< The job runs elsewhere.
    std::function<void()> wake;  ///< Asks for a turn of advance(). Any thread.
  };
  /// The longest pause before a list is compiled again that failed; the first is kFirstPause.
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::minutes(1);

  explicit FilterList(Surroundings surroundings);
  /// Waits for the end of a compilation. The workers must have ended.
  ~FilterList();
  FilterList(const FilterList&) = delete;
  FilterList& operator=(const FilterList&) = delete;

  /// Compiles the first rules, before the workers start. Errors: those of FilterTable::create().
  Status begin_with(const std::vector<FilterConfig>& rules);
  /// Inserts a rule as number `number`, from 1; none: at the end. Errors: kInvalidArgument: the
  /// rule makes no sense, or there is no such place; kNotFound: no such interface; kNoResources:
  /// there are kMaxFilterRules.
  Status add(const FilterConfig& rule, std::optional<std::size_t> number);
  /// kNotFound: there is no such rule.
  Status remove(std::size_t number);

  /// Publishes what has been compiled, frees what no worker uses any more, and has changes
  /// compiled. Once per turn of the loop.
  void advance(TimePoint now);

  [[nodiscard]] std::size_t size() const { return rules_.size(); }
  [[nodiscard]] std::vector<FilterInfo> rows() const;

 private:
  using RuleId = std::uint64_t;
  struct Entry {
    RuleId id = 0;
    FilterConfig config;
    std::uint64_t packets = 0;  ///< Counted by tables that are freed.
  };
  /// A table with the numbers that it has for the rules.
  struct Table {
    std::unique_ptr<fwd::FilterTable> table;
    std::map<RuleId, std::size_t> numbers;

    [[nodiscard]] std::uint64_t packets(RuleId id) const;
  };
  struct Job;

  [[nodiscard]] Status check(const FilterConfig& rule) const;
  [[nodiscard]] Rules numbered(std::map<RuleId, std::size_t>& numbers) const;
  void list_changed();
  void start(TimePoint now);
  void finish(TimePoint now);
  void failed(const Error& error, TimePoint now);
  void publish(Table table);
  void free_old();

  Surroundings around_;
  std::vector<Entry> rules_;
  RuleId last_id_ = 0;
  bool changed_ = false;  ///< Since the compilation that was started last.
  std::shared_ptr<Job> job_;
  Duration pause_ = kFirstPause;  ///< After the next failure.
  TimePoint not_before_{};
  Table active_;
  Table old_;  ///< Until `old_token_` is over.
  std::uint64_t old_token_ = 0;
};

}  // namespace ipoib::mgmt
