// SPDX-License-Identifier: BSD-3-Clause
// Contracts that no type can express: conditions on arguments and results, and the lcore that may
// call a function. A build with a sanitizer defines IPOIB_CHECK_CONTRACTS and checks every call; in
// any other build a check compiles to no code.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

namespace ipoib {

#ifdef IPOIB_CHECK_CONTRACTS
inline constexpr bool kContractsChecked = true;
#else
inline constexpr bool kContractsChecked = false;
#endif

/// Prints place and reason to stderr, and aborts. Builds that do not check contracts never call it.
[[noreturn, gnu::cold, gnu::noinline]] inline void contract_broken(const char* kind,
                                                                   const char* sentence,
                                                                   const char* file, int line) {
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, kind, sentence);
  std::abort();
}

/// Evaluates a condition, or a callable that computes it. Builds that do not check contracts never
/// call the callable, so it may be expensive.
template <class Condition>
[[nodiscard]] constexpr bool contract_holds(Condition&& condition) {
  if constexpr (std::is_invocable_r_v<bool, Condition>)
    return std::forward<Condition>(condition)();
  else
    return static_cast<bool>(condition);
}

/// Checks a precondition. `sentence` states the condition, for the reader of the abort message.
template <class Condition>
[[gnu::always_inline]] constexpr void expects(const Condition& condition, const char* sentence,
                                              const char* file = __builtin_FILE(),
                                              int line = __builtin_LINE()) {
  if constexpr (kContractsChecked)
    if (!contract_holds(condition)) [[unlikely]]
      contract_broken("the caller broke a contract", sentence, file, line);
}

/// Checks a postcondition of the function itself.
template <class Condition>
[[gnu::always_inline]] constexpr void ensures(const Condition& condition, const char* sentence,
                                              const char* file = __builtin_FILE(),
                                              int line = __builtin_LINE()) {
  if constexpr (kContractsChecked)
    if (!contract_holds(condition)) [[unlikely]]
      contract_broken("a function broke its contract", sentence, file, line);
}

/// Current role of a thread in the node.
struct LcoreRole {
  enum class Kind : std::uint8_t {
    kAny,         ///< No role: set-up, tear-down and unit tests may call every function.
    kManagement,  ///< A turn of the management lcore's loop.
    kWorker,      ///< A turn of a worker's loop.
  };
  Kind kind = Kind::kAny;
  std::uint32_t worker = 0;  ///< kWorker: number of the worker.

  [[nodiscard]] static constexpr LcoreRole management() { return {Kind::kManagement, 0}; }
  [[nodiscard]] static constexpr LcoreRole worker_number(std::uint32_t number) {
    return {Kind::kWorker, number};
  }
};

/// Used only in builds that check contracts.
inline thread_local LcoreRole lcore_role{};

/// Gives the calling thread a role until the end of the scope.
class [[maybe_unused]] ActingAs {
 public:
  [[gnu::always_inline]] explicit ActingAs(LcoreRole role) noexcept {
    if constexpr (kContractsChecked) before_ = std::exchange(lcore_role, role);
  }
  [[gnu::always_inline]] ~ActingAs() {
    if constexpr (kContractsChecked) lcore_role = before_;
  }
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;

 private:
  LcoreRole before_{};
};

/// "Management lcore only": a worker's loop must not call the function.
[[gnu::always_inline]] inline void expects_management(const char* file = __builtin_FILE(),
                                                      int line = __builtin_LINE()) {
  if constexpr (kContractsChecked)
    if (lcore_role.kind == LcoreRole::Kind::kWorker) [[unlikely]]
      contract_broken("wrong lcore", "a worker called a function of the management lcore", file,
                      line);
}

/// "Worker lcore only": the management lcore's loop must not call the function.
[[gnu::always_inline]] inline void expects_worker(const char* file = __builtin_FILE(),
                                                  int line = __builtin_LINE()) {
  if constexpr (kContractsChecked)
    if (lcore_role.kind == LcoreRole::Kind::kManagement) [[unlikely]]
      contract_broken("wrong lcore", "the management lcore called a function of a worker", file,
                      line);
}

/// "One lcore": the first caller with a role becomes the owner, and no caller with another role may
/// follow. A member that is declared [[no_unique_address]] takes no space in builds that do not
/// check contracts.
template <bool kChecked>
class OneLcoreIf {
 public:
  [[gnu::always_inline]] void expects_owner() const noexcept {}
};

template <>
class OneLcoreIf<true> {
 public:
  void expects_owner(const char* file = __builtin_FILE(),
                     int line = __builtin_LINE()) const noexcept {
    if (lcore_role.kind == LcoreRole::Kind::kAny) return;
    const std::uint64_t here =
        std::uint64_t{static_cast<std::uint8_t>(lcore_role.kind)} << 32 | lcore_role.worker;
    // Relaxed is sufficient: two concurrent callers are the error that this check must find.
    std::uint64_t owner = kNobody;
    if (!owner_.compare_exchange_strong(owner, here, std::memory_order_relaxed) && owner != here)
        [[unlikely]]
      contract_broken("wrong lcore", "two lcores called functions of one lcore", file, line);
  }

 private:
  static constexpr std::uint64_t kNobody = 0;  // no role has this value, except kAny
  mutable std::atomic<std::uint64_t> owner_{kNobody};
};

using OneLcore = OneLcoreIf<kContractsChecked>;

/// A value that only checks use. Builds that do not check contracts store nothing, and is() always
/// returns true. Declare it [[no_unique_address]].
template <class T, bool kChecked = kContractsChecked>
class ForChecks {
 public:
  constexpr void set(const T&) noexcept {}
  [[nodiscard]] constexpr bool is(const T&) const noexcept { return true; }
};

template <class T>
class ForChecks<T, true> {
 public:
  constexpr void set(const T& value) noexcept { value_ = value; }
  [[nodiscard]] constexpr bool is(const T& value) const noexcept { return value_ == value; }

 private:
  T value_{};
};

}  // namespace ipoib
