// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/wire/frame.h"
#include "tests/support/vector_frames.h"

namespace ipoib::wire {
namespace {

using test::Bytes;
using test::frame_named;
using test::octets;
using test::packet_named;
using test::to_hex;

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
