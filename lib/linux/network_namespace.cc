// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/network_namespace.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ipoib::kernel {
namespace {

/// The directory in which `ip netns add` makes a file for each namespace.
constexpr const char* kNamespaces = "/run/netns/";

struct Visit {
  int fd;  ///< The namespace.
  const std::function<void()>* job;
  int error = 0;  ///< Error number of setns(), or zero.
};

/// The thread ends in the other namespace.
void* visit_namespace(void* argument) {
  Visit& visit = *static_cast<Visit*>(argument);
  if (setns(visit.fd, CLONE_NEWNET) == 0)
    (*visit.job)();
  else
    visit.error = errno;
  return nullptr;
}

/// Returns an error number.
int run_in_thread(Visit& visit) {
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, &visit_namespace, &visit);
  return error != 0 ? error : pthread_join(thread, nullptr);
}

}  // namespace

Status in_network_namespace(const std::string& name, const std::function<void()>& job) {
  if (name.empty()) {
    job();
    return {};
  }
  const std::string path = name.find('/') == std::string::npos ? kNamespaces + name : name;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return fail(errno == ENOENT ? Errc::kNotFound : Errc::kUnavailable, "network namespace {}: {}",
                path, std::strerror(errno));
  Visit visit{fd, &job};
  const int failed = run_in_thread(visit);
  close(fd);
  if (failed != 0)
    return fail(Errc::kNoResources, "cannot create a thread for network namespace {}: {}", path,
                std::strerror(failed));
  if (visit.error == EINVAL)
    return fail(Errc::kInvalidArgument, "{} is no network namespace", path);
  if (visit.error != 0)
    return fail(Errc::kUnavailable, "cannot enter network namespace {}: {}", path,
                std::strerror(visit.error));
  return {};
}

}  // namespace ipoib::kernel
