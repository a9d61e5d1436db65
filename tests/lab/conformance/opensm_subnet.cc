// SPDX-License-Identifier: BSD-3-Clause
#include "tests/lab/conformance/opensm_subnet.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace ipoib::conformance {
namespace {

constexpr Duration kStartTime = std::chrono::seconds(20);
/// The simulator numbers GUIDs in the order of the topology. OpenSM runs on the first HCA.
constexpr std::uint64_t kOpensmGuid = 0x10'0001;

std::string hca(PortId id) {
  return fmt::format("H{}", id + 2);
}

/// The environment of this process with additional entries.
std::vector<std::string> environment_with(std::vector<std::string> more) {
  for (char** e = environ; *e != nullptr; ++e) more.emplace_back(*e);
  return more;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> p;
  for (std::string& s : strings) p.push_back(s.data());
  p.push_back(nullptr);
  return p;
}

}  // namespace

Result<std::unique_ptr<OpensmSubnet>> OpensmSubnet::create() {
  const char* library = std::getenv("UMAD2SIM");
  const char* console = std::getenv("IBSIM_CONSOLE");
  if (library == nullptr || console == nullptr)
    return fail(Errc::kUnavailable, "UMAD2SIM or IBSIM_CONSOLE is not set: run conformance.sh");
  std::unique_ptr<OpensmSubnet> subnet{new OpensmSubnet};
  subnet->console_ = console;
  for (std::size_t i = 0; i < kPorts; ++i)
    if (const Status s = subnet->start(static_cast<PortId>(i), library); !s)
      return tl::make_unexpected(s.error());
  const TimePoint end = subnet->now() + kStartTime;
  while (!subnet->all_active()) {
    if (subnet->now() >= end) return fail(Errc::kUnavailable, "not all ports became active");
    subnet->step(end, [](PortId, const auto&) {});
  }
  return subnet;
}

OpensmSubnet::~OpensmSubnet() {
  for (const Port& port : ports_)
    if (port.socket >= 0) close(port.socket);
  for (const Port& port : ports_)
    if (port.process > 0) waitpid(port.process, nullptr, 0);
}

Status OpensmSubnet::start(PortId id, const char* library) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return fail(Errc::kUnavailable, "no socket pair: {}", std::strerror(errno));
  ports_[id].socket = ends[0];
  const int far = dup(ends[1]);  // The duplicate has no close-on-exec flag.
  close(ends[1]);
  std::vector<std::string> args{"conformance", fmt::format("--port-process={}", far)};
  auto env = environment_with({fmt::format("LD_PRELOAD={}", library),
                               fmt::format("SIM_HOST={}", hca(id)), "SIM_SET_ISSM=1"});
  const int error = posix_spawn(&ports_[id].process, "/proc/self/exe", nullptr, nullptr,
                                pointers(args).data(), pointers(env).data());
  close(far);
  if (error != 0) return fail(Errc::kUnavailable, "no port process: {}", std::strerror(error));
  return {};
}

bool OpensmSubnet::all_active() const {
  return std::ranges::all_of(ports_, [](const Port& p) { return p.attr.sm_lid != 0; });
}

PortUnderTest OpensmSubnet::administrator() const {
  return {wire::Gid::of(wire::kDefaultGidPrefix, kOpensmGuid), ports_[kA].attr.sm_lid};
}

TimePoint OpensmSubnet::now() const {
  return TimePoint{std::chrono::steady_clock::now().time_since_epoch()};
}

Status OpensmSubnet::send(PortId from, const fabric::MadAddress& to,
                          std::span<const std::byte, wire::kMadLen> mad) {
  PortMessage m{};
  m.kind = PortMessage::Kind::kMad;
  m.peer = to;
  std::ranges::copy(mad, m.bytes.begin());
  if (::send(ports_[from].socket, &m, sizeof m, MSG_NOSIGNAL) == sizeof m) return {};
  return fail(Errc::kUnavailable, "port {}: {}", hca(from), std::strerror(errno));
}

void OpensmSubnet::step(TimePoint until, const Deliver& deliver) {
  std::array<pollfd, kPorts> fds{};
  for (std::size_t i = 0; i < kPorts; ++i) fds[i] = {ports_[i].socket, POLLIN, 0};
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now()).count();
  if (poll(fds.data(), fds.size(), static_cast<int>(std::clamp<long>(wait, 0, 60'000))) <= 0)
    return;
  for (std::size_t i = 0; i < kPorts; ++i) {
    PortMessage m;
    if (recv(ports_[i].socket, &m, sizeof m, MSG_DONTWAIT) != sizeof m) continue;
    if (m.kind == PortMessage::Kind::kAttr)
      ports_[i].attr = m;
    else
      deliver(static_cast<PortId>(i), {m.peer, m.bytes, m.whole, m.len, {}});
  }
}

void OpensmSubnet::command(const char* what, PortId id) const {
  std::ofstream{console_} << what << " \"" << hca(id) << "\"[1]\n";
}

}  // namespace ipoib::conformance
