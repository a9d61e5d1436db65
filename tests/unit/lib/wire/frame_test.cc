#include "lib/wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/wire/ipoib.h"
#include "tests/vectors/vectors.h"

namespace ipoib::wire {
namespace {

using nlohmann::json;
using test::Bytes;
using test::number;
using test::octets;
using test::to_hex;

const json& frames() {
  static const json all = test::load_vectors("frames-generated.json").at("frames");
  return all;
}
const json& frame_named(const std::string& name) {
  const auto found = std::find_if(frames().begin(), frames().end(),
                                  [&](const json& f) { return f.at("name") == name; });
  if (found == frames().end()) throw std::runtime_error("no frame " + name);
  return *found;
}
/// LRH through ICRC.
Bytes packet_of(const json& frame) {
  Bytes packet = octets(frame.at("hex"));
  packet.resize(packet.size() - kVcrcLen);
  return packet;
}
Bytes packet_named(const std::string& name) {
  return packet_of(frame_named(name));
}

/// A field of the independent decode.
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

FrameError parse_error(std::span<const std::byte> octets) {
  IbaFrame out;
  return parse_iba(octets, out);
}
FrameError parse_ud_error(std::span<const std::byte> octets) {
  UdFrame out;
  return parse_ud(octets, out);
}

/// What the headers of a UD frame say, by the independent decode alone.
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
    const auto arp = parse_arp<LinkAddr>(payload.subspan(sizeof(IpoibHdr)));
    ASSERT_TRUE(arp);
    const auto ip = [&](const char* name) {
      return parse_ip(decode.at(name).get<std::string>()).value().v4_host();
    };
    const auto hw = [&](const char* name) {
      return parse_link_addr(decode.at(name).get<std::string>()).value();
    };
    const auto built =
        make_arp(static_cast<ArpOp>(number(decode.at("arp.opcode"))), hw("arp.src.hw"),
                 ip("arp.src.proto_ipv4"), hw("arp.dst.hw"), ip("arp.dst.proto_ipv4"));
    EXPECT_EQ(to_hex(bytes_of(built)), to_hex(payload.subspan(sizeof(IpoibHdr))));
    EXPECT_EQ(to_hex(bytes_of(*arp)), to_hex(bytes_of(built)));
  }
  EXPECT_EQ(encapsulated, 9U);
  EXPECT_EQ(arps, 2U);
}

TEST(ParseFrame, EveryTruncationIsNamed) {
  for (const auto& f : frames()) {
    const Bytes packet = packet_of(f);
    for (std::size_t len = 0; len < packet.size(); ++len) {
      const Bytes cut{packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(len)};
      const auto expected = len < sizeof(Lrh) ? FrameError::kRunt : FrameError::kPacketLength;
      ASSERT_EQ(parse_error(cut), expected) << f.at("name") << ' ' << len;
      ASSERT_EQ(parse_ud_error(cut), expected) << f.at("name") << ' ' << len;
    }
  }
}

/// The same, and the headers claim that the cut is the whole packet.
TEST(ParseFrame, EveryConsistentTruncationStaysInside) {
  for (const char* name : {"ud-arp-request", "ud-ipv4-pad3", "rc-ack"}) {
    const Bytes packet = packet_named(name);
    for (std::size_t len = sizeof(Lrh); len < packet.size(); len += 4) {
      Bytes cut{packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(len)};
      cut[5] = static_cast<std::byte>(len / 4);
      const bool global = (cut[1] & std::byte{3}) == std::byte{3};
      if (global && len >= 16) cut[13] = static_cast<std::byte>(len - 48);
      const std::size_t headers = sizeof(Lrh) + (global ? sizeof(Grh) : 0) + sizeof(Bth);
      EXPECT_EQ(parse_error(cut) == FrameError::kRunt, len < headers + kIcrcLen)
          << name << ' ' << len;
      const bool holds_deth = len >= headers + sizeof(Deth) + kIcrcLen;
      EXPECT_TRUE(holds_deth || parse_ud_error(cut) != FrameError::kNone) << name << ' ' << len;
    }
  }
}

TEST(ParseFrame, EveryWrongPacketLengthIsNamed) {
  const Bytes packet = packet_named("ud-ipv4-grh-global");
  for (std::size_t words = 0; words < 2048; ++words) {
    Bytes bad = packet;
    bad[4] = static_cast<std::byte>(words >> 8);
    bad[5] = static_cast<std::byte>(words);
    const auto expected =
        words * 4 == packet.size() ? FrameError::kNone : FrameError::kPacketLength;
    EXPECT_EQ(parse_error(bad), expected) << words;
  }
}

TEST(ParseFrame, EthernetMayPadShortPackets) {
  Bytes frame = packet_named("rc-ack");
  const std::size_t packet_len = frame.size();
  ASSERT_LT(packet_len, kEthernetMinPayload);
  frame.resize(kEthernetMinPayload);
  IbaFrame out;
  ASSERT_EQ(parse_iba(frame, out), FrameError::kNone);
  EXPECT_EQ(out.packet_len, packet_len);
  EXPECT_TRUE(icrc_is_good(std::span{frame}.first(out.packet_len)));
  frame.resize(kEthernetMinPayload + 1);
  EXPECT_EQ(parse_error(frame), FrameError::kPacketLength);
}

TEST(ParseFrame, EveryBadFieldIsNamed) {
  struct Case {
    const char* what;
    const char* frame;
    std::size_t at;
    unsigned value;
    FrameError iba;
    FrameError ud;
  };
  using enum FrameError;
  for (const auto& c : std::initializer_list<Case>{
           {"LVer 1", "ud-ipv4-pad0", 0, 0x01, kLinkVersion, kLinkVersion},
           {"LVer 15 on VL 15", "ud-ipv4-pad0", 0, 0xff, kLinkVersion, kLinkVersion},
           {"VL 15", "ud-ipv4-pad0", 0, 0xf0, kNone, kNone},
           {"LNH 0", "ud-ipv4-pad0", 1, 0x00, kNotIba, kNotIba},
           {"LNH 1", "ud-ipv4-pad0", 1, 0x01, kNotIba, kNotIba},
           {"GRH where a BTH is, of opcode 6x", "ud-ipv4-pad0", 1, 0x03, kGrhNextHeader,
            kGrhNextHeader},
           {"no GRH where one is", "ud-arp-request", 1, 0x02, kNone, kOpcode},
           {"reserved bits above PktLen", "ud-ipv4-pad0", 4, 0xf8, kNone, kNone},
           {"IPVer 4", "ud-arp-request", 8, 0x40, kGrhVersion, kGrhVersion},
           {"IPVer 7", "ud-arp-request", 8, 0x7f, kGrhVersion, kGrhVersion},
           {"NxtHdr 6", "ud-arp-request", 14, 0x06, kGrhNextHeader, kGrhNextHeader},
           {"PayLen too short", "ud-arp-request", 13, 0x50, kGrhLength, kGrhLength},
           {"PayLen too long", "ud-arp-request", 12, 0xff, kGrhLength, kGrhLength},
           {"TVer 1", "ud-ipv4-pad0", 9, 0x41, kTransportVersion, kTransportVersion},
           {"TVer 15 behind a GRH", "ud-arp-request", 49, 0x4f, kTransportVersion,
            kTransportVersion},
           {"UD SEND with immediate", "ud-ipv4-pad0", 8, 0x65, kNone, kOpcode},
           {"RD SEND", "ud-ipv4-pad0", 8, 0x44, kNone, kOpcode},
           {"RC ACK taken for UD", "rc-ack", 8, 0x64, kNone, kRunt},
           {"RC ACK with 3 of 4 octets pad", "rc-ack", 9, 0x70, kNone, kOpcode}}) {
    Bytes bad = packet_named(c.frame);
    bad.at(c.at) = static_cast<std::byte>(c.value);
    EXPECT_EQ(parse_error(bad), c.iba) << c.what;
    EXPECT_EQ(parse_ud_error(bad), c.ud) << c.what;
  }
}

TEST(ParseFrame, PadBeyondWhatThereIsIsNamed) {
  // LRH, BTH, ICRC, and nothing that pad could be part of.
  Bytes bare = packet_named("rc-ack");
  bare.resize(sizeof(Lrh) + sizeof(Bth) + kIcrcLen);
  bare[5] = static_cast<std::byte>(bare.size() / 4);
  bare[9] = std::byte{0x40};
  EXPECT_EQ(parse_error(bare), FrameError::kNone);
  bare[9] = std::byte{0x50};
  EXPECT_EQ(parse_error(bare), FrameError::kPad);

  // A UD packet without payload whose pad would reach into the DETH.
  Bytes empty(ud_packet_len(false, 0));
  ASSERT_EQ(build_ud_packet(UdSpec{}, {}, empty), empty.size());
  EXPECT_EQ(parse_ud_error(empty), FrameError::kNone);
  empty[9] |= std::byte{0x10};
  EXPECT_EQ(parse_ud_error(empty), FrameError::kPad);
}

void expect_sound(std::span<const std::byte> octets) {
  UdFrame ud;
  const FrameError error = parse_ud(octets, ud);
  ASSERT_LT(error, FrameError::kCount);
  if (error != FrameError::kNone) return;
  const IbaFrame& iba = ud.iba;
  ASSERT_LE(iba.packet_len, octets.size());
  ASSERT_EQ(std::size_t{iba.body} + iba.body_len + iba.bth.pad() + kIcrcLen, iba.packet_len);
  ASSERT_EQ(std::size_t{ud.payload} + ud.payload_len, std::size_t{iba.body} + iba.body_len);
  (void)icrc_is_good(octets.first(iba.packet_len));
}

TEST(ParseFrame, RandomOctetsAreSoundOrNamed) {
  std::mt19937 random{4391};
  std::set<FrameError> seen;
  for (int round = 0; round < 200'000; ++round) {
    Bytes noise(random() % 120);
    for (auto& b : noise) b = static_cast<std::byte>(random());
    // Most noise would end at the first check: let some of it pass the length checks.
    if (noise.size() >= 24 && round % 2 == 0) {
      noise.resize(noise.size() & ~std::size_t{3});
      noise[0] &= std::byte{0xf0};
      noise[4] = std::byte{0};
      noise[5] = static_cast<std::byte>(noise.size() / 4);
    }
    expect_sound(noise);
    seen.insert(parse_ud_error(noise));
  }
  EXPECT_GE(seen.size(), 6U);
}

TEST(ParseFrame, MutatedFramesAreSoundOrNamed) {
  std::mt19937 random{4392};
  for (const auto& f : frames()) {
    const Bytes packet = packet_of(f);
    for (int round = 0; round < 500; ++round) {
      Bytes bad = packet;
      for (unsigned flips = random() % 4 + 1; flips > 0; --flips)
        bad[random() % std::min<std::size_t>(bad.size(), 72)] ^=
            static_cast<std::byte>(1U << random() % 8);
      bad.resize(random() % 4 == 0 ? random() % (bad.size() + 8) : bad.size());
      expect_sound(bad);
    }
  }
}

TEST(Icrc, EveryCoveredBitIsGuarded) {
  const Bytes packet = packet_named("ud-ipv4-pad0");
  for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
    Bytes bad = packet;
    bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const bool outside = (bit / 8 == 0 && bit % 8 >= 4) || bit / 8 == 12;
    EXPECT_EQ(icrc_is_good(bad), outside) << bit;
  }
}

TEST(FrameError, EveryNameIsItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(FrameError::kCount); ++i) {
    const auto name = frame_error_name(static_cast<FrameError>(i));
    EXPECT_FALSE(name.empty()) << i;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(frame_error_name(FrameError::kNone), "none");
  EXPECT_EQ(frame_error_name(FrameError::kPacketLength), "packet_length");
  EXPECT_EQ(frame_error_name(FrameError::kTransportVersion), "transport_version");
  EXPECT_EQ(frame_error_name(FrameError::kPad), "pad");
}

UdSpec some_spec(bool global) {
  UdSpec spec{.sl = 5,
              .dlid = 4,
              .slid = 3,
              .dest_qp = 0x49,
              .src_qp = 0x48,
              .qkey = 0xb1b,
              .psn = 0xff'ffff};
  if (global)
    spec.grh =
        GrhSpec{Gid::of(kDefaultGidPrefix, 1), Gid::of(kDefaultGidPrefix, 2), 1, 0xf'ffff, 3};
  return spec;
}

TEST(BuildUdPacket, EveryPayloadLengthParsesBack) {
  std::mt19937 random{1};
  Bytes payload(kMaxPayload);
  for (auto& b : payload) b = static_cast<std::byte>(random());
  Bytes out(kMaxUdPacketLen);
  for (const bool global : {false, true}) {
    for (std::size_t len = 0; len <= payload.size(); ++len) {
      std::fill(out.begin(), out.end(), std::byte{0xee});
      const auto in = std::span{payload}.first(len);
      const std::size_t packet_len = build_ud_packet(some_spec(global), in, out);
      ASSERT_EQ(packet_len, ud_packet_len(global, len));
      const auto packet = std::span{out}.first(packet_len);
      UdFrame ud;
      ASSERT_EQ(parse_ud(packet, ud), FrameError::kNone) << len;
      ASSERT_EQ(ud.payload_len, len);
      ASSERT_TRUE(std::equal(in.begin(), in.end(), packet.begin() + ud.payload));
      ASSERT_TRUE(icrc_is_good(packet)) << len;
      for (std::size_t i = 0; i < ud.iba.bth.pad(); ++i)
        ASSERT_EQ(packet[ud.payload + len + i], std::byte{0});
      ASSERT_TRUE(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(packet_len), out.end(),
                              [](std::byte b) { return b == std::byte{0xee}; }));
    }
  }
}

TEST(BuildUdPacket, WritesNothingThatDoesNotFit) {
  const Bytes payload(61, std::byte{7});
  const std::size_t need = ud_packet_len(true, payload.size());
  for (std::size_t room = 0; room < need; ++room) {
    Bytes out(room, std::byte{0xee});
    EXPECT_EQ(build_ud_packet(some_spec(true), payload, out), 0U);
    EXPECT_EQ(out, Bytes(room, std::byte{0xee})) << room;
  }
  Bytes out(2 * kMaxUdPacketLen);
  EXPECT_EQ(build_ud_packet(some_spec(true), Bytes(kMaxPayload + 1), out), 0U);
}

TEST(BuildUdPacket, PayloadMayLieInPlace) {
  const Bytes payload = octets(frame_named("ud-ipv4-pad3").at("hex"));
  Bytes apart(ud_packet_len(false, payload.size()));
  ASSERT_NE(build_ud_packet(some_spec(false), payload, apart), 0U);
  Bytes in_place(apart.size());
  const auto at = std::span{in_place}.subspan(kUdLocalHeaderLen, payload.size());
  std::copy(payload.begin(), payload.end(), at.begin());
  ASSERT_NE(build_ud_packet(some_spec(false), at, in_place), 0U);
  EXPECT_EQ(in_place, apart);
}

TEST(AppendVcrc, NeedsTwoOctets) {
  Bytes buffer = packet_named("ud-ipv4-pad0");
  const std::size_t len = buffer.size();
  EXPECT_FALSE(append_vcrc(buffer, len));
  EXPECT_FALSE(append_vcrc(buffer, len - 1));
  EXPECT_FALSE(append_vcrc(buffer, len + 1));
  EXPECT_EQ(buffer, packet_named("ud-ipv4-pad0"));
  buffer.resize(len + kVcrcLen);
  EXPECT_TRUE(append_vcrc(buffer, len));
  EXPECT_EQ(to_hex(buffer), frame_named("ud-ipv4-pad0").at("hex"));
}

}  // namespace
}  // namespace ipoib::wire
