// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/subnet_agent.h"

#include <array>
#include <span>
#include <utility>

#include "lib/base/contract.h"
#include "lib/wire/sa_records.h"

namespace ipoib::soft {
namespace {

using wire::MadStatus;
using wire::PortInfo;

constexpr std::uint8_t kPhysicalLinkUp = 5;
constexpr std::uint8_t kPollAfterDown = 2;
constexpr std::uint8_t kOneDataLane = 1;  ///< VLCap: VL0.

constexpr std::array<std::uint8_t, 5> kWidths = {2, 1, 4, 8, 16};  ///< 4x, 1x, 8x, 12x, 2x.
constexpr std::array<std::uint8_t, 3> kSpeeds = {1, 2, 4};
constexpr std::array<std::uint8_t, 5> kExtendedSpeeds = {0, 1, 2, 4, 8};

/// Sets a link width and speed of the rate, which wire::port_rate() reads.
void set_rate(PortInfo& info, std::uint8_t rate) {
  for (const std::uint8_t width : kWidths)
    for (const std::uint8_t speed : kSpeeds)
      for (const std::uint8_t extended : kExtendedSpeeds) {
        info.width_active = info.width_enabled = info.width_supported = width;
        info.speed_active = static_cast<std::uint8_t>(speed << 4 | speed);
        info.speed_ext_active = static_cast<std::uint8_t>(extended << 4 | extended);
        if (wire::port_rate(info) == rate) return;
      }
}

std::uint16_t code_of(MadStatus status) {
  return static_cast<std::uint16_t>(status);
}

bool is_method(const wire::MadHdr& header, wire::Method method) {
  return header.method == static_cast<std::uint8_t>(method);
}

}  // namespace

bool SubnetAgent::serves(const fabric::ReceivedMad& mad) const {
  expects_management();
  const auto header = *wire::read<wire::MadHdr>(mad.bytes);
  const bool asks = is_method(header, wire::Method::kGet) || is_method(header, wire::Method::kSet);
  return header.mgmt_class == static_cast<std::uint8_t>(wire::MgmtClass::kSubnLid) && asks &&
         mad.from.lid == port_.sm_lid;
}

PortInfo SubnetAgent::port_info() const {
  PortInfo info{};
  info.gid_prefix.set(port_.gid_prefix);
  info.lid.set(port_.lid);
  info.sm_lid.set(port_.sm_lid);
  info.capability_mask.set(wire::kReregistrationSupported);
  info.local_port = 1;
  set_rate(info, port_.rate);
  info.speed_state =
      static_cast<std::uint8_t>(info.speed_active << 4 | static_cast<std::uint8_t>(port_.state));
  info.phys_down = kPhysicalLinkUp << 4 | kPollAfterDown;
  info.protect_lmc = port_.lmc;
  info.mtu_sm_sl = static_cast<std::uint8_t>(port_.mtu << 4 | port_.sm_sl);
  info.vl[0] = kOneDataLane << 4;
  info.init_mtu_cap = port_.mtu;
  return info;
}

/// `info`: the port's own; with the request for reregistration after such a Set.
std::uint16_t SubnetAgent::serve(const wire::Smp& request, PortInfo& info) {
  const wire::MadHdr& header = request.mad;
  if (header.base_version != wire::kMadBaseVersion ||
      header.class_version != wire::kSmpClassVersion)
    return code_of(MadStatus::kBadVersion);
  if (header.attr_id.host() != static_cast<std::uint16_t>(wire::SmpAttr::kPortInfo))
    return code_of(MadStatus::kMethodAttributeNotSupported);
  if (header.attr_mod.host() > 1) return code_of(MadStatus::kInvalidField);
  if (is_method(header, wire::Method::kGet)) return code_of(MadStatus::kOk);

  const PortInfo wanted = *wire::read<PortInfo>(request.data);
  const bool moves = wanted.gid_prefix != info.gid_prefix || wanted.lid != info.lid ||
                     wanted.sm_lid != info.sm_lid || wanted.sm_sl() != info.sm_sl() ||
                     wanted.lmc() != info.lmc() || wanted.m_key.host() != 0;
  const bool keeps_state = wanted.state() == 0 || wanted.state() == info.state();
  if (moves || !keeps_state) return code_of(MadStatus::kInvalidField);
  if (wanted.client_reregister()) {
    reregister_ = true;
    info.set_client_reregister();
  }
  return code_of(MadStatus::kOk);
}

wire::Smp SubnetAgent::answer(const fabric::ReceivedMad& mad) {
  expects_management();
  wire::Smp smp = *wire::read<wire::Smp>(mad.bytes);
  PortInfo info = port_info();
  const std::uint16_t status = serve(smp, info);
  smp.mad.base_version = wire::kMadBaseVersion;
  smp.mad.class_version = wire::kSmpClassVersion;
  smp.mad.method = static_cast<std::uint8_t>(wire::Method::kGetResp);
  smp.mad.status.set(status);
  smp.m_key.set(0);
  if (status == 0) {
    const bool fits = wire::write(std::span{smp.data}, 0, info);
    expects(fits, "PortInfo fits into an SMP");
  }
  return smp;
}

bool SubnetAgent::take_reregister(std::uint64_t now, std::uint64_t hz) {
  expects_management();
  if (!reregister_ || now < next_reregister_) return false;
  next_reregister_ = now + hz / 1000 * kReregisterMs;
  return std::exchange(reregister_, false);
}

}  // namespace ipoib::soft
