// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/channel.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/wire/gid.h"
#include "lib/wire/ipoib.h"
#include "lib/wire/sa_records.h"

namespace ipoib::umad {
namespace {

/// Interval of checks for stop and reopen: the wait cannot be interrupted, because the simulator's
/// descriptor is not one of the kernel's.
constexpr int kWaitMs = 50;

constexpr std::uint32_t method_bit(wire::Method method) {
  return std::uint32_t{1} << static_cast<unsigned>(method);
}

constexpr std::array kAgents = {
    AgentClass{static_cast<std::uint8_t>(wire::MgmtClass::kSubnLid), 1, 0, 0},
    AgentClass{static_cast<std::uint8_t>(wire::MgmtClass::kSubnDr), 1, 0, 0},
    AgentClass{static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm), wire::kSaClassVersion, 1,
               method_bit(wire::Method::kReport)},
    AgentClass{static_cast<std::uint8_t>(wire::MgmtClass::kComMgt), 2, 0,
               method_bit(wire::Method::kSend)},
};

std::uint32_t qkey_of(const Peer& to) {
  return to.qpn == 0 ? 0 : wire::kGsiQkey;
}

std::string describe(const Peer& to) {
  return to.gid.is_zero() ? fmt::format("LID {:#06x}", to.lid) : wire::to_string(to.gid);
}

}  // namespace

std::span<const AgentClass> all_agents() {
  return kAgents;
}

std::span<const AgentClass> connection_agents() {
  return std::span{kAgents}.last(1);
}

Channel::Channel(ChannelConfig config) : config_{std::move(config)}, thread_{[this] { run(); }} {}

Channel::~Channel() {
  {
    const std::lock_guard lock{mutex_};
    stop_.store(true, std::memory_order_relaxed);
  }
  stopping_.notify_all();
  thread_.join();
}

Status Channel::send(const Peer& to, std::span<const std::byte> mad, std::uint32_t answer_ms) {
  const auto header = wire::read<wire::MadHdr>(mad);
  if (!header) return fail(Errc::kInvalidArgument, "{} octets are too short for a MAD", mad.size());
  // Locked during the call, so that the descriptor is not closed and reused meanwhile.
  const std::lock_guard lock{device_mutex_};
  const auto agent = device_.agents.find(header->mgmt_class);
  if (agent == device_.agents.end())
    return fail(Errc::kUnavailable, "MAD to {}: {}", describe(to),
                device_.fd < 0 ? problem()
                               : fmt::format("management class {:#04x} is not registered",
                                             header->mgmt_class));
  const int error = config_.umad->send(device_.fd, agent->second, to, qkey_of(to), mad, answer_ms);
  if (error == 0) return {};
  return fail(Errc::kUnavailable, "MAD to {}: {}", describe(to), std::strerror(error));
}

std::optional<Arrived> Channel::take() {
  expects_management();
  const std::lock_guard lock{mutex_};
  if (queue_.empty()) return std::nullopt;
  Arrived first = std::move(queue_.front());
  queue_.pop_front();
  queued_.store(queue_.size(), std::memory_order_release);
  return first;
}

std::uint64_t Channel::session() const {
  const std::lock_guard lock{mutex_};
  return open_ ? session_ : 0;
}

std::string Channel::problem() const {
  const std::lock_guard lock{mutex_};
  return problem_;
}

void Channel::run() {
  pthread_setname_np(pthread_self(), "ipoib-umad");
  Duration retry = config_.first_retry;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (const Result<Device> device = open(); !device) {
      report(device.error().what);
    } else if (use(*device) > config_.max_retry) {  // The device worked.
      retry = config_.first_retry;
      reported_.clear();
    }
    if (!pause(retry)) return;
    retry = std::min(retry * 2, config_.max_retry);
  }
}

Result<Channel::Device> Channel::open() {
  const Result<int> fd = config_.umad->open(config_.device, config_.port);
  if (!fd) return tl::make_unexpected(fd.error());
  Device device{*fd, {}};
  for (const AgentClass& agent : config_.agents) {
    const Result<int> id = config_.umad->register_agent(*fd, agent);
    if (!id && agent.mgmt_class == static_cast<std::uint8_t>(wire::MgmtClass::kComMgt)) {
      // A kernel with a loaded communication manager of its own (ib_cm) keeps the class to itself.
      log(LogArea::kFabric, LogLevel::kWarning,
          "umad device {}: {}; connected mode is not available on its links until the class is "
          "free (unload ib_cm and the modules that use it)",
          config_.device, id.error().what);
      continue;
    }
    if (!id) {
      close(device);
      return fail(id.error().code, "umad device {}: {}", config_.device, id.error().what);
    }
    device.agents.emplace(agent.mgmt_class, *id);
  }
  return device;
}

/// Receives until the device fails or the channel ends; returns how long that took.
Duration Channel::use(const Device& device) {
  const auto begin = std::chrono::steady_clock::now();
  reopen_.store(false, std::memory_order_relaxed);
  {
    const std::lock_guard lock{device_mutex_};
    device_ = device;
  }
  {
    const std::lock_guard lock{mutex_};
    open_ = true;
    ++session_;
    problem_.clear();
  }
  counters_.opened.add(1);
  log(LogArea::kFabric, LogLevel::kInfo, "umad device {} opened", config_.device);
  ring();
  receive(device.fd);
  {
    const std::lock_guard lock{mutex_};
    open_ = false;
  }
  {
    const std::lock_guard lock{device_mutex_};
    device_ = {};
  }
  close(device);
  return std::chrono::steady_clock::now() - begin;
}

/// Unregisters the agents first: the simulator does not remove them with their descriptor.
void Channel::close(const Device& device) {
  for (const auto& [mgmt_class, id] : device.agents) config_.umad->unregister_agent(device.fd, id);
  config_.umad->close(device.fd);
}

void Channel::receive(int fd) {
  while (!stop_.load(std::memory_order_relaxed)) {
    if (reopen_.load(std::memory_order_relaxed)) return fail_session("does not answer");
    config_.umad->wait(fd, kWaitMs);
    Arrived arrived = config_.umad->receive(fd);
    if (arrived.error == EAGAIN) continue;
    if (arrived.error != 0) return fail_session(std::strerror(arrived.error));
    {
      const std::lock_guard lock{mutex_};
      if (queue_.size() >= config_.max_queued) {
        counters_.overflowed.add(1);
        continue;
      }
      queue_.push_back(std::move(arrived));
      queued_.store(queue_.size(), std::memory_order_release);
    }
    ring();
  }
}

void Channel::fail_session(const std::string& why) {
  counters_.lost.add(1);
  report(fmt::format("umad device {}: {}", config_.device, why));
}

/// Logs a problem once, until it changes or the device has worked for a while.
void Channel::report(const std::string& problem) {
  {
    const std::lock_guard lock{mutex_};
    problem_ = problem;
  }
  if (std::exchange(reported_, problem) == problem) return;
  log(LogArea::kFabric, LogLevel::kWarning, "{}; retrying", problem);
  ring();
}

void Channel::ring() {
  if (config_.doorbell != nullptr) config_.doorbell->ring();
}

/// False: the channel ends.
bool Channel::pause(Duration duration) {
  std::unique_lock lock{mutex_};
  return !stopping_.wait_for(lock, duration,
                             [this] { return stop_.load(std::memory_order_relaxed); });
}

}  // namespace ipoib::umad
