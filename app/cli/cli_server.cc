// SPDX-License-Identifier: BSD-3-Clause
#include "app/cli/cli_server.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "lib/base/log.h"

namespace ipoib::app {

void Session::receive(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto piece = bytes.substr(0, end);
    partial_.append(piece.substr(0, kMaxLine + 1 - partial_.size()));
    if (end == std::string_view::npos) return;
    lines_.push_back(std::exchange(partial_, {}));
    bytes.remove_prefix(end + 1);
  }
}

void Session::end_of_input() {
  if (!partial_.empty()) lines_.push_back(std::exchange(partial_, {}));
  ended_ = true;
}

void Session::work(Clock::time_point until) {
  while (has_work() && pending().size() < kEnough) {
    if (!answer_) begin_answer();
    if (!answer_->append_piece(out_)) {
      answer_.reset();
      out_ += kPrompt;
    }
    if (Clock::now() >= until) return;
  }
}

void Session::begin_answer() {
  const std::string line = std::move(lines_.front());
  lines_.pop_front();
  answer_ = line.size() > kMaxLine ? fmt::format("error: line longer than {} octets\n", kMaxLine)
                                   : cli_.answer(line, sender_);
}

void Session::consume(std::size_t n) {
  sent_ += n;
  if (sent_ == out_.size() || sent_ > kEnough) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
}

namespace {

/// True if a process answers at the socket.
bool is_served(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  const bool served = connect(fd, generic, sizeof address) == 0 || errno == EAGAIN;
  close(fd);
  return served;
}

Result<int> listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(Errc::kInvalidArgument, "CLI socket {}: invalid path, allowed: 1-{} octets", path,
                sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  struct stat old {};
  if (lstat(path.c_str(), &old) == 0) {
    if (!S_ISSOCK(old.st_mode))
      return fail(Errc::kExists, "CLI socket {}: the file exists and is not a socket", path);
    if (is_served(address))
      return fail(Errc::kExists, "CLI socket {}: another process is listening on it", path);
    unlink(path.c_str());
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  // The mode of the socket limits that of its file from the beginning. The mask of the process stays
  // as it is, because other threads make files at the same time. It may have taken bits away.
  constexpr mode_t kOwnerAndGroup = 0660;
  const bool bound = fd >= 0 && fchmod(fd, kOwnerAndGroup) == 0 &&
                     bind(fd, generic, sizeof address) == 0 &&
                     chmod(path.c_str(), kOwnerAndGroup) == 0;
  if (bound && listen(fd, 16) == 0) return fd;
  const int error = errno;
  if (fd >= 0) close(fd);
  return fail(Errc::kNoResources, "CLI socket {}: {}", path, std::strerror(error));
}

/// The process that connected, as the kernel noted it then. Source: unix(7), SO_PEERCRED.
std::string name_of_peer(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "an unknown process";
  return fmt::format("uid {} pid {}", peer.uid, peer.pid);
}

}  // namespace

Result<std::unique_ptr<CliServer>> CliServer::create(Cli& cli, mgmt::EventLoop& events,
                                                     const std::string& path, CliAccess access) {
  const auto fd = listen_at(path);
  if (!fd) return tl::make_unexpected(fd.error());
  std::unique_ptr<CliServer> server{new CliServer{cli, events, path, access, *fd}};
  auto* s = server.get();
  if (auto watched = events.watch(*fd, EPOLLIN, [s](std::uint32_t) { s->accept_clients(); });
      !watched)
    return tl::make_unexpected(watched.error());
  return server;
}

CliServer::~CliServer() {
  while (!clients_.empty()) drop(clients_.begin()->first);
  events_.unwatch(fd_);
  close(fd_);
  unlink(path_.c_str());
}

void CliServer::accept_clients() {
  while (true) {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (clients_.size() >= kMaxClients) drop_departed();
    if (clients_.size() >= kMaxClients) {
      refuse(fd);
      continue;
    }
    clients_.try_emplace(fd, cli_, Sender{name_of_peer(fd), access_ == CliAccess::kReadOnly});
    serve(fd, 0);  // Sends the prompt.
  }
}

void CliServer::drop_departed() {
  std::vector<pollfd> watched;
  for (const auto& [fd, session] : clients_)
    watched.push_back({.fd = fd, .events = 0, .revents = 0});
  if (poll(watched.data(), watched.size(), 0) <= 0) return;
  for (const auto& w : watched)
    if ((w.revents & (POLLHUP | POLLERR)) != 0) drop(w.fd);
}

/// Logs only the first refusal until a client leaves, so that repeated attempts do not fill the
/// log.
void CliServer::refuse(int fd) {
  if (!std::exchange(refusing_, true))
    log(LogArea::kApp, LogLevel::kWarning,
        "CLI socket {}: client refused, the limit of {} clients is reached", path_, kMaxClients);
  const auto text = fmt::format("error: the limit of {} clients is reached\n", kMaxClients);
  static_cast<void>(send(fd, text.data(), text.size(), MSG_NOSIGNAL));
  close(fd);
}

void CliServer::serve(int fd, std::uint32_t events) {
  Session& session = clients_.at(fd);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && session.wants_input()) {
    std::array<char, Session::kMaxLine> bytes;
    const auto n = recv(fd, bytes.data(), bytes.size(), 0);
    if (n > 0) session.receive({bytes.data(), static_cast<std::size_t>(n)});
    if (n == 0) session.end_of_input();
    if (n < 0 && errno != EAGAIN && errno != EINTR) return drop(fd);
  }
  session.work(Session::Clock::now() + kSlice);
  while (!session.pending().empty()) {
    const auto text = session.pending();
    const auto n = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) return drop(fd);
    if (n < 0) break;
    session.consume(static_cast<std::size_t>(n));
  }
  if (session.finished() || session.overflowed()) return drop(fd);
  // The remaining work continues after the other descriptors had their turn.
  const bool more = !session.pending().empty() || session.has_work();
  const auto wanted = (session.wants_input() ? EPOLLIN : 0U) | (more ? EPOLLOUT : 0U);
  const auto watched =
      events_.watch(fd, wanted, [this, fd](std::uint32_t ready) { serve(fd, ready); });
  if (!watched) drop(fd);
}

void CliServer::drop(int fd) {
  events_.unwatch(fd);
  clients_.erase(fd);
  close(fd);
  refusing_ = false;
}

}  // namespace ipoib::app
