// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/path_checks.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::link {
namespace {

constexpr unsigned kMaxMisses = 2;

}  // namespace

void PathChecks::set_paths(std::span<const fabric::AhIndex> handles, TimePoint now) {
  std::vector<Path> paths;
  for (const fabric::AhIndex ah : handles) {
    const Path* const known = find(ah);
    paths.push_back(known != nullptr ? *known : Path{.ah = ah});
  }
  if (std::ranges::all_of(paths, &Path::left))
    for (Path& path : paths) path.left = false;
  paths_ = std::move(paths);
  if (find(open_) == nullptr) open_ = fabric::kNoAh;
  if (paths_.size() < 2) {
    turn_at_ = due_ = kNever;
  } else if (turn_at_ == kNever) {
    turn_at_ = due_ = now + turn();
  } else if (open_ == fabric::kNoAh) {
    due_ = std::min(due_, turn_at_);
  }
}

PathChecks::Path* PathChecks::find(fabric::AhIndex ah) {
  const auto it = std::ranges::find(paths_, ah, &Path::ah);
  return it == paths_.end() ? nullptr : &*it;
}

bool PathChecks::is_left(fabric::AhIndex ah) const {
  return std::ranges::any_of(paths_, [ah](const Path& path) { return path.ah == ah && path.left; });
}

/// The next check begins in judge() and start(), because this may be a call of a user of the paths.
void PathChecks::answered(TimePoint now) {
  Path* const path = find(std::exchange(open_, fabric::kNoAh));
  if (path == nullptr) return;
  path->misses = 0;
  path->answered_at = now;
  if (std::exchange(path->left, false)) changed_ = true;
  due_ = now;
}

/// True if another path in use has carried an answer since the first one that is missing.
bool PathChecks::other_answers(const Path& missing) const {
  return std::ranges::any_of(paths_, [&missing](const Path& other) {
    return &other != &missing && !other.left && other.answered_at >= missing.missed_at;
  });
}

bool PathChecks::judge(TimePoint now) {
  if (Path* const path = find(std::exchange(open_, fabric::kNoAh)); path != nullptr && !path->left)
    if (path->misses++ == 0) path->missed_at = now;
  bool changed = std::exchange(changed_, false);
  for (Path& path : paths_) {
    if (path.left || path.misses < kMaxMisses || !other_answers(path)) continue;
    path.left = true;
    path.misses = 0;
    changed = true;
  }
  return changed;
}

/// Returns the path whose check shows if one that missed an answer is broken; null: none is needed.
PathChecks::Path* PathChecks::urgent() {
  const auto missing =
      std::ranges::find_if(paths_, [](const Path& path) { return !path.left && path.misses > 0; });
  if (missing == paths_.end()) return nullptr;
  if (other_answers(*missing)) return &*missing;
  const auto other =
      std::ranges::find_if(paths_, [](const Path& path) { return !path.left && path.misses == 0; });
  if (other != paths_.end()) return &*other;
  ++silences_;
  forget_misses();
  return nullptr;
}

fabric::AhIndex PathChecks::start(TimePoint now) {
  expects(open_ == fabric::kNoAh, "one check at a time");
  if (paths_.size() < 2) return fabric::kNoAh;
  Path* next = urgent();
  if (next == nullptr && now < turn_at_) {
    due_ = turn_at_;
    return fabric::kNoAh;
  }
  if (next == nullptr) {
    next = &*std::ranges::min_element(paths_, {}, &Path::checked_at);
    turn_at_ = now + turn();
  }
  next->checked_at = now;
  open_ = next->ah;
  due_ = now + kTimeout;
  return open_;
}

void PathChecks::put_off(Duration wait, TimePoint now) {
  Path* const path = find(std::exchange(open_, fabric::kNoAh));
  if (path != nullptr) path->checked_at = TimePoint::min();
  turn_at_ = due_ = now + wait;
}

void PathChecks::forget_misses() {
  for (Path& path : paths_) path.misses = 0;
}

Duration PathChecks::turn() const {
  return kInterval / static_cast<Duration::rep>(paths_.size());
}

}  // namespace ipoib::link
