// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/fragments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/ip4_fragments.h"
#include "tests/support/packets.h"

namespace ipoib::route {
namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;
using test::fragment4;
using test::fragments4;

const wire::IpAddr kHere4 = wire::IpAddr::v4(0xc0a8'0101);
const wire::IpAddr kHere6 = *wire::parse_ip("fd00:1::1"), kThere6 = *wire::parse_ip("fd00:1::5");

/// A packet of `octets` octets. `host`: the last octet of its source.
Bytes ping4(std::size_t octets, std::uint32_t host = 5) {
  Bytes packet = fwd::test::echo_packet(wire::IpAddr::v4(0xc0a8'0100 + host), kHere4, octets - 28);
  // No two octets of a block are equal.
  for (std::size_t i = 28; i < packet.size(); ++i) packet[i] = std::byte(i * 7 >> 3 & 0xff);
  return packet;
}
/// The packet as it is whole again, which has the identification of its fragments.
Bytes with_id(Bytes packet, std::uint16_t id = 7) {
  auto ip = *wire::read<wire::Ipv4Hdr>(packet);
  ip.id.set(id);
  ip.checksum = {};
  ip.checksum.set(wire::internet_checksum(wire::bytes_of(ip)));
  std::memcpy(packet.data(), &ip, sizeof ip);
  return packet;
}

class Fragments : public testing::Test, FragmentSink {
 protected:
  /// Returns the whole packet, if there is one.
  Bytes add(const Bytes& fragment, table::InterfaceId iface = 3) {
    const auto f = fragment_of(fragment);
    EXPECT_TRUE(f);
    const auto whole = reassembler_.add(*f, iface, now_);
    if (!whole) return {};
    fragments_ += whole->fragments;
    return {whole->packet.begin(), whole->packet.end()};
  }
  std::size_t lost(Drop reason) { return lost_[reason]; }

  Reassembler reassembler_{*this};
  TimePoint now_{};
  std::size_t fragments_ = 0;  ///< They are in whole packets.
  std::vector<Bytes> timed_out_;

 private:
  void fragment_lost(table::InterfaceId iface, Drop reason) override {
    EXPECT_EQ(iface, 3U);
    ++lost_[reason];
  }
  void packet_timed_out(table::InterfaceId, std::span<const std::byte> first) override {
    timed_out_.emplace_back(first.begin(), first.end());
  }
  std::map<Drop, std::size_t> lost_;
};

TEST_F(Fragments, P05_PacketsAreWholeAgainInAnyOrder) {
  std::mt19937 random{1};
  for (const std::size_t octets : {1600U, 17'000U, 65'535U}) {
    const Bytes packet = ping4(octets);
    for (int round = 0; round < 10; ++round) {
      auto parts = fragments4(packet, 1480);
      fragments_ = 0;
      Bytes whole;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_TRUE(whole.empty());
        EXPECT_EQ(reassembler_.waiting(), i);
        whole = add(parts[i]);
      }
      EXPECT_EQ(whole, with_id(packet));
      EXPECT_EQ(fragments_, parts.size());
      std::shuffle(parts.begin(), parts.end(), random);
    }
  }
  EXPECT_EQ(reassembler_.waiting(), 0U);
  EXPECT_FALSE(reassembler_.next_deadline());
}

TEST_F(Fragments, P05_Ipv6PacketsAreWholeAgain) {
  for (const std::size_t octets : {1281U, 17'000U, 65'535U}) {
    const Bytes packet = fwd::test::echo_packet(kThere6, kHere6, octets - 48);
    auto parts = fragments6(packet, 1280, 9);
    EXPECT_EQ(parts.size(), (octets - 40 + 1231) / 1232);
    std::reverse(parts.begin(), parts.end());
    Bytes whole;
    for (const Bytes& part : parts) {
      EXPECT_LE(part.size(), 1280U);
      whole = add(part);
    }
    EXPECT_EQ(whole, packet);
  }
  const Bytes small = fwd::test::echo_packet(kThere6, kHere6, 1232);
  EXPECT_EQ(fragments6(small, 1280, 9), std::vector<Bytes>{small});
  EXPECT_FALSE(fragment_of(small));
  // A lone fragment needs no others, even if some with its number wait. Source: RFC 6946.
  add(fragments6(fwd::test::echo_packet(kThere6, kHere6, 2000), 1280, 9)[0]);
  Bytes alone(small);
  alone[6] = std::byte{44};
  alone[4] = std::byte{(1240 + 8) >> 8};
  alone[5] = std::byte{(1240 + 8) & 0xff};
  const std::array hdr{std::byte{58}, std::byte{}, std::byte{}, std::byte{},
                       std::byte{},   std::byte{}, std::byte{}, std::byte{9}};
  alone.insert(alone.begin() + 40, hdr.begin(), hdr.end());
  EXPECT_EQ(add(alone), small);
  EXPECT_EQ(reassembler_.waiting(), 1U);
}

TEST_F(Fragments, P05_PacketsOfOtherKeysDoNotMix) {
  const Bytes a = ping4(3000), b = ping4(3000, 6);
  EXPECT_TRUE(add(fragment4(a, 0, 1480)).empty());
  EXPECT_TRUE(add(fragment4(b, 1480, 1600)).empty()) << "another source";
  EXPECT_TRUE(add(fragment4(a, 1480, 1600, 8)).empty()) << "another packet";
  EXPECT_EQ(add(fragment4(a, 1480, 1600)), with_id(a));
  EXPECT_EQ(reassembler_.waiting(), 2U);
}

// Source: RFC 5722, RFC 8900 §3.7.
TEST_F(Fragments, P05_OverlapsLoseTheirPacket) {
  const Bytes packet = ping4(6020);
  const std::pair<std::size_t, std::size_t> overlapping[] = {
      {1000, 800}, {1800, 16}, {2392, 800}, {1000, 4000}, {1592, 808}, {1600, 400}};
  for (const auto& [from, len] : overlapping) {
    const std::size_t before = lost(Drop::kIpFragmentInvalid);
    add(fragment4(packet, 0, 800));
    add(fragment4(packet, 1600, 800));
    EXPECT_EQ(reassembler_.waiting(), 2U);
    add(fragment4(packet, from, len));
    EXPECT_EQ(reassembler_.waiting(), 0U) << from;
    EXPECT_EQ(lost(Drop::kIpFragmentInvalid), before + 3) << from;
  }
}

TEST_F(Fragments, P05_RepeatedFragmentsAreLostAlone) {
  const Bytes packet = ping4(3000);
  add(fragment4(packet, 0, 1480));
  add(fragment4(packet, 0, 1480));
  EXPECT_EQ(lost(Drop::kIpFragmentInvalid), 1U);
  EXPECT_EQ(add(fragment4(packet, 1480, 1600)), with_id(packet));
}

TEST_F(Fragments, P05_WrongPlacesAndLengthsAreRefused) {
  const Bytes packet = ping4(6020);
  Bytes odd = fragment4(packet, 0, 804);
  EXPECT_TRUE(add(odd).empty()) << "not a multiple of 8, and more to come";
  Bytes beyond = fragment4(packet, 4000, 2000);
  beyond[6] = std::byte{0x1f};
  beyond[7] = std::byte{0xff};
  EXPECT_TRUE(add(beyond).empty()) << "ends after 65,535";
  EXPECT_EQ(lost(Drop::kIpFragmentInvalid), 2U);
  EXPECT_EQ(reassembler_.waiting(), 0U);
  // A second end, and octets after the end.
  add(fragment4(packet, 4000, 2000));
  add(fragment4(ping4(3020), 2000, 1000));
  EXPECT_EQ(lost(Drop::kIpFragmentInvalid), 4U);
  add(fragment4(ping4(3020), 2000, 1000));
  add(fragment4(packet, 4000, 1000));
  EXPECT_EQ(lost(Drop::kIpFragmentInvalid), 6U);
  EXPECT_EQ(reassembler_.waiting(), 0U);
}

TEST_F(Fragments, P05_FragmentsOfZeroLengthAreRefusedAlone) {
  const Bytes packet = ping4(3020);
  add(fragment4(packet, 0, 1480));
  EXPECT_TRUE(add(fragment4(packet, 1480, 0)).empty()) << "more fragments follow";
  EXPECT_TRUE(add(fragment4(packet, 3000, 0)).empty()) << "the last fragment";
  EXPECT_EQ(lost(Drop::kIpFragmentInvalid), 2U);
  EXPECT_EQ(add(fragment4(packet, 1480, 1520)), with_id(packet));
}

TEST_F(Fragments, P05_UnfinishedPacketsAreForgottenInTime) {
  const Bytes packet = ping4(3000), headless = ping4(3000, 6);
  add(fragment4(packet, 0, 1480));
  now_ += 1s;
  add(fragment4(headless, 1480, 1600));
  EXPECT_EQ(reassembler_.next_deadline(), now_ + 59s);
  now_ += 59s;
  reassembler_.tick(now_ - 1ms);
  EXPECT_EQ(lost(Drop::kIpFragmentTimeout), 0U);
  reassembler_.tick(now_);
  EXPECT_EQ(lost(Drop::kIpFragmentTimeout), 1U);
  Bytes first = fragment4(packet, 0, 1480);
  first.resize(1280);
  EXPECT_EQ(timed_out_, std::vector<Bytes>{first});
  reassembler_.tick(now_ + 1s);
  EXPECT_EQ(lost(Drop::kIpFragmentTimeout), 2U);
  EXPECT_EQ(timed_out_.size(), 1U) << "no error without a first fragment (RFC 792)";
}

TEST_F(Fragments, P05_ASourceHasItsShareOnly) {
  const Bytes other = ping4(3000, 9);
  add(fragment4(other, 0, 1480));
  const Bytes packet = ping4(3000);
  for (std::uint16_t id = 0; id < 100; ++id) add(fragment4(packet, 0, 1480, id));
  EXPECT_EQ(reassembler_.waiting(), 1 + Reassembler::kMaxPacketsOfSource);
  EXPECT_EQ(lost(Drop::kIpFragmentLimit), 100 - Reassembler::kMaxPacketsOfSource);
  EXPECT_EQ(add(fragment4(packet, 1480, 1600, 99)), with_id(packet, 99)) << "the newest is there";
  EXPECT_EQ(add(fragment4(other, 1480, 1600)), with_id(other));
  // Octets count, too.
  const Bytes large = ping4(65'535);
  for (std::uint16_t id = 0; id < 10; ++id) add(fragment4(large, 0, 65'000, id));
  EXPECT_EQ(reassembler_.waiting(), Reassembler::kMaxOctetsOfSource / 65'000 - 1);
}

TEST_F(Fragments, P05_ManySourcesHaveALimitTogether) {
  for (std::uint32_t host = 0; host < 1000; ++host) add(fragment4(ping4(3000, host), 0, 1480));
  EXPECT_EQ(reassembler_.waiting(), Reassembler::kMaxPackets);
  const Bytes last = ping4(3000, 999);
  EXPECT_EQ(add(fragment4(last, 1480, 1600)), with_id(last));
  for (std::uint32_t host = 0; host < 1000; ++host) add(fragment4(ping4(65'535, host), 0, 65'000));
  EXPECT_EQ(reassembler_.waiting(), Reassembler::kMaxOctets / 66'408);
}

TEST_F(Fragments, P05_ASourceMakesTheRoomThatItNeedsAmongAll) {
  const std::uint32_t others = Reassembler::kMaxPackets - 4;
  for (std::uint32_t host = 1; host <= others; ++host) add(fragment4(ping4(3000, host), 0, 1480));
  const Bytes packet = ping4(3000, 5000);
  for (std::uint16_t id = 0; id < 100; ++id) add(fragment4(packet, 0, 1480, id));
  EXPECT_EQ(reassembler_.waiting(), Reassembler::kMaxPackets);
  for (std::uint32_t host = 1; host <= others; ++host)
    EXPECT_FALSE(add(fragment4(ping4(3000, host), 1480, 1600)).empty()) << host;
}

// Packets that ended in any way no longer count: the limits are the ones of an empty table.
TEST_F(Fragments, P05_EndedPacketsLeaveTheirRoomToOthers) {
  const Bytes packet = ping4(60'000);
  for (std::uint16_t id = 0; id < 200; ++id) {
    add(fragment4(packet, 0, 30'000, id));
    EXPECT_EQ(add(fragment4(packet, 30'000, 29'980, id)), with_id(packet, id));
    add(fragment4(packet, 0, 30'000, id));
    add(fragment4(packet, 16, 30'000, id));  // overlaps
  }
  EXPECT_EQ(lost(Drop::kIpFragmentInvalid), 400U);
  EXPECT_EQ(lost(Drop::kIpFragmentLimit), 0U);
  for (std::uint16_t id = 0; id < 4; ++id) add(fragment4(packet, 0, 30'000, id));
  now_ += Reassembler::kMaxAge;
  const Bytes small = ping4(3000);
  for (std::uint16_t id = 0; id < 100; ++id) add(fragment4(small, 0, 1480, id));
  EXPECT_EQ(reassembler_.waiting(), Reassembler::kMaxPacketsOfSource);
}

TEST_F(Fragments, P05_APacketOfTooManyFragmentsIsLost) {
  const Bytes packet = ping4(65'535);
  for (std::size_t i = 0; i <= Reassembler::kMaxFragments; ++i) add(fragment4(packet, i * 8, 8));
  EXPECT_EQ(reassembler_.waiting(), 0U);
  EXPECT_EQ(lost(Drop::kIpFragmentLimit), Reassembler::kMaxFragments + 1);
}

}  // namespace
}  // namespace ipoib::route
