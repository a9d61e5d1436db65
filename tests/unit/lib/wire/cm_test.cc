// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lib/wire/cm_mads.h"
#include "lib/wire/cm_types.h"
#include "lib/wire/ipoib.h"
#include "tests/support/vector_frames.h"

namespace ipoib::wire {
namespace {

using nlohmann::json;
using test::Bytes;
using test::number;
using test::to_hex;

/// Returns the MAD of a UD frame without GRH.
CmMad mad_of(const char* name) {
  const auto mad = read<CmMad>(test::packet_named(name), kUdLocalHeaderLen).value();
  CmMad parsed;
  EXPECT_EQ(parse_cm_mad(bytes_of(mad), parsed), CmError::kNone) << name;
  EXPECT_EQ(to_hex(bytes_of(parsed)), to_hex(bytes_of(mad)));
  return parsed;
}
template <CmMessage T>
T message_of(const char* name) {
  const CmMad mad = mad_of(name);
  EXPECT_EQ(mad.attr(), T::kAttr) << name;
  return cm_message<T>(mad);
}
/// Returns a field from the independent decode of the frame.
std::uint64_t field(const char* frame, const char* name) {
  return number(test::frame_named(frame).at("decode").at(std::string{"infiniband.cm."} + name));
}
Gid gid_field(const char* frame, const char* name) {
  return parse_gid(test::frame_named(frame)
                       .at("decode")
                       .at(std::string{"infiniband.cm."} + name)
                       .get<std::string>())
      .value();
}
/// Returns the fields that the frame was built from. Tests use them if the decoder does not show a
/// field or shows another one in its place.
const json& built(const char* frame) {
  return test::frame_named(frame).at("fields");
}
/// Expects that the encoded message is equal to the MAD of the frame, header included.
template <CmMessage T>
void expect_octets(const char* frame, const T& message) {
  const CmMad as_sent = mad_of(frame);
  EXPECT_EQ(to_hex(bytes_of(make_cm_mad(as_sent.hdr.tid.host(), message))),
            to_hex(bytes_of(as_sent)))
      << frame;
}

TEST(CmVectors, ReqDecodes) {
  for (const char* frame : {"cm-req-rc", "cm-req-rc-linux", "cm-req-uc"}) {
    SCOPED_TRACE(frame);
    const auto req = message_of<CmReq>(frame);
    EXPECT_EQ(req.local_id.host(), field(frame, "req"));
    EXPECT_EQ(req.service_id.host(), field(frame, "req.serviceid"));
    EXPECT_EQ(req.local_ca_guid.host(), field(frame, "req.localcaguid"));
    EXPECT_EQ(req.local_qkey.host(), field(frame, "req.localqkey"));
    EXPECT_EQ(req.local_qpn.host(), field(frame, "req.localqpn"));
    EXPECT_EQ(req.responder_resources, field(frame, "req.responderres"));
    EXPECT_EQ(req.local_eecn.host(), field(frame, "req.localeecn"));
    EXPECT_EQ(req.initiator_depth, field(frame, "req.initdepth"));
    EXPECT_EQ(req.remote_eecn.host(), field(frame, "req.remoteeecn"));
    EXPECT_EQ(req.remote_timeout(), field(frame, "req.remoteresptout"));
    EXPECT_EQ(static_cast<unsigned>(req.transport()), field(frame, "req.transpsvctype"));
    EXPECT_EQ(req.flow_control(), field(frame, "req.e2eflowctrl") != 0);
    EXPECT_EQ(req.starting_psn.host(), field(frame, "req.startpsn"));
    EXPECT_EQ(req.local_timeout(), field(frame, "req.localresptout"));
    EXPECT_EQ(req.retry_count(), field(frame, "req.retrcount"));
    EXPECT_EQ(req.pkey.host(), field(frame, "req.pkey"));
    EXPECT_EQ(req.mtu(), field(frame, "req.pppmtu"));
    EXPECT_EQ(req.rdc_exists(), field(frame, "req.rdcexist") != 0);
    EXPECT_EQ(req.rnr_retry(), field(frame, "req.rnrretrcount"));
    EXPECT_EQ(req.max_cm_retries(), field(frame, "req.maxcmretr"));
    EXPECT_EQ(req.srq(), field(frame, "req.srq") != 0);
    EXPECT_EQ(req.extended_transport(), field(frame, "req.ext_transport"));
    EXPECT_EQ(req.primary.local_lid.host(), field(frame, "req.prim_locallid"));
    EXPECT_EQ(req.primary.remote_lid.host(), field(frame, "req.prim_remotelid"));
    EXPECT_EQ(req.primary.local_gid, gid_field(frame, "req.prim_localgid"));
    EXPECT_EQ(req.primary.remote_gid, gid_field(frame, "req.prim_remotegid"));
    EXPECT_EQ(req.primary.tclass, field(frame, "req.prim_tfcclass"));
    EXPECT_EQ(req.primary.hop_limit, field(frame, "req.prim_hoplim"));
    EXPECT_EQ(req.primary.sl(), field(frame, "req.prim_sl"));
    EXPECT_EQ(req.primary.subnet_local(), field(frame, "req.prim_subnetlocal") != 0);
    EXPECT_EQ(req.primary.ack_timeout(), field(frame, "req.prim_localacktout"));
    EXPECT_TRUE(req.primary.is_given());
    EXPECT_EQ(req.alternate.local_lid.host(), field(frame, "req.alt_locallid"));
    EXPECT_FALSE(req.alternate.is_given());
  }
  // The decoder shows flow label and rate at wrong positions, so the fields of the built frame are
  // used.
  const auto rc = message_of<CmReq>("cm-req-rc");
  EXPECT_EQ(rc.primary.flow_label(), number(built("cm-req-rc").at("primary_flow_label")));
  EXPECT_EQ(rc.primary.rate(), number(built("cm-req-rc").at("primary_packet_rate")));
  const auto uc = message_of<CmReq>("cm-req-uc");
  EXPECT_EQ(uc.transport(), CmTransport::kUc);
  EXPECT_EQ(uc.primary.flow_label(), number(built("cm-req-uc").at("primary_flow_label")));
  EXPECT_EQ(uc.primary.rate(), number(built("cm-req-uc").at("primary_packet_rate")));
}

TEST(CmVectors, ReqEncodes) {
  for (const char* frame : {"cm-req-rc", "cm-req-rc-linux", "cm-req-uc"}) {
    CmReq req{};
    req.local_id.set(static_cast<std::uint32_t>(field(frame, "req")));
    req.service_id.set(field(frame, "req.serviceid"));
    req.local_ca_guid.set(field(frame, "req.localcaguid"));
    req.local_qpn.set(static_cast<std::uint32_t>(field(frame, "req.localqpn")));
    req.responder_resources = static_cast<std::uint8_t>(field(frame, "req.responderres"));
    req.initiator_depth = static_cast<std::uint8_t>(field(frame, "req.initdepth"));
    req.set_remote_timeout(static_cast<unsigned>(field(frame, "req.remoteresptout")));
    req.set_transport(static_cast<CmTransport>(field(frame, "req.transpsvctype")));
    req.set_flow_control(field(frame, "req.e2eflowctrl") != 0);
    req.starting_psn.set(static_cast<std::uint32_t>(field(frame, "req.startpsn")));
    req.set_local_timeout(static_cast<unsigned>(field(frame, "req.localresptout")));
    req.set_retry_count(static_cast<unsigned>(field(frame, "req.retrcount")));
    req.pkey.set(static_cast<std::uint16_t>(field(frame, "req.pkey")));
    req.set_mtu(static_cast<unsigned>(field(frame, "req.pppmtu")));
    req.set_rnr_retry(static_cast<unsigned>(field(frame, "req.rnrretrcount")));
    req.set_max_cm_retries(static_cast<unsigned>(field(frame, "req.maxcmretr")));
    req.set_srq(field(frame, "req.srq") != 0);
    req.primary.local_lid.set(static_cast<std::uint16_t>(field(frame, "req.prim_locallid")));
    req.primary.remote_lid.set(static_cast<std::uint16_t>(field(frame, "req.prim_remotelid")));
    req.primary.local_gid = gid_field(frame, "req.prim_localgid");
    req.primary.remote_gid = gid_field(frame, "req.prim_remotegid");
    const auto as_sent = message_of<CmReq>(frame);
    req.primary.flow_rate =
        CmPath::pack_flow_rate(as_sent.primary.flow_label(), as_sent.primary.rate());
    req.primary.tclass = static_cast<std::uint8_t>(field(frame, "req.prim_tfcclass"));
    req.primary.hop_limit = static_cast<std::uint8_t>(field(frame, "req.prim_hoplim"));
    req.primary.set_sl(static_cast<unsigned>(field(frame, "req.prim_sl")));
    req.primary.set_subnet_local(field(frame, "req.prim_subnetlocal") != 0);
    req.primary.set_ack_timeout(static_cast<unsigned>(field(frame, "req.prim_localacktout")));
    set_private(req.private_data, as_sent.private_data);
    expect_octets(frame, req);
  }
}

TEST(CmVectors, RepDecodesAndEncodes) {
  const auto rep = message_of<CmRep>("cm-rep");
  EXPECT_EQ(rep.local_id.host(), field("cm-rep", "rep"));
  EXPECT_EQ(rep.remote_id.host(), field("cm-rep", "rep.remotecommid"));
  EXPECT_EQ(rep.local_qpn.host(), field("cm-rep", "rep.localqpn"));
  EXPECT_EQ(rep.starting_psn.host(), field("cm-rep", "rep.startpsn"));
  EXPECT_EQ(rep.responder_resources, field("cm-rep", "rep.respres"));
  EXPECT_EQ(rep.initiator_depth, field("cm-rep", "rep.initdepth"));
  EXPECT_EQ(rep.target_ack_delay(), field("cm-rep", "rep.tgtackdelay"));
  EXPECT_EQ(static_cast<unsigned>(rep.failover()), field("cm-rep", "rep.failoveracc"));
  EXPECT_EQ(rep.flow_control(), field("cm-rep", "rep.e2eflowctrl") != 0);
  EXPECT_EQ(rep.rnr_retry(), field("cm-rep", "rep.rnrretrcount"));
  EXPECT_EQ(rep.srq(), field("cm-rep", "rep.srq") != 0);
  EXPECT_EQ(rep.local_ca_guid.host(), field("cm-rep", "rep.localcaguid"));

  CmRep again{};
  again.local_id.set(0x55667788);
  again.remote_id.set(0x11223344);
  again.local_qpn.set(0x507);
  again.starting_psn.set(0xcc000);
  again.set_target_ack_delay(15);
  again.set_rnr_retry(7);
  again.local_ca_guid.set(0x0002c90300a1b206);
  set_private(again.private_data, rep.private_data);
  expect_octets("cm-rep", again);
}

TEST(CmVectors, MraDecodesAndEncodes) {
  const auto mra = message_of<CmMra>("cm-mra");
  const json& f = built("cm-mra");
  EXPECT_EQ(mra.local_id.host(), number(f.at("local_comm_id")));
  EXPECT_EQ(mra.remote_id.host(), number(f.at("remote_comm_id")));
  EXPECT_EQ(static_cast<unsigned>(mra.about()), number(f.at("message_mraed")));
  EXPECT_EQ(mra.service_timeout(), number(f.at("service_timeout")));
  CmMra again{};
  again.local_id = mra.local_id;
  again.remote_id = mra.remote_id;
  again.set_about(CmAbout::kReq);
  again.set_service_timeout(21);
  expect_octets("cm-mra", again);
}

TEST(CmVectors, RejDecodesAndEncodes) {
  for (const char* frame : {"cm-rej-consumer", "cm-rej-sid", "cm-rej-stale", "cm-rej-timeout"}) {
    SCOPED_TRACE(frame);
    const auto rej = message_of<CmRej>(frame);
    EXPECT_EQ(rej.local_id.host(), field(frame, "rej.localcommid"));
    EXPECT_EQ(rej.remote_id.host(), field(frame, "rej.remotecommid"));
    EXPECT_EQ(static_cast<unsigned>(rej.about()), field(frame, "rej.msgrej"));
    EXPECT_EQ(rej.info_len(), field(frame, "rej.rejinfolen"));
    EXPECT_EQ(rej.reason.host(), field(frame, "rej.reason"));
    CmRej again{};
    again.local_id = rej.local_id;
    again.remote_id = rej.remote_id;
    again.set_about(rej.about());
    again.set_info(std::span{rej.info}.first(rej.info_len()));
    again.reason = rej.reason;
    set_private(again.private_data, rej.private_data);
    expect_octets(frame, again);
  }
  EXPECT_EQ(message_of<CmRej>("cm-rej-consumer").why(), RejReason::kConsumer);
  EXPECT_EQ(message_of<CmRej>("cm-rej-sid").why(), RejReason::kInvalidServiceId);
  EXPECT_EQ(message_of<CmRej>("cm-rej-stale").why(), RejReason::kStaleConnection);
  const auto timeout = message_of<CmRej>("cm-rej-timeout");
  EXPECT_EQ(timeout.why(), RejReason::kTimeout);
  EXPECT_EQ(read<Be64>(timeout.info)->host(), 0x0002c90300a1b203U);
}

TEST(CmVectors, RtuDreqAndDrepDecodeAndEncode) {
  const auto rtu = message_of<CmRtu>("cm-rtu");
  EXPECT_EQ(rtu.local_id.host(), field("cm-rtu", "rtu.localcommid"));
  EXPECT_EQ(rtu.remote_id.host(), field("cm-rtu", "rtu.remotecommid"));
  expect_octets("cm-rtu", CmRtu{Be32{0x11223344}, Be32{0x55667788}, {}});
  const auto dreq = message_of<CmDreq>("cm-dreq");
  EXPECT_EQ(dreq.local_id.host(), field("cm-dreq", "dreq.localcommid"));
  EXPECT_EQ(dreq.remote_qpn.host(), field("cm-dreq", "req.remoteqpneecn"));
  expect_octets("cm-dreq", CmDreq{Be32{0x11223344}, Be32{0x55667788}, Be24{0x507}, 0, {}});
  const auto drep = message_of<CmDrep>("cm-drep");
  EXPECT_EQ(drep.remote_id.host(), field("cm-drep", "drsp.remotecommid"));
  expect_octets("cm-drep", CmDrep{Be32{0x55667788}, Be32{0x11223344}, {}});
}

TEST(CmVectors, LapAndAprDecodeAndEncode) {
  const auto lap = message_of<CmLap>("cm-lap");
  const json& f = built("cm-lap");
  EXPECT_EQ(lap.local_id.host(), number(f.at("local_comm_id")));
  EXPECT_EQ(lap.remote_id.host(), number(f.at("remote_comm_id")));
  EXPECT_EQ(lap.remote_qpn.host(), number(f.at("remote_qpn")));
  EXPECT_EQ(lap.remote_timeout(), number(f.at("remote_cm_response_timeout")));
  EXPECT_EQ(lap.local_lid.host(), number(f.at("alt_local_lid")));
  EXPECT_EQ(lap.remote_lid.host(), number(f.at("alt_remote_lid")));
  EXPECT_EQ(lap.local_gid, parse_gid(f.at("alt_local_gid").get<std::string>()));
  EXPECT_EQ(lap.remote_gid, parse_gid(f.at("alt_remote_gid").get<std::string>()));
  EXPECT_EQ(lap.flow_label(), number(f.at("alt_flow_label")));
  EXPECT_EQ(lap.tclass, number(f.at("alt_traffic_class")));
  EXPECT_EQ(lap.hop_limit, number(f.at("alt_hop_limit")));
  EXPECT_EQ(lap.rate(), number(f.at("alt_rate")));
  EXPECT_EQ(lap.sl(), number(f.at("alt_sl")));
  EXPECT_EQ(lap.subnet_local(), number(f.at("alt_subnet_local")) != 0);
  EXPECT_EQ(lap.ack_timeout(), number(f.at("alt_local_ack_timeout")));
  CmLap again{};
  again.local_id = lap.local_id;
  again.remote_id = lap.remote_id;
  again.remote_qpn = lap.remote_qpn;
  again.set_remote_timeout(20);
  again.local_lid = lap.local_lid;
  again.remote_lid = lap.remote_lid;
  again.local_gid = lap.local_gid;
  again.remote_gid = lap.remote_gid;
  again.set_flow_label(0x12345);
  again.tclass = 0x5a;
  again.hop_limit = 63;
  again.set_rate(3);
  again.set_sl(7);
  again.set_subnet_local(false);
  again.set_ack_timeout(17);
  expect_octets("cm-lap", again);

  const auto apr = message_of<CmApr>("cm-apr");
  EXPECT_EQ(apr.status, ApStatus::kNotSupported);
  EXPECT_EQ(apr.info_len, 0);
  expect_octets(
      "cm-apr",
      CmApr{Be32{0x55667788}, Be32{0x11223344}, 0, ApStatus::kNotSupported, Be16{}, {}, {}});
}

TEST(CmVectors, SidrDecodesAndEncodes) {
  const auto req = message_of<CmSidrReq>("sidr-req");
  CmSidrReq req_again{};
  req_again.request_id.set(0x99aabbcc);
  req_again.pkey.set(0xffff);
  req_again.service_id.set(0x0100000000001001);
  set_private(req_again.private_data, req.private_data);
  expect_octets("sidr-req", req_again);
  for (const char* frame : {"sidr-rep", "sidr-rep-unsupported"}) {
    const auto rep = message_of<CmSidrRep>(frame);
    const bool valid = std::string_view{frame} == "sidr-rep";
    EXPECT_EQ(rep.status, valid ? SidrStatus::kValid : SidrStatus::kServiceNotSupported);
    EXPECT_EQ(rep.qpn.host(), valid ? 0x49U : 0U);
    EXPECT_EQ(rep.qkey.host(), valid ? 0xb1bU : 0U);
    EXPECT_EQ(rep.service_id.host(), valid ? 0x0100000000001001U : 0x0100000000001002U);
    CmSidrRep again{};
    again.request_id = rep.request_id;
    again.status = rep.status;
    again.qpn = rep.qpn;
    again.qkey = rep.qkey;
    again.service_id = rep.service_id;
    set_private(again.private_data, rep.private_data);
    expect_octets(frame, again);
  }
}

TEST(Cm, FaultsOfAMadAreToldApart) {
  const CmMad good = mad_of("cm-rej-consumer");
  CmMad out;
  const auto error_with = [&](auto&& change) {
    CmMad mad = good;
    change(mad);
    return parse_cm_mad(bytes_of(mad), out);
  };
  EXPECT_EQ(error_with([](CmMad&) {}), CmError::kNone);
  EXPECT_EQ(error_with([](CmMad& m) { m.hdr.base_version = 2; }), CmError::kBaseVersion);
  EXPECT_EQ(error_with([](CmMad& m) { m.hdr.mgmt_class = 3; }), CmError::kClass);
  EXPECT_EQ(error_with([](CmMad& m) { m.hdr.class_version = 1; }), CmError::kClassVersion);
  EXPECT_EQ(error_with([](CmMad& m) { m.hdr.method = 1; }), CmError::kMethod);
  EXPECT_EQ(error_with([](CmMad& m) { m.hdr.attr_id.set(0x0f); }), CmError::kAttribute);
  EXPECT_EQ(error_with([](CmMad& m) { m.hdr.attr_id.set(0x1b); }), CmError::kAttribute);
  // The cases are 73 octets of additional information, and an undefined message code.
  EXPECT_EQ(error_with([](CmMad& m) { m.data[9] = std::byte{73 << 1}; }), CmError::kInfoLength);
  EXPECT_EQ(error_with([](CmMad& m) { m.data[9] = std::byte{72 << 1}; }), CmError::kNone);
  EXPECT_EQ(error_with([](CmMad& m) { m.data[8] = std::byte{0xc0}; }), CmError::kMessageCode);
  const auto error_of = [&](std::uint16_t attr, std::size_t at, unsigned octet) {
    return error_with([=](CmMad& m) { m.hdr.attr_id.set(attr), m.data[at] = std::byte(octet); });
  };
  EXPECT_EQ(error_of(0x11, 8, 0xc0), CmError::kMessageCode);
  EXPECT_EQ(error_of(0x1a, 8, 73), CmError::kInfoLength);
  EXPECT_EQ(error_of(0x18, 5, 73), CmError::kInfoLength);
  Bytes octets(kMadLen + 1);
  for (const std::size_t len : {std::size_t{0}, std::size_t{24}, kMadLen - 1, kMadLen + 1})
    EXPECT_EQ(parse_cm_mad(std::span{octets}.first(len), out), CmError::kLength) << len;
}

/// The parser ignores the status and the class-specific field of the header, and reserved bits of a
/// message.
TEST(Cm, ReservedBitsAreIgnored) {
  CmMad mad = mad_of("cm-mra");
  mad.hdr.status.set(0xffff);
  mad.hdr.reserved.set(0xffff);
  mad.data[8] |= std::byte{0x3f};
  mad.data[9] |= std::byte{0x07};
  CmMad out;
  ASSERT_EQ(parse_cm_mad(bytes_of(mad), out), CmError::kNone);
  EXPECT_EQ(cm_message<CmMra>(out).about(), CmAbout::kReq);
  EXPECT_EQ(cm_message<CmMra>(out).service_timeout(), 21);
}

/// Each setter changes only the bits of its own field.
TEST(Cm, BitFieldsDoNotOverlap) {
  CmReq req{};
  std::memset(static_cast<void*>(&req), 0xff, sizeof(req));
  req.set_remote_timeout(0);
  EXPECT_EQ(req.remote_timeout_transport, 0x07);
  req.set_transport(CmTransport::kRc);
  EXPECT_EQ(req.remote_timeout_transport, 0x01);
  req.set_flow_control(false);
  EXPECT_EQ(req.remote_timeout_transport, 0);
  req.set_local_timeout(0);
  EXPECT_EQ(req.local_timeout_retry, 0x07);
  req.set_retry_count(0);
  EXPECT_EQ(req.local_timeout_retry, 0);
  req.set_mtu(0);
  EXPECT_EQ(req.mtu_rdc_rnr, 0x0f);
  req.set_rnr_retry(8 + 2);  // does not fit into three bits
  EXPECT_EQ(req.mtu_rdc_rnr, 0x0a);
  req.set_max_cm_retries(0);
  EXPECT_EQ(req.cm_retries_srq, 0x0f);
  req.set_srq(false);
  EXPECT_EQ(req.cm_retries_srq, 0x07);
  EXPECT_EQ(req.extended_transport(), 7);
  CmRep rep{};
  rep.set_target_ack_delay(31);
  EXPECT_EQ(rep.delay_failover, 0xf8);
  rep.set_failover(Failover::kRejected);
  EXPECT_EQ(rep.delay_failover, 0xfc);
  rep.set_flow_control(true);
  EXPECT_EQ(rep.delay_failover, 0xfd);
  rep.set_rnr_retry(7);
  EXPECT_EQ(rep.rnr_srq, 0xe0);
  rep.set_srq(true);
  EXPECT_EQ(rep.rnr_srq, 0xf0);
}

TEST(Cm, EveryReasonAndMessageHasItsName) {
  std::set<std::string_view> names;
  for (std::uint16_t reason = 1; reason <= 35; ++reason)
    if (reason != 34) names.insert(to_string(static_cast<RejReason>(reason)));
  EXPECT_EQ(names.size(), 34U);
  EXPECT_EQ(names.count("unknown reason"), 0U);
  EXPECT_EQ(to_string(static_cast<RejReason>(34)), "unknown reason");
  EXPECT_EQ(to_string(RejReason::kConsumer), "consumer reject");
  names.clear();
  for (std::uint16_t attr = 0x10; attr <= 0x1a; ++attr)
    names.insert(to_string(static_cast<CmAttr>(attr)));
  EXPECT_EQ(names.size(), kCmAttrs);
  names.clear();
  for (std::size_t e = 0; e < static_cast<std::size_t>(CmError::kCount); ++e)
    names.insert(cm_error_name(static_cast<CmError>(e)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(CmError::kCount));
}

}  // namespace
}  // namespace ipoib::wire
