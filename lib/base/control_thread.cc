// SPDX-License-Identifier: BSD-3-Clause
#include "lib/base/control_thread.h"

#include <rte_lcore.h>

#include <pthread.h>

#include <memory>
#include <utility>

namespace ipoib {
namespace {

void* run_job(void* job) {
  const std::unique_ptr<std::function<void()>> own{static_cast<std::function<void()>*>(job)};
  (*own)();
  return nullptr;
}

}  // namespace

Status run_on_control_thread(const char* name, const char* purpose, std::function<void()> job) {
  auto own = std::make_unique<std::function<void()>>(std::move(job));
  pthread_t thread{};
  if (rte_ctrl_thread_create(&thread, name, nullptr, &run_job, own.get()) != 0)
    return fail(Errc::kNoResources, "cannot create the thread that {}", purpose);
  static_cast<void>(own.release());
  pthread_detach(thread);
  return {};
}

}  // namespace ipoib
