// SPDX-License-Identifier: BSD-3-Clause
// Runs functions on a node's management lcore for other threads and returns their results.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "lib/mgmt/management_loop.h"

namespace ipoib::app {

/// Runs `question` on the management lcore of `loop` and waits for its result. Returns nothing
/// after `timeout`, or once `given_up` is true. Any thread except the management lcore may call it.
/// `question` may still run after this has returned, so it must own everything that it uses.
template <class Answer>
std::optional<Answer> ask(mgmt::ManagementLoop& loop, std::function<Answer()> question,
                          std::chrono::milliseconds timeout,
                          const std::atomic<bool>* given_up = nullptr) {
  constexpr std::chrono::milliseconds kLook{20};
  const auto limit = std::chrono::steady_clock::now() + timeout;
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  loop.post([promise, question = std::move(question)] { promise->set_value(question()); });
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
