// SPDX-License-Identifier: BSD-3-Clause
// Questions to a node from threads other than its management lcore.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "lib/mgmt/node.h"

namespace ipoib::app {

/// Runs `question` on the node's management lcore and waits for what it gives; nothing when that
/// takes longer than `timeout`, or once `given_up` is true. May be called by any thread but that
/// lcore's. The question may run after this has returned: it holds what it needs.
template <class Answer>
std::optional<Answer> ask(mgmt::Node& node, std::function<Answer()> question,
                          std::chrono::milliseconds timeout,
                          const std::atomic<bool>* given_up = nullptr) {
  constexpr std::chrono::milliseconds kLook{20};
  const auto limit = std::chrono::steady_clock::now() + timeout;
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  node.post([promise, question = std::move(question)] { promise->set_value(question()); });
  while (given_up == nullptr || !*given_up) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    if (answer.wait_for(std::clamp(left, std::chrono::milliseconds{0}, kLook)) ==
        std::future_status::ready)
      return answer.get();
    if (left.count() <= 0) break;
  }
  return std::nullopt;
}

}  // namespace ipoib::app
