// SPDX-License-Identifier: BSD-3-Clause
#include "tests/lab/conformance/port_process.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "drivers/umad/umad_port.h"
#include "lib/base/doorbell.h"

namespace ipoib::conformance {
namespace {

constexpr const char* kDevice = "ibsim0";  ///< The only device of libumad2sim.
constexpr int kLookMs = 100;               ///< The longest time between polls of the port's events.

class Relay {
 public:
  explicit Relay(int socket) : socket_{socket} {
    doorbell_.eventfd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    umad::UmadConfig config;
    config.device = kDevice;
    config.doorbell = &doorbell_;
    port_ = umad::UmadPort::create(config);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    port_.reset();
    close(doorbell_.eventfd);
  }

  /// Relays until the suite closes the socket.
  void run() {
    while (to_port()) {
      bool changed = false;
      while (port_->next_event()) changed = true;
      if (changed) tell_attr();
      while (const auto mad = port_->receive()) from_port(*mad);
      wait();
    }
  }

 private:
  /// False if the socket is closed.
  bool to_port() {
    PortMessage m;
    ssize_t n = 0;
    while ((n = recv(socket_, &m, sizeof m, MSG_DONTWAIT)) == sizeof m)
      static_cast<void>(port_->send(m.peer, m.bytes));  // The client repeats lost requests.
    return n < 0;
  }
  void from_port(const fabric::ReceivedMad& mad) {
    PortMessage m;
    m.kind = PortMessage::Kind::kMad;
    m.peer = mad.from;
    m.whole = mad.whole;
    m.len = static_cast<std::uint32_t>(mad.len);
    m.bytes = mad.bytes;
    tell(m);
  }
  void tell_attr() {
    const fabric::PortAttr& attr = port_->attr();
    PortMessage m;
    m.gid = attr.gid();
    m.lid = attr.lid;
    m.sm_lid = attr.state == fabric::PortState::kActive ? attr.sm_lid : std::uint16_t{0};
    tell(m);
  }
  void tell(const PortMessage& m) const { ::send(socket_, &m, sizeof m, MSG_NOSIGNAL); }

  void wait() {
    std::array<pollfd, 2> fds{{{socket_, POLLIN, 0}, {doorbell_.eventfd, POLLIN, 0}}};
    doorbell_.arm();
    poll(fds.data(), fds.size(), port_->pending() ? 0 : kLookMs);
    doorbell_.disarm();
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto n = read(doorbell_.eventfd, &rings, sizeof rings);
  }

  int socket_;
  Doorbell doorbell_;
  std::unique_ptr<umad::UmadPort> port_;
};

}  // namespace

int run_port_process(int socket) {
  Relay{socket}.run();
  return 0;
}

}  // namespace ipoib::conformance
