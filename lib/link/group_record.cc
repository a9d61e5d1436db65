// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/group_record.h"

#include "lib/wire/iba.h"
#include "lib/wire/ipoib.h"

namespace ipoib::link {

Result<wire::McMemberRecord> read_group(const sa::Reply& reply, const wire::Gid& mgid,
                                        std::uint16_t pkey, std::uint8_t port_mtu) {
  const auto r = reply.record<wire::McMemberRecord>();
  if (!r) return fail(Errc::kProtocol, "the response of the SA is too short");
  if (r->mgid != mgid)
    return fail(Errc::kProtocol, "the SA returned MGID {}", wire::to_string(r->mgid));
  if (!wire::is_multicast_lid(r->mlid.host()))
    return fail(Errc::kUnavailable, "the group has invalid MLID 0x{:04x}", r->mlid.host());
  if (!wire::same_partition(r->pkey.host(), pkey))
    return fail(Errc::kUnavailable, "the group has a different P_Key 0x{:04x}", r->pkey.host());
  const std::uint8_t mtu = wire::value_of(r->mtu);
  if (wire::mtu_octets(mtu) == 0)
    return fail(Errc::kUnavailable, "the group has invalid MTU code {}", mtu);
  if (mtu > port_mtu)
    return fail(Errc::kUnavailable,
                "the group's MTU {} (code {}) is larger than the port's {} (code {})",
                wire::mtu_octets(mtu), mtu, wire::mtu_octets(port_mtu), port_mtu);
  if (const std::uint8_t rate = wire::value_of(r->rate); wire::rate_mbps(rate) == 0)
    return fail(Errc::kUnavailable, "the group has invalid rate code {}", rate);
  return *r;
}

}  // namespace ipoib::link
