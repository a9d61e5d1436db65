// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <string>

#include "lib/wire/arp.h"
#include "lib/wire/frame.h"
#include "lib/wire/ipoib.h"
#include "tests/support/vector_frames.h"

namespace ipoib::wire {
namespace {

using nlohmann::json;
using test::Bytes;
using test::frames;
using test::number;
using test::packet_of;
using test::to_hex;

/// Returns a field from the independent decode of the frame.
std::uint64_t field(const json& frame, const char* name) {
  return number(frame.at("decode").at(std::string{"infiniband."} + name));
}
template <class T>
T field_as(const json& frame, const char* name) {
  return static_cast<T>(field(frame, name));
}
Gid gid_field(const json& frame, const char* name) {
  return parse_gid(frame.at("decode").at(std::string{"infiniband."} + name).get<std::string>())
      .value();
}

/// Returns the headers of a UD frame, from the independent decode only.
UdSpec spec_of(const json& f) {
  UdSpec spec;
  spec.vl = field_as<std::uint8_t>(f, "lrh.vl");
  spec.sl = field_as<std::uint8_t>(f, "lrh.sl");
  spec.dlid = field_as<std::uint16_t>(f, "lrh.dlid");
  spec.slid = field_as<std::uint16_t>(f, "lrh.slid");
  if (field(f, "lrh.lnh") == 3)
    spec.grh = GrhSpec{
        gid_field(f, "grh.sgid"), gid_field(f, "grh.dgid"), field_as<std::uint8_t>(f, "grh.tclass"),
        field_as<std::uint32_t>(f, "grh.flowlabel"), field_as<std::uint8_t>(f, "grh.hoplmt")};
  spec.pkey = field_as<std::uint16_t>(f, "bth.p_key");
  spec.dest_qp = field_as<std::uint32_t>(f, "bth.destqp");
  spec.src_qp = field_as<std::uint32_t>(f, "deth.srcqp");
  spec.qkey = field_as<std::uint32_t>(f, "deth.q_key");
  spec.psn = field_as<std::uint32_t>(f, "bth.psn");
  spec.solicited = field(f, "bth.se") != 0;
  spec.mig_req = field(f, "bth.m") != 0;
  return spec;
}

TEST(FrameVectors, HeadersOfEveryFrameDecode) {
  ASSERT_EQ(frames().size(), 66U);
  for (const auto& f : frames()) {
    SCOPED_TRACE(f.at("name"));
    const Bytes packet = packet_of(f);
    IbaFrame iba;
    ASSERT_EQ(parse_iba(packet, iba), FrameError::kNone);
    EXPECT_EQ(iba.lrh.vl(), field(f, "lrh.vl"));
    EXPECT_EQ(iba.lrh.lver(), field(f, "lrh.lver"));
    EXPECT_EQ(iba.lrh.sl(), field(f, "lrh.sl"));
    EXPECT_EQ(static_cast<unsigned>(iba.lrh.lnh()), field(f, "lrh.lnh"));
    EXPECT_EQ(iba.lrh.dlid.host(), field(f, "lrh.dlid"));
    EXPECT_EQ(iba.lrh.packet_len(), field(f, "lrh.pktlen") * 4);
    EXPECT_EQ(iba.lrh.slid.host(), field(f, "lrh.slid"));
    EXPECT_EQ(iba.packet_len, packet.size());
    EXPECT_EQ(iba.bth.opcode, field(f, "bth.opcode"));
    EXPECT_EQ((iba.bth.flags & Bth::kSolicited) != 0, field(f, "bth.se") != 0);
    EXPECT_EQ((iba.bth.flags & Bth::kMigReq) != 0, field(f, "bth.m") != 0);
    EXPECT_EQ(iba.bth.pad(), field(f, "bth.padcnt"));
    EXPECT_EQ(iba.bth.tver(), field(f, "bth.tver"));
    EXPECT_EQ(iba.bth.pkey.host(), field(f, "bth.p_key"));
    EXPECT_EQ(iba.bth.dest_qp.host(), field(f, "bth.destqp"));
    EXPECT_EQ((iba.bth.ack_resv & Bth::kAckReq) != 0, field(f, "bth.a") != 0);
    EXPECT_EQ(iba.bth.psn.host(), field(f, "bth.psn"));
    EXPECT_EQ(std::size_t{iba.body} + iba.body_len + iba.bth.pad() + kIcrcLen, packet.size());
    EXPECT_TRUE(icrc_is_good(packet));

    ASSERT_EQ(iba.global, f.at("decode").contains("infiniband.grh"));
    if (!iba.global) continue;
    const Grh grh = grh_of(packet);
    EXPECT_EQ(grh.ip_version(), field(f, "grh.ipver"));
    EXPECT_EQ(grh.tclass(), field(f, "grh.tclass"));
    EXPECT_EQ(grh.flow_label(), field(f, "grh.flowlabel"));
    EXPECT_EQ(grh.pay_len.host(), field(f, "grh.paylen"));
    EXPECT_EQ(grh.next_header, field(f, "grh.nxthdr"));
    EXPECT_EQ(grh.hop_limit, field(f, "grh.hoplmt"));
    EXPECT_EQ(grh.sgid, gid_field(f, "grh.sgid"));
    EXPECT_EQ(grh.dgid, gid_field(f, "grh.dgid"));
  }
}

TEST(FrameVectors, EveryUdFrameDecodesAndEncodes) {
  std::size_t ud_frames = 0;
  for (const auto& f : frames()) {
    SCOPED_TRACE(f.at("name"));
    const Bytes packet = packet_of(f);
    UdFrame ud;
    const FrameError error = parse_ud(packet, ud);
    if (!f.at("decode").contains("infiniband.deth")) {
      EXPECT_EQ(error, FrameError::kOpcode);
      continue;
    }
    ++ud_frames;
    ASSERT_EQ(error, FrameError::kNone);
    EXPECT_EQ(ud.deth.qkey.host(), field(f, "deth.q_key"));
    EXPECT_EQ(ud.deth.src_qp.host(), field(f, "deth.srcqp"));

    const auto payload = std::span{packet}.subspan(ud.payload, ud.payload_len);
    Bytes built(packet.size() + kVcrcLen);
    ASSERT_EQ(build_ud_packet(spec_of(f), payload, built), packet.size());
    ASSERT_TRUE(append_vcrc(built, packet.size()));
    EXPECT_EQ(to_hex(built), f.at("hex"));
  }
  EXPECT_EQ(ud_frames, 51U);
}

TEST(FrameVectors, U11_EncapsulationHeaderAndArp) {
  std::size_t encapsulated = 0;
  std::size_t arps = 0;
  for (const auto& f : frames()) {
    const json& decode = f.at("decode");
    if (!decode.contains("infiniband.rwh.etype") || !decode.contains("infiniband.deth")) continue;
    SCOPED_TRACE(f.at("name"));
    const Bytes packet = packet_of(f);
    UdFrame ud;
    ASSERT_EQ(parse_ud(packet, ud), FrameError::kNone);
    const auto payload = std::span{packet}.subspan(ud.payload, ud.payload_len);
    const auto hdr = read<IpoibHdr>(payload);
    ASSERT_TRUE(hdr);
    EXPECT_EQ(hdr->type.host(), field(f, "rwh.etype"));
    EXPECT_EQ(hdr->reserved.host(), 0);
    ++encapsulated;

    if (!decode.contains("arp.opcode")) continue;
    ++arps;
    const auto arp = parse_arp(LinkKind::kInfiniband, payload.subspan(sizeof(IpoibHdr)));
    ASSERT_TRUE(arp);
    const auto ip = [&](const char* name) {
      return parse_ip(decode.at(name).get<std::string>()).value().v4_host();
    };
    const auto hw = [&](const char* name) {
      return parse_link_addr(decode.at(name).get<std::string>()).value();
    };
    const Arp expected{static_cast<ArpOp>(number(decode.at("arp.opcode"))), hw("arp.src.hw"),
                       ip("arp.src.proto_ipv4"), hw("arp.dst.hw"), ip("arp.dst.proto_ipv4")};
    EXPECT_EQ(*arp, expected);
    EXPECT_EQ(to_hex(build_arp(expected)), to_hex(payload.subspan(sizeof(IpoibHdr))));
  }
  EXPECT_EQ(encapsulated, 9U);
  EXPECT_EQ(arps, 2U);
}

}  // namespace
}  // namespace ipoib::wire
