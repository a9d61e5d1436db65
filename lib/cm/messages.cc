// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cm/messages.h"

namespace ipoib::cm {

wire::CmMad req_mad(const Connection& c, const ConnectParams& params, std::uint64_t ca_guid) {
  wire::CmReq req{};
  req.local_id.set(c.id);
  req.service_id.set(params.service_id);
  req.local_ca_guid.set(ca_guid);
  req.local_qpn.set(params.qpn);
  req.set_remote_timeout(params.remote_timeout);
  req.set_transport(params.transport);
  req.starting_psn.set(params.starting_psn);
  req.set_local_timeout(params.local_timeout);
  req.set_retry_count(params.retry_count);
  req.pkey.set(params.to.pkey);
  req.set_mtu(params.mtu);
  req.set_rnr_retry(params.rnr_retry);
  req.set_max_cm_retries(params.max_retries);
  req.set_srq(params.srq);
  req.primary = params.primary;
  req.alternate = params.alternate;
  wire::set_private(req.private_data, c.private_data);
  return wire::make_cm_mad(c.tid, req);
}

wire::CmMad rep_mad(const Connection& c, const AcceptParams& params, std::uint64_t ca_guid) {
  wire::CmRep rep{};
  rep.local_id.set(c.id);
  rep.remote_id.set(c.remote_id);
  rep.local_qpn.set(params.qpn);
  rep.starting_psn.set(params.starting_psn);
  rep.set_target_ack_delay(params.target_ack_delay);
  rep.set_failover(c.exchange->has_alternate ? params.failover : wire::Failover::kAccepted);
  rep.set_rnr_retry(params.rnr_retry);
  rep.set_srq(params.srq);
  rep.local_ca_guid.set(ca_guid);
  wire::set_private(rep.private_data, c.private_data);
  return wire::make_cm_mad(c.tid, rep);
}

wire::CmMad rtu_mad(const Connection& c) {
  wire::CmRtu rtu{};
  rtu.local_id.set(c.id);
  rtu.remote_id.set(c.remote_id);
  wire::set_private(rtu.private_data, c.private_data);
  return wire::make_cm_mad(c.tid, rtu);
}

wire::CmMad mra_mad(const Connection& c, wire::CmAbout about, std::uint8_t timeout) {
  wire::CmMra mra{};
  mra.local_id.set(c.id);
  mra.remote_id.set(c.remote_id);
  mra.set_about(about);
  mra.set_service_timeout(timeout);
  wire::set_private(mra.private_data, c.private_data);
  return wire::make_cm_mad(c.tid, mra);
}

wire::CmMad rej_mad(const Connection& c, wire::CmAbout about, wire::RejReason reason,
                    std::span<const std::byte> info) {
  return rej_mad(c.tid, c.id, c.remote_id, about, reason, info, c.private_data);
}

wire::CmMad rej_mad(std::uint64_t tid, std::uint32_t local_id, std::uint32_t remote_id,
                    wire::CmAbout about, wire::RejReason reason, std::span<const std::byte> info,
                    std::span<const std::byte> private_data) {
  wire::CmRej rej{};
  rej.local_id.set(local_id);
  rej.remote_id.set(remote_id);
  rej.set_about(about);
  rej.reason.set(static_cast<std::uint16_t>(reason));
  rej.set_info(info);
  wire::set_private(rej.private_data, private_data);
  return wire::make_cm_mad(tid, rej);
}

wire::CmMad lap_mad(const Connection& c, std::uint64_t tid, const AlternateParams& params) {
  const wire::CmPath& path = params.path;
  wire::CmLap lap{};
  lap.local_id.set(c.id);
  lap.remote_id.set(c.remote_id);
  lap.remote_qpn.set(c.remote_qpn);
  lap.set_remote_timeout(params.remote_timeout);
  lap.local_lid = path.local_lid;
  lap.remote_lid = path.remote_lid;
  lap.local_gid = path.local_gid;
  lap.remote_gid = path.remote_gid;
  lap.set_flow_label(path.flow_label());
  lap.tclass = path.tclass;
  lap.hop_limit = path.hop_limit;
  lap.set_rate(path.rate());
  lap.set_sl(path.sl());
  lap.set_subnet_local(path.subnet_local());
  lap.set_ack_timeout(path.ack_timeout());
  return wire::make_cm_mad(tid, lap);
}

wire::CmMad dreq_mad(const Connection& c, std::uint64_t tid) {
  wire::CmDreq dreq{};
  dreq.local_id.set(c.id);
  dreq.remote_id.set(c.remote_id);
  dreq.remote_qpn.set(c.remote_qpn);
  return wire::make_cm_mad(tid, dreq);
}

wire::CmMad drep_mad(std::uint64_t tid, const wire::CmDreq& dreq) {
  return wire::make_cm_mad(tid, wire::CmDrep{dreq.remote_id, dreq.local_id, {}});
}

wire::CmMad apr_mad(std::uint64_t tid, const wire::CmLap& lap, wire::ApStatus status) {
  wire::CmApr apr{};
  apr.local_id = lap.remote_id;
  apr.remote_id = lap.local_id;
  apr.status = status;
  return wire::make_cm_mad(tid, apr);
}

}  // namespace ipoib::cm
