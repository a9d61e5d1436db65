// SPDX-License-Identifier: BSD-3-Clause
#include "tests/lab/conformance/session.h"

#include <algorithm>

#include "lib/sa/queries.h"
#include "lib/sa/sa_mad.h"

namespace ipoib::conformance {
namespace {

constexpr std::uint32_t kRawTimeoutMs = 1000;

/// The request to leave a group of any partition.
sa::Request leave_of(const wire::Gid& mgid, const wire::Gid& port, std::uint8_t bits) {
  sa::Request request = sa::leave_group(mgid, port, kDefault, bits);
  request.comp_mask &= ~wire::McMemberRecord::kPkey;
  return request;
}

}  // namespace

Session::Session(std::unique_ptr<SubnetUnderTest> subnet) : subnet_{std::move(subnet)} {
  for (std::size_t i = 0; i < kPorts; ++i) {
    const auto id = static_cast<PortId>(i);
    const auto send = [this, id](const fabric::MadAddress& to, auto mad) {
      return subnet_->send(id, to, mad);
    };
    ports_[i].client = std::make_unique<sa::Client>(send, sa::ClientConfig{}, i);
    ports_[i].client->set_report_handler(
        [this, i](const wire::Notice& n, TimePoint) { ports_[i].notices.push_back(n); });
    ports_[i].client->set_sm(subnet_->administrator().lid, 0, subnet_->now());
  }
}

void Session::deliver(PortId port, const fabric::ReceivedMad& mad) {
  const auto sa_mad = wire::read<wire::SaMad>(mad.bytes);
  if (sa_mad && static_cast<std::uint32_t>(sa_mad->hdr.mad.tid.host()) == raw_tid_)
    raw_answer_ = *sa_mad;
  else
    client(port).on_mad(mad, subnet_->now());
}

bool Session::run_until(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = subnet_->now() + limit;
  while (!done()) {
    if (subnet_->now() >= end) return false;
    std::optional<TimePoint> next = end;
    for (const Port& port : ports_) next = earlier(next, port.client->next_deadline());
    subnet_->step(*next, [this](PortId port, const auto& mad) { deliver(port, mad); });
    for (const Port& port : ports_) port.client->tick(subnet_->now());
  }
  return true;
}

sa::Outcome Session::ask(PortId port, const sa::Request& request) {
  std::optional<sa::Outcome> outcome;
  client(port).submit(
      request, [&outcome](const sa::Outcome& o, TimePoint) { outcome = o; }, subnet_->now());
  // All attempts of the client end within a minute.
  run_until([&outcome] { return outcome.has_value(); }, std::chrono::minutes(1));
  if (!outcome) return tl::make_unexpected(sa::Failure{Errc::kTimedOut, 0});
  if (*outcome) remember(ports_[port], request, **outcome);
  return *outcome;
}

std::optional<wire::SaMad> Session::ask_raw(PortId port, const wire::SaMad& request) {
  wire::SaMad mad = request;
  mad.hdr.mad.tid.set(++raw_tid_);
  raw_answer_.reset();
  const std::uint16_t sm_lid = subnet_->administrator().lid;
  if (!subnet_->send(port, {sm_lid, 0, 1, wire::kDefaultPkey, kRawTimeoutMs}, wire::bytes_of(mad)))
    return std::nullopt;
  run_until([this] { return raw_answer_.has_value(); }, std::chrono::milliseconds(kRawTimeoutMs));
  ++raw_tid_;  // A late answer does not match any more.
  return std::exchange(raw_answer_, std::nullopt);
}

void Session::remember(Port& port, const sa::Request& request, const sa::Reply& reply) {
  if (request.method == wire::Method::kSet && request.attr == wire::Attr::kInformInfo) {
    const auto info = *wire::read<wire::InformInfo>(request.data);
    if (info.subscribe != 0) port.subscriptions.push_back(info);
  }
  if (request.attr != wire::Attr::kMcMemberRecord) return;
  const auto record = reply.record<wire::McMemberRecord>();
  if (!record) return;
  if (request.method != wire::Method::kSet && request.method != wire::Method::kDelete) return;
  port.memberships[{record->mgid, record->port_gid}] = record->join();
}

/// The administrator refuses to end memberships that have ended already, which does no harm.
void Session::clean_up() {
  for (std::size_t i = 0; i < kPorts; ++i) {
    const auto id = static_cast<PortId>(i);
    const auto memberships = std::exchange(ports_[i].memberships, {});
    for (const auto& [group_and_port, bits] : memberships)
      if (bits != 0)
        static_cast<void>(ask(id, leave_of(group_and_port.first, group_and_port.second, bits)));
    for (wire::InformInfo info : std::exchange(ports_[i].subscriptions, {})) {
      info.subscribe = 0;
      static_cast<void>(
          ask(id, sa::Request::of(wire::Method::kSet, wire::Attr::kInformInfo, 0, info)));
    }
  }
  for (Port& port : ports_) port.notices.clear();
}

}  // namespace ipoib::conformance
