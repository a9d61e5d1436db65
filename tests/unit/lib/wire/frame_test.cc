// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string_view>

#include "tests/support/vector_frames.h"

namespace ipoib::wire {
namespace {

using test::Bytes;
using test::frames;
using test::packet_named;
using test::packet_of;

FrameError parse_error(std::span<const std::byte> octets) {
  IbaFrame out;
  return parse_iba(octets, out);
}
FrameError parse_ud_error(std::span<const std::byte> octets) {
  UdFrame out;
  return parse_ud(octets, out);
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

/// The headers of each cut packet claim that it is whole. The parser never reads beyond its end.
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
  // The packet consists of LRH, BTH and ICRC, and has no octets that could be pad.
  Bytes bare = packet_named("rc-ack");
  bare.resize(sizeof(Lrh) + sizeof(Bth) + kIcrcLen);
  bare[5] = static_cast<std::byte>(bare.size() / 4);
  bare[9] = std::byte{0x40};
  EXPECT_EQ(parse_error(bare), FrameError::kNone);
  bare[9] = std::byte{0x50};
  EXPECT_EQ(parse_error(bare), FrameError::kPad);

  // A UD packet without payload, with a pad count that would reach into the DETH.
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
    // Most noise fails the first check, so half of the rounds make the length fields consistent.
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

}  // namespace
}  // namespace ipoib::wire
