// SPDX-License-Identifier: BSD-3-Clause
// Implements Umad with libibumad. The library has state of its own without protection, so a mutex
// serializes all calls except wait() and the last part of a send to a GID.
#include "drivers/umad/umad.h"

#include <infiniband/umad.h>

#include <dirent.h>
#include <endian.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "lib/wire/mad.h"

namespace ipoib::umad {
namespace {

/// Checked on every open, because the library remembers for ever that the kernel had no support at
/// its first look.
bool kernel_has_umad() {
  DIR* dir = opendir(SYS_INFINIBAND_MAD);
  if (dir != nullptr) closedir(dir);
  return dir != nullptr;
}

tl::unexpected<Error> open_error(const std::string& device, unsigned port, int result,
                                 int error_number) {
  const std::string name = port == 0 ? device : fmt::format("{} port {}", device, port);
  if (result == -ENODEV || result == -EINVAL)
    return fail(Errc::kNotFound, "no umad device {}", name);
  if (error_number == EACCES || error_number == EPERM)
    return fail(Errc::kRefused, "permission denied on the umad device of {} in /dev/infiniband",
                name);
  return fail(Errc::kUnavailable, "cannot open umad device {}: {}", name,
              std::strerror(error_number != 0 ? error_number : -result));
}

/// Enough for any path: the real number of hops is not known, and the receiver does not check it.
constexpr std::uint8_t kHopLimit = 64;

void set_grh(void* umad, const Peer& to) {
  ib_mad_addr_t grh{};
  std::memcpy(grh.gid, to.gid.bytes.data(), sizeof(grh.gid));
  grh.hop_limit = kHopLimit;
  umad_set_grh(umad, &grh);
  static_cast<ib_user_mad_t*>(umad)->addr.gid_index = to.gid_index;
}

wire::Gid gid_of(const ib_mad_addr_t& from) {
  wire::Gid gid;
  if (from.grh_present != 0) std::memcpy(gid.bytes.data(), from.gid, sizeof(from.gid));
  return gid;
}

class LibUmad final : public Umad {
 public:
  Result<int> open(const std::string& device, unsigned port) override {
    const std::lock_guard lock{mutex_};
    if (!kernel_has_umad())
      return fail(Errc::kUnavailable, "the kernel does not support umad: load ib_umad");
    errno = 0;
    const int fd = umad_open_port(device.c_str(), static_cast<int>(port));
    if (fd < 0) return open_error(device, port, fd, errno);
    return fd;
  }

  void close(int fd) override {
    const std::lock_guard lock{mutex_};
    umad_close_port(fd);
  }

  Result<int> register_agent(int fd, const AgentClass& agent) override {
    const std::lock_guard lock{mutex_};
    std::array<long, 16 / sizeof(long)> methods{};
    methods[0] = static_cast<long>(agent.request_methods);
    errno = 0;
    const int id =
        umad_register(fd, agent.mgmt_class, agent.version, agent.rmpp_version, methods.data());
    if (id >= 0) return id;
    return fail(Errc::kRefused, "management class {:#04x} is registered by another agent ({})",
                agent.mgmt_class, std::strerror(errno != 0 ? errno : -id));
  }

  void unregister_agent(int fd, int agent) override {
    const std::lock_guard lock{mutex_};
    umad_unregister(fd, agent);
  }

  int send(int fd, int agent, const Peer& to, std::uint32_t qkey, std::span<const std::byte> mad,
           std::uint32_t answer_ms) override {
    std::unique_lock lock{mutex_};
    std::vector<std::byte> buffer(umad_size() + mad.size());
    umad_set_addr(buffer.data(), to.lid, static_cast<int>(to.qpn), to.sl, static_cast<int>(qkey));
    umad_set_pkey(buffer.data(), to.pkey_index);
    if (!to.gid.is_zero()) {
      set_grh(buffer.data(), to);
      // The kernel may resolve the GID first, so the mutex is released. The library needs no lock
      // from here on; the simulator below it has no GIDs.
      lock.unlock();
    }
    std::copy(mad.begin(), mad.end(), static_cast<std::byte*>(umad_get_mad(buffer.data())));
    errno = 0;
    const int result = umad_send(fd, agent, buffer.data(), static_cast<int>(mad.size()),
                                 static_cast<int>(answer_ms), 0);
    if (result >= 0) return 0;
    return errno != 0 ? errno : -result;
  }

  void wait(int fd, int timeout_ms) override { umad_poll(fd, timeout_ms); }

  Arrived receive(int fd) override {
    const std::lock_guard lock{mutex_};
    std::vector<std::byte> buffer;
    int len = wire::kMadLen;
    int result = read(fd, buffer, len);
    // A long answer stays queued until there is room for it.
    if (result == -ENOSPC && len > static_cast<int>(wire::kMadLen) && len <= kMaxMadLen)
      result = read(fd, buffer, len);
    if (result == -EWOULDBLOCK || result == -EINTR) return {EAGAIN};
    if (result < 0) return {-result};
    const auto* umad = reinterpret_cast<const ib_user_mad*>(buffer.data());
    const auto n = static_cast<std::size_t>(std::clamp(len, 0, static_cast<int>(kMaxMadLen)));
    const auto* mad = static_cast<const std::byte*>(umad_get_mad(buffer.data()));
    return {.status = umad_status(buffer.data()),
            .from = {.lid = be16toh(umad->addr.lid),
                     .sl = umad->addr.sl,
                     .qpn = be32toh(umad->addr.qpn),
                     .pkey_index = static_cast<std::uint16_t>(umad_get_pkey(buffer.data())),
                     .gid = gid_of(umad->addr),
                     .gid_index = umad->addr.gid_index},
            .bytes = {mad, mad + n}};
  }

 private:
  static constexpr int kMaxMadLen = 32 << 20;

  /// Reads into a buffer of `len` octets behind the library's header. `len` becomes the length
  /// received or, if the buffer is too small, the length that waits.
  static int read(int fd, std::vector<std::byte>& buffer, int& len) {
    buffer.assign(umad_size() + static_cast<std::size_t>(len), std::byte{0});
    const int room = len;
    errno = 0;
    const int result = umad_recv(fd, buffer.data(), &len, 0);
    if (result >= 0) len = std::min(len, room);
    return result;
  }

  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Umad> make_umad() {
  return std::make_unique<LibUmad>();
}

}  // namespace ipoib::umad
