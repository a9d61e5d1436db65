// SPDX-License-Identifier: BSD-3-Clause
// Stands before libumad2sim in LD_PRELOAD, because libumad2sim (ibsim 0.10 to 0.12) ends a process
// with SIGSEGV when a MAD arrives for which the process has no agent. Its receiver thread looks up
// the agent's descriptor, and locks the mutex in it before it checks that there is one. This hits a
// node that stops: it has unregistered its agents, and MADs still arrive until the process exits. A
// close has a race, too: libumad2sim frees the descriptor's queue without a lock, while the
// receiver may be using it.
//
// libumad2sim has eight descriptors, and its lookup for a class without an agent yields the last of
// them. So all eight are opened together and stay open until exit. The process uses the first
// seven; the last one collects the MADs without an agent. The receiver runs only while these
// descriptors are there: it is held back until the first open and silenced at exit.
//
// libumad2sim leaves the P_Key index of a received MAD, and all behind it, as malloc() gave it. OpenSM
// compares the index when it looks a subscription up, so it did not find subscriptions of the same
// port again. A read here sets these octets to zero. All other calls pass unchanged, and so do crashes
// of the process itself.
#include <infiniband/umad.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

namespace {

constexpr const char* kDevice = "/dev/infiniband/umad0";  ///< libumad2sim's only one.
constexpr int kFirstFd = 1024;
constexpr int kDescriptors = 8;  ///< FD_PER_DEVICE of libumad2sim.
constexpr int kUsable = kDescriptors - 1;
constexpr std::size_t kUnset = offsetof(ib_user_mad_t, addr) + offsetof(ib_mad_addr_t, pkey_index);

/// libumad2sim's function, which the one of this library hides.
template <typename Function>
Function* hidden(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_hidden(const char* path, int flags, mode_t mode = 0) {
  static auto* const function = hidden<int(const char*, int, ...)>("open");
  return function(path, flags, mode);
}

/// libumad2sim starts its receiver before the process can open a descriptor. The receiver waits
/// here, where it can be cancelled, for a process that opens none.
struct Receiver {
  void* (*run)(void*) = nullptr;
  void* device = nullptr;
  sem_t may_run{};
};
Receiver receiver;

void* run_when_open(void*) {
  while (sem_wait(&receiver.may_run) != 0) {
  }
  return receiver.run(receiver.device);
}

bool is_of_libumad2sim(void* (*function)(void*)) {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(function), &info) != 0 &&
         std::strstr(info.dli_fname, "/libumad2sim.so") != nullptr;
}

/// The socket on which the simulator sends MADs to this process.
bool is_receivers(int fd) {
  sockaddr_un name{};
  socklen_t len = sizeof name;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &len) != 0) return false;
  if (name.sun_family != AF_UNIX || name.sun_path[0] != '\0') return false;
  return std::string_view{name.sun_path + 1}.ends_with(":in" + std::to_string(getpid()));
}

/// Runs before libumad2sim's own handler at exit. That handler cancels and joins the receiver under
/// the lock that the receiver takes for each MAD, and waiting for a lock is not cancelled: a MAD
/// that arrives in this moment would block both for ever. So the receiver gets a socket without a
/// sender.
void silence_receiver() {
  const int silent = socket(AF_UNIX, SOCK_DGRAM, 0);
  for (int fd = 0; fd < kFirstFd; ++fd)
    if (is_receivers(fd)) dup2(silent, fd);
}

class Descriptors {
 public:
  /// -1 with errno: all are in use, or the simulator gave other descriptors than expected.
  int open() {
    const std::lock_guard lock{mutex_};
    if (!opened_ && !open_all()) return -1;
    for (std::size_t i = 0; i < in_use_.size(); ++i) {
      if (in_use_[i]) continue;
      in_use_[i] = true;
      const int fd = kFirstFd + static_cast<int>(i);
      discard_mads(fd);
      return fd;
    }
    errno = EMFILE;
    return -1;
  }

  static bool has(int fd) { return fd >= kFirstFd && fd < kFirstFd + kUsable; }

  /// False: fd is not one of these descriptors.
  bool close(int fd) {
    if (!has(fd)) return false;
    const std::lock_guard lock{mutex_};
    in_use_[static_cast<std::size_t>(fd - kFirstFd)] = false;
    return true;
  }

 private:
  bool open_all() {
    for (int i = 0; i < kDescriptors; ++i)
      if (open_hidden(kDevice, O_RDWR) != kFirstFd + i) return false;
    sem_post(&receiver.may_run);
    // libumad2sim has its own handler by now: the last one registered runs first.
    std::atexit(silence_receiver);
    return opened_ = true;
  }
  /// Discards MADs that arrived for an earlier user of the descriptor.
  static void discard_mads(int fd) {
    std::array<std::byte, 4096> mad;
    while (read(fd, mad.data(), mad.size()) > 0) {
    }
  }

  std::mutex mutex_;
  bool opened_ = false;
  std::array<bool, kUsable> in_use_{};
};

constinit Descriptors descriptors;

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  if (std::strcmp(path, kDevice) == 0) return descriptors.open();
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return open_hidden(path, flags, mode);
}

extern "C" int close(int fd) {
  if (descriptors.close(fd)) return 0;
  static auto* const close_hidden = hidden<int(int)>("close");
  return close_hidden(fd);
}

extern "C" ssize_t read(int fd, void* buffer, std::size_t size) {
  static auto* const read_hidden = hidden<ssize_t(int, void*, std::size_t)>("read");
  const ssize_t n = read_hidden(fd, buffer, size);
  if (Descriptors::has(fd) && n >= static_cast<ssize_t>(sizeof(ib_user_mad_t)))
    std::memset(static_cast<std::byte*>(buffer) + kUnset, 0, sizeof(ib_user_mad_t) - kUnset);
  return n;
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attr, void* (*run)(void*),
                              void* arg) {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const create_hidden = hidden<Create>("pthread_create");
  if (!is_of_libumad2sim(run)) return create_hidden(thread, attr, run, arg);
  receiver.run = run;
  receiver.device = arg;
  sem_init(&receiver.may_run, 0, 0);
  return create_hidden(thread, attr, run_when_open, nullptr);
}
