// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/drivers/umad/fake_umad.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace ipoib::umad {
namespace {

template <class Record>
void put(wire::Smp& smp, const Record& record) {
  std::memcpy(smp.data.data(), &record, sizeof(record));
}

wire::NodeInfo node_info(const FakeUmad::Port& port) {
  wire::NodeInfo info{};
  info.port_guid.set(kPortGuid);
  info.partition_cap.set(port.partition_cap);
  info.local_port = 2;
  return info;
}

wire::PortInfo port_info(const FakeUmad::Port& port) {
  wire::PortInfo info{};
  info.gid_prefix.set(port.prefix);
  info.lid.set(port.lid);
  info.sm_lid.set(port.sm_lid);
  info.width_active = 2;
  info.speed_active = 4 << 4;
  info.speed_state = port.state;
  info.mtu_sm_sl = static_cast<std::uint8_t>(port.neighbor_mtu << 4 | port.sm_sl);
  info.init_mtu_cap = port.mtu_cap;
  info.pkey_violations.set(port.pkey_violations);
  info.qkey_violations.set(port.qkey_violations);
  return info;
}

wire::PkeyBlock pkey_block(const FakeUmad::Port& port, std::uint32_t number) {
  wire::PkeyBlock block{};
  for (std::size_t i = 0; i < block.pkeys.size(); ++i) {
    const std::size_t entry = number * block.pkeys.size() + i;
    if (entry < port.pkeys.size()) block.pkeys[i].set(port.pkeys[entry]);
  }
  return block;
}

}  // namespace

Arrived arrived_from(std::uint16_t lid, std::span<const std::byte> mad, std::uint32_t qpn) {
  return {.from = {.lid = lid, .qpn = qpn}, .bytes = {mad.begin(), mad.end()}};
}

Result<int> FakeUmad::open(const std::string& device, unsigned /*port*/) {
  const std::lock_guard lock{mutex_};
  if (open_error_) return tl::make_unexpected(*open_error_);
  if (device != "fake0") return fail(Errc::kNotFound, "no umad device {}", device);
  ++open_;
  return next_fd_++;
}

void FakeUmad::close(int /*fd*/) {
  const std::lock_guard lock{mutex_};
  --open_;
  arrivals_.clear();
}

Result<int> FakeUmad::register_agent(int /*fd*/, const AgentClass& agent) {
  const std::lock_guard lock{mutex_};
  if (refused_class_ == agent.mgmt_class)
    return fail(Errc::kRefused, "class {:#04x} is registered by another agent", agent.mgmt_class);
  registered_.emplace(agent.mgmt_class, agent);
  return agent.mgmt_class;
}

void FakeUmad::unregister_agent(int /*fd*/, int agent) {
  const std::lock_guard lock{mutex_};
  registered_.erase(static_cast<std::uint8_t>(agent));
}

int FakeUmad::send(int /*fd*/, int agent, const Peer& to, std::uint32_t qkey,
                   std::span<const std::byte> mad, std::uint32_t answer_ms) {
  std::unique_lock lock{mutex_};
  sending_ = true;
  changed_.wait(lock, [this] { return !held_; });
  sending_ = false;
  if (send_error_ != 0) return send_error_;
  const auto header = wire::read<wire::MadHdr>(mad);
  if (!header || header->mgmt_class != agent || mad.size() != wire::kMadLen) return EINVAL;
  const bool question = header->method == static_cast<std::uint8_t>(wire::Method::kGet);
  if (to.qpn == 0 && question) {
    answer(to, *wire::read<wire::Smp>(mad));
    return 0;
  }
  Sent& sent = sent_.emplace_back(Sent{to, qkey, answer_ms, {}});
  std::copy(mad.begin(), mad.end(), sent.mad.begin());
  return 0;
}

void FakeUmad::answer(const Peer& to, const wire::Smp& question) {
  wire::Smp smp = question;
  smp.mad.method = static_cast<std::uint8_t>(wire::Method::kGetResp);
  // A kernel sets the upper half.
  smp.mad.tid.set(question.mad.tid.host() | 0x1234'0000'0000'0000);
  Arrived arrived{.from = {.lid = to.lid, .qpn = 0}};
  if (to.lid == wire::kPermissiveLid) {
    if (!port_.answers) return;
    smp.mad.status.set(wire::kSmpReturning);
    switch (static_cast<wire::SmpAttr>(question.mad.attr_id.host())) {
      case wire::SmpAttr::kNodeInfo: put(smp, node_info(port_)); break;
      case wire::SmpAttr::kPortInfo: put(smp, port_info(port_)); break;
      case wire::SmpAttr::kPkeyTable:
        put(smp, pkey_block(port_, question.mad.attr_mod.host()));
        break;
      case wire::SmpAttr::kSmInfo: return;
    }
  } else if (sm_.does == SmDoes::kNothing) {
    return;
  } else if (sm_.does == SmDoes::kBounce) {
    // Like the kernel, returns only the header.
    const auto head = wire::bytes_of(question.mad);
    arrived.status = ETIMEDOUT;
    arrived.bytes.assign(head.begin(), head.end());
    return queue(std::move(arrived));
  } else {
    wire::SmInfo info{};
    info.guid.set(sm_.guid);
    info.act_count.set(sm_.act_count);
    put(smp, info);
    if (sm_.does == SmDoes::kAnswerFromElsewhere) arrived.from.lid = 99;
  }
  const auto bytes = wire::bytes_of(smp);
  arrived.bytes.assign(bytes.begin(), bytes.end());
  queue(std::move(arrived));
}

/// Precondition: the lock is held.
void FakeUmad::queue(Arrived arrived) {
  arrivals_.push_back(std::move(arrived));
  changed_.notify_all();
}

void FakeUmad::arrive(Arrived arrived) {
  const std::lock_guard lock{mutex_};
  queue(std::move(arrived));
}

void FakeUmad::wait(int /*fd*/, int timeout_ms) {
  std::unique_lock lock{mutex_};
  waiting_ = true;
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                    [this] { return !arrivals_.empty() || receive_error_ != 0; });
  waiting_ = false;
}

Arrived FakeUmad::receive(int /*fd*/) {
  const std::lock_guard lock{mutex_};
  if (receive_error_ != 0) return {std::exchange(receive_error_, 0)};
  if (arrivals_.empty()) return {EAGAIN};
  Arrived first = std::move(arrivals_.front());
  arrivals_.pop_front();
  return first;
}

bool FakeUmad::idle() {
  const std::lock_guard lock{mutex_};
  return waiting_ && arrivals_.empty() && receive_error_ == 0;
}

std::vector<Sent> FakeUmad::take_sent() {
  const std::lock_guard lock{mutex_};
  return std::exchange(sent_, {});
}

void FakeUmad::hold_sends(bool hold) {
  const std::lock_guard lock{mutex_};
  held_ = hold;
  changed_.notify_all();
}

bool FakeUmad::sending() {
  const std::lock_guard lock{mutex_};
  return sending_;
}

int FakeUmad::open_descriptors() {
  const std::lock_guard lock{mutex_};
  return open_;
}

}  // namespace ipoib::umad
