// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/sidr_broadcast.h"

#include <algorithm>
#include <utility>

#include "lib/base/contract.h"

namespace ipoib::link {

SidrFinder::SidrFinder(const LinkConfig& config, LinkActions& actions, cm::Manager& manager,
                       LinkCounters& counters)
    : config_{config}, actions_{actions}, manager_{manager}, counters_{counters.sidr} {
  expects(config.ibarp.has_value(), "config.ibarp is set");
}

SidrFinder::~SidrFinder() {
  cancel();
}

void SidrFinder::cancel() {
  if (const auto question = std::exchange(question_, std::nullopt))
    manager_.cancel_question(*question);
}

void SidrFinder::find(Found found, TimePoint now) {
  cancel();
  const auto& port = actions_.port();
  const IbarpConfig& ibarp = *config_.ibarp;
  lid_ = ibarp.server_lid != 0 ? ibarp.server_lid : port.sm_lid;
  if (lid_ == 0)
    return found(
        fail(Errc::kUnavailable, "no SIDR server: the LID of the subnet manager is unknown"), now);
  cm::SidrQuestion question;
  question.to.lid = lid_;
  question.to.sl = ibarp.server_lid != 0 ? std::uint8_t{0} : port.sm_sl;
  question.to.pkey = config_.pkey;
  question.service_id = ibarp.service_id;
  question.timeout = ibarp.timeout;
  question.retries = ibarp.retries;
  ++counters_.asked;
  const auto asked = manager_.ask_service(
      question,
      [this, found](const tl::expected<wire::CmSidrRep, Errc>& outcome, TimePoint at) {
        question_.reset();
        found(accept(outcome), at);
      },
      now);
  if (asked)
    question_ = *asked;
  else
    found(tl::make_unexpected(asked.error()), now);
}

Status SidrFinder::accept(const tl::expected<wire::CmSidrRep, Errc>& outcome) {
  if (!outcome) {
    ++counters_.timed_out;
    return fail(outcome.error(), "no answer of the SIDR server at LID {} to service ID {:#018x}",
                lid_, config_.ibarp->service_id);
  }
  if (outcome->status != wire::SidrStatus::kValid) {
    ++counters_.refused;
    return fail(Errc::kRefused, "the SIDR server at LID {} refused service ID {:#018x}: {} ({})",
                lid_, config_.ibarp->service_id, wire::to_string(outcome->status),
                static_cast<unsigned>(outcome->status));
  }
  auto group = wire::parse_ibarp_broadcast(outcome->private_data);
  if (group && !wire::pkeys_match(group->pkey, config_.pkey | wire::kFullMemberBit))
    group = tl::make_unexpected(wire::IbarpError::kPkey);
  if (!group) {
    ++counters_.invalid;
    ++counters_.errors[static_cast<std::size_t>(group.error())];
    return fail(Errc::kProtocol, "the answer of the SIDR server at LID {} is invalid: {}", lid_,
                wire::to_string(group.error()));
  }
  ++counters_.answered;
  group_ = *group;
  return {};
}

SidrServer::SidrServer(const LinkConfig& config, cm::Manager& manager, LinkCounters& counters)
    : config_{config}, manager_{manager}, counters_{counters.sidr} {
  expects(config.ibarp.has_value(), "config.ibarp is set");
}

void SidrServer::offer(const LinkParameters& p) {
  wire::CmSidrRep answer{};
  answer.status = wire::SidrStatus::kValid;
  answer.qpn.set(wire::kMulticastQpn);
  answer.qkey.set(p.qkey);
  const auto data = wire::build_ibarp_broadcast(
      {.sl = p.sl,
       .tclass = p.tclass,
       .mlid = p.broadcast_mlid,
       .hop_limit = p.hop_limit,
       .flow_label = p.flow_label,
       .pkey = static_cast<std::uint16_t>(config_.pkey | wire::kFullMemberBit),
       .qkey = p.qkey,
       .mgid = p.broadcast_mgid});
  wire::set_private(answer.private_data, data);
  manager_.serve(
      config_.ibarp->service_id,
      [this, answer](const wire::CmSidrReq&, const fabric::MadAddress&) {
        ++counters_.served;
        return answer;
      },
      config_.pkey);
}

void SidrServer::withdraw() {
  manager_.end_service(config_.ibarp->service_id, config_.pkey);
}

}  // namespace ipoib::link
