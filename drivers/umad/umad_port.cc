// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/umad/umad_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "drivers/umad/mads.h"
#include "lib/base/contract.h"
#include "lib/base/hash_seed.h"
#include "lib/base/log.h"
#include "lib/wire/gid.h"
#include "lib/wire/sa_records.h"

namespace ipoib::umad {
namespace {

/// Timeouts of subnet management answers, within the period of the questions.
constexpr std::uint32_t kLocalAnswerMs = 200;
constexpr std::uint32_t kSmAnswerMs = 900;
/// Octets of an SMP that this side needs.
constexpr std::size_t kMinSmpLen = offsetof(wire::Smp, initial_path);

TimePoint steady_now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return TimePoint{std::chrono::duration_cast<Duration>(since)};
}

bool is_subnet_management(std::uint8_t mgmt_class) {
  return is(mgmt_class, wire::MgmtClass::kSubnDr) || is(mgmt_class, wire::MgmtClass::kSubnLid);
}

UmadConfig with_clock(UmadConfig config) {
  if (!config.now) config.now = steady_now;
  return config;
}

}  // namespace

std::unique_ptr<UmadPort> UmadPort::create(UmadConfig config, std::unique_ptr<Umad> library,
                                           std::unique_ptr<DeviceEvents> events) {
  if (!library) library = make_umad();
  if (!events) events = make_device_events();
  return std::unique_ptr<UmadPort>{
      new UmadPort{with_clock(std::move(config)), std::move(library), std::move(events)}};
}

UmadPort::UmadPort(UmadConfig config, std::unique_ptr<Umad> library,
                   std::unique_ptr<DeviceEvents> events)
    : config_{std::move(config)},
      library_{std::move(library)},
      device_events_{std::move(events)},
      port_{static_cast<std::uint32_t>(secret_seed())},
      sm_{static_cast<std::uint32_t>(secret_seed())},
      channel_{{.device = config_.device,
                .port = config_.port,
                .umad = library_.get(),
                .doorbell = config_.doorbell,
                .first_retry = config_.first_retry,
                .max_retry = config_.max_retry,
                .max_queued = config_.max_queued}} {}

std::optional<fabric::PortEvent> UmadPort::next_event() {
  expects_management();
  check_session();
  take_events();
  sort();
  const TimePoint now = config_.now();
  if (session_ != 0) {
    port_.tick(now, smp_sender());
    sm_.tick(port_.attr(), now, smp_sender());
    if (port_.silent()) channel_.reopen();
  }
  if (sm_.take_reregister()) {
    ++counters_.reregistered;
    port_.events().add(fabric::PortEvent::kClientReregister);
  }
  return port_.events().next();
}

/// Discards open questions when the device was lost or opened again: they are not answered any
/// more.
void UmadPort::check_session() {
  const std::uint64_t session = channel_.session();
  if (std::exchange(session_, session) == session) return;
  port_.lose();
  device_events_->close();
  if (session != 0) device_events_->open(config_.device);
}

/// An event starts a query of the port, because events are not trusted. Reregistration and fatal
/// errors are passed on directly, because a query does not show them.
void UmadPort::take_events() {
  while (const auto event = device_events_->next()) {
    if (event->port != 0 && event->port != port_.number()) continue;
    port_.look_now();
    if (event->kind == fabric::PortEvent::kClientReregister) port_.events().add(event->kind);
    if (event->kind == fabric::PortEvent::kFatal) {
      port_.events().add(event->kind);
      channel_.reopen();
    }
  }
}

SmpSender UmadPort::smp_sender() {
  return [this](std::uint16_t lid, std::uint8_t sl, const wire::Smp& smp) {
    const bool local = is(smp.mad.mgmt_class, wire::MgmtClass::kSubnDr);
    return post({.lid = lid, .sl = sl}, wire::bytes_of(smp), local ? kLocalAnswerMs : kSmAnswerMs)
        .has_value();
  };
}

Status UmadPort::post(const Peer& to, std::span<const std::byte> mad, std::uint32_t answer_ms) {
  Status sent = channel_.send(to, mad, answer_ms);
  ++(sent ? counters_.sent : counters_.send_failed);
  return sent;
}

Status UmadPort::send(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) {
  expects_management();
  if (!wire::is_unicast_lid(to.lid) || to.sl > 15)
    return fail(Errc::kInvalidArgument, "MAD to LID {:#06x}, SL {}: invalid address", to.lid,
                to.sl);
  if (port_.attr().state != fabric::PortState::kActive)
    return fail(Errc::kUnavailable, "MAD to LID {:#06x}: {}", to.lid, problem());
  const int index = port_.pkey_index(to.pkey);
  if (index < 0)
    return fail(Errc::kInvalidArgument,
                "MAD with P_Key {:#06x}, which is not in the P_Key table of the port", to.pkey);
  // The kernel rejects a repeated request while it waits for the answer to the first one, and the
  // requester retransmits after answer_ms. So the kernel's timeout is a little shorter.
  const std::uint32_t answer_ms = to.answer_ms - to.answer_ms / 10;
  return post({.lid = to.lid,
               .sl = to.sl,
               .qpn = to.qpn,
               .pkey_index = static_cast<std::uint16_t>(index),
               .gid = to.gid},
              mad, answer_ms);
}

std::optional<fabric::ReceivedMad> UmadPort::receive() {
  expects_management();
  if (received_.empty()) sort();
  if (received_.empty()) return std::nullopt;
  fabric::ReceivedMad first = std::move(received_.front());
  received_.pop_front();
  return first;
}

/// Dispatches MADs that arrived, at most as many as the channel holds, so that the answers to this
/// port's own requests do not wait behind messages of communication managers.
void UmadPort::sort() {
  for (std::size_t i = 0; i < config_.max_queued; ++i) {
    const auto arrived = channel_.take();
    if (!arrived) return;
    take(*arrived);
  }
}

void UmadPort::take(const Arrived& arrived) {
  ++counters_.received;
  const auto header = wire::read<wire::MadHdr>(arrived.bytes);
  if (!header) {
    ++counters_.malformed;
    return;
  }
  if (arrived.status != 0) return on_undeliverable(*header);

  const bool response = is_response(header->method);
  if (is_subnet_management(header->mgmt_class) && response) {
    if (arrived.bytes.size() < kMinSmpLen) {
      ++counters_.malformed;
      return;
    }
    wire::Smp smp{};
    std::memcpy(&smp, arrived.bytes.data(), std::min(arrived.bytes.size(), sizeof(smp)));
    return on_smp(arrived.from, smp);
  }
  if (is_of_connections(*header)) {
    if (received_.size() < config_.max_queued) return hand_over(arrived);
    ++counters_.unread;
    return;
  }
  const bool report = header->method == static_cast<std::uint8_t>(wire::Method::kReport);
  if (!is(header->mgmt_class, wire::MgmtClass::kSubnAdm) || !(response || report))
    return refuse(arrived.from, arrived, *header);
  if (arrived.bytes.size() < sizeof(wire::SaHdr)) {
    ++counters_.malformed;
    return;
  }
  hand_over(arrived);
}

void UmadPort::hand_over(const Arrived& arrived) {
  received_.push_back(as_received(arrived, port_.pkey(arrived.from.pkey_index)));
}

void UmadPort::on_undeliverable(const wire::MadHdr& header) {
  ++counters_.undeliverable;
  if (is(header.mgmt_class, wire::MgmtClass::kSubnLid))
    static_cast<void>(sm_.on_bounce(static_cast<std::uint32_t>(header.tid.host())));
}

void UmadPort::on_smp(const Peer& from, const wire::Smp& smp) {
  const bool local = is(smp.mad.mgmt_class, wire::MgmtClass::kSubnDr);
  if (!(local ? port_.on_answer(smp, smp_sender()) : sm_.on_answer(from.lid, smp)))
    ++counters_.unasked;
}

void UmadPort::refuse(const Peer& from, const Arrived& request, const wire::MadHdr& header) {
  ++counters_.unserved;
  if (const auto answer = refusal_of(request, header)) static_cast<void>(post(from, *answer, 0));
}

std::string UmadPort::problem() const {
  if (std::string problem = channel_.problem(); !problem.empty()) return problem;
  const fabric::PortAttr& port = port_.attr();
  if (port.guid == 0 || port_.silent()) return "the port does not answer";
  switch (port.state) {
    case fabric::PortState::kDown: return "the port is down";
    case fabric::PortState::kInit:
    case fabric::PortState::kArmed: return "the port has not been configured by a subnet manager";
    case fabric::PortState::kActive: break;
  }
  if (port.sm_lid == 0) return "the port has no subnet manager";
  if (sm_.silent()) return fmt::format("the subnet manager at LID {} does not answer", port.sm_lid);
  return {};
}

fabric::NamedCounters UmadPort::counters() const {
  const ChannelCounters& channel = channel_.counters();
  return {{"sent", counters_.sent},
          {"send_failed", counters_.send_failed},
          {"received", counters_.received},
          {"undeliverable", counters_.undeliverable},
          {"malformed", counters_.malformed},
          {"unasked", counters_.unasked},
          {"unserved", counters_.unserved},
          {"overflowed", channel.overflowed.get() + counters_.unread},
          {"device_opened", channel.opened.get()},
          {"device_lost", channel.lost.get()},
          {"reregistered", counters_.reregistered}};
}

}  // namespace ipoib::umad
