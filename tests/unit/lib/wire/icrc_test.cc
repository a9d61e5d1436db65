// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/icrc/icrc.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "lib/wire/iba.h"
#include "tests/support/vectors.h"

namespace ipoib::wire {
namespace {

using test::Bytes;
using test::octets;
using test::to_hex;

std::string wire_form(std::uint32_t crc) {
  std::array<std::byte, 4> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(crc >> (8 * i));
  return to_hex(out);
}
std::string wire_form(std::uint16_t crc) {
  return to_hex(std::array{static_cast<std::byte>(crc), static_cast<std::byte>(crc >> 8)});
}

/// Computes the CRC by its definition, one bit at a time. The polynomial is reflected; preset and
/// result are complemented.
template <class T>
T crc_by_bits(std::span<const std::byte> bytes, T polynomial) {
  T r = static_cast<T>(~T{0});
  for (const std::byte b : bytes) {
    r = static_cast<T>(r ^ std::to_integer<T>(b));
    for (int bit = 0; bit < 8; ++bit)
      r = static_cast<T>((r >> 1) ^ ((r & 1) != 0 ? polynomial : T{0}));
  }
  return static_cast<T>(~r);
}
std::uint32_t crc32_by_bits(std::span<const std::byte> bytes) {
  return crc_by_bits<std::uint32_t>(bytes, 0xedb88320);
}
std::uint16_t crc16_by_bits(std::span<const std::byte> bytes) {
  return crc_by_bits<std::uint16_t>(bytes, 0xd008);
}

/// Returns the packet as the ICRC covers it, with variant fields set to ones.
Bytes masked(std::span<const std::byte> packet) {
  Bytes m{packet.begin(), packet.end()};
  constexpr std::byte kOnes{0xff};
  if ((m[1] & std::byte{3}) == std::byte{3}) {
    std::fill_n(m.begin(), 8, kOnes);
    m[8] |= std::byte{0x0f};
    std::fill_n(m.begin() + 9, 3, kOnes);
    m[15] = m[52] = kOnes;
  } else {
    m[0] |= std::byte{0xf0};
    m[12] = kOnes;
  }
  return m;
}

struct Frame {
  std::span<const std::byte> packet;  ///< LRH to pad.
  std::string icrc_wire;
  std::string vcrc_wire;
};
Frame split(const Bytes& frame) {
  const std::span all{frame};
  const auto end = all.size() - kVcrcLen;
  return {all.first(end - kIcrcLen), to_hex(all.subspan(end - kIcrcLen, kIcrcLen)),
          to_hex(all.subspan(end))};
}

void expect_both_verify(const Bytes& frame, const std::string& what) {
  const auto f = split(frame);
  EXPECT_EQ(wire_form(icrc(f.packet)), f.icrc_wire) << what;
  EXPECT_EQ(wire_form(icrc_portable(f.packet)), f.icrc_wire) << what;
  EXPECT_EQ(wire_form(vcrc(std::span{frame}.first(frame.size() - kVcrcLen))), f.vcrc_wire) << what;
}

TEST(Crc, PrimitiveVectors) {
  const auto crc = test::load_vectors("crc.json");
  const auto& cases = crc.at("primitive").at("cases");
  ASSERT_EQ(cases.size(), 5U);
  for (const auto& c : cases) {
    const Bytes data = octets(c.at("data"));
    EXPECT_EQ(wire_form(vcrc(data)), c.at("vcrc_wire")) << c;
    EXPECT_EQ(wire_form(crc16_by_bits(data)), c.at("vcrc_wire")) << c;
    EXPECT_EQ(wire_form(crc32_by_bits(data)), c.at("crc32_wire")) << c;
  }
}

TEST(Icrc, SpecificationSample) {
  const auto sample = test::load_vectors("crc.json").at("ibta_sample");
  const Bytes packet = octets(sample.at("masked_hex"));
  EXPECT_EQ(wire_form(icrc(packet)), sample.at("icrc_wire"));
  EXPECT_EQ(wire_form(icrc_portable(packet)), sample.at("icrc_wire"));
}

TEST(Icrc, FieldsOutsideDoNotChangeIt) {
  const auto groups = test::load_vectors("crc.json").at("invariance");
  ASSERT_EQ(groups.size(), 2U);
  for (const auto& group : groups) {
    for (std::size_t i = 0; i < group.at("frames").size(); ++i) {
      const Bytes frame = octets(group.at("frames").at(i));
      expect_both_verify(frame, group.at("what"));
      EXPECT_EQ(split(frame).icrc_wire, group.at("icrc_wire"));
      EXPECT_EQ(split(frame).vcrc_wire, group.at("vcrc_wire").at(i));
    }
  }
}

TEST(Icrc, FieldsInsideChangeIt) {
  const auto sensitivity = test::load_vectors("crc.json").at("sensitivity");
  expect_both_verify(octets(sensitivity.at("reference_frame")), "reference");
  ASSERT_EQ(sensitivity.at("cases").size(), 7U);
  for (const auto& c : sensitivity.at("cases")) {
    const Bytes frame = octets(c.at("frame"));
    expect_both_verify(frame, c.at("field"));
    EXPECT_EQ(split(frame).icrc_wire, c.at("icrc_wire"));
    EXPECT_NE(split(frame).icrc_wire, sensitivity.at("reference_icrc_wire"));
  }
}

TEST(Crc, EveryGeneratedFrameVerifies) {
  const auto frames = test::load_vectors("frames-generated.json").at("frames");
  ASSERT_EQ(frames.size(), 66U);
  for (const auto& f : frames) {
    const Bytes frame = octets(f.at("hex"));
    expect_both_verify(frame, f.at("name"));
    EXPECT_EQ(split(frame).icrc_wire, f.at("icrc_wire"));
    EXPECT_EQ(split(frame).vcrc_wire, f.at("vcrc_wire"));
  }
}

/// Runs with each kernel that this CPU has.
class IcrcKernels : public testing::TestWithParam<IcrcKernel> {
 protected:
  void SetUp() override {
    if (!select_icrc_kernel(GetParam())) GTEST_SKIP() << "this CPU does not have the kernel";
  }
  void TearDown() override { EXPECT_TRUE(select_icrc_kernel(fastest_icrc_kernel())); }
};
INSTANTIATE_TEST_SUITE_P(Each, IcrcKernels,
                         testing::Values(IcrcKernel::kPortable, IcrcKernel::kClmul,
                                         IcrcKernel::kAvx2, IcrcKernel::kAvx512));

TEST_P(IcrcKernels, AgreeWithTheDefinitionAtEveryLength) {
  std::mt19937 random{0x1c7c};
  Bytes packet(4096 + 80);
  for (const bool global : {false, true}) {
    const std::size_t least = sizeof(Lrh) + sizeof(Bth) + (global ? sizeof(Grh) : 0);
    for (std::size_t len = least; len <= packet.size(); ++len) {
      for (auto& b : packet) b = static_cast<std::byte>(random());
      packet[1] =
          (packet[1] & std::byte{0xfc}) | std::byte{global ? std::uint8_t{3} : std::uint8_t{2}};
      const auto octets = std::span{packet}.first(len);
      const std::uint32_t expected = crc32_by_bits(masked(octets));
      ASSERT_EQ(icrc_portable(octets), expected) << "global " << global << " len " << len;
      ASSERT_EQ(icrc(octets), expected) << "global " << global << " len " << len;
    }
  }
}

TEST_P(IcrcKernels, ReadNothingOutsideThePacket) {
  // The packet fills its heap block exactly, so AddressSanitizer finds reads beyond its end.
  for (std::size_t len = 20; len <= 600; ++len) {
    Bytes packet(len, std::byte{0x5a});
    packet[1] = std::byte{2};
    EXPECT_EQ(icrc(packet), icrc_portable(packet)) << len;
  }
}

TEST_P(IcrcKernels, BurstsAgreeWithSinglePackets) {
  std::mt19937 random{0xb0257};
  std::vector<Bytes> packets;
  // Each packet fills its heap block exactly, so AddressSanitizer finds reads beyond its end. The
  // packets are runs of one size and sequences of changing sizes, with and without GRH.
  const auto add = [&](std::size_t size, bool global) {
    Bytes& packet = packets.emplace_back(size);
    for (auto& b : packet) b = static_cast<std::byte>(random());
    packet[1] = (packet[1] & std::byte{0xfc}) | static_cast<std::byte>(global ? 3 : 2);
  };
  for (std::size_t size = 20; size <= 540; size += 4)
    for (int i = 0; i < 4; ++i) add(size, false);
  for (const std::size_t size : {516U, 1024U, 2076U, 4124U, 4160U})
    for (int i = 0; i < 6; ++i) add(size, i == 3);
  for (unsigned i = 0; i < 4000; ++i)
    add(60 + random() % 600 / (1 + i % 2 * 3) * (1 + i % 3), i % 7 == 0);

  std::vector<Covered> covered;
  for (const Bytes& packet : packets) covered.push_back({packet.data(), packet.size()});
  for (const std::size_t burst : {1U, 3U, 4U, 32U, 33U, 64U}) {
    std::vector<std::uint32_t> found(burst);
    for (std::size_t at = 0; at + burst <= covered.size(); at += burst) {
      icrc_burst(std::span{covered}.subspan(at, burst), found);
      for (std::size_t i = 0; i < burst; ++i)
        ASSERT_EQ(found[i], icrc_portable(packets[at + i]))
            << at + i << " size " << packets[at + i].size();
    }
  }
}

TEST(Icrc, LeavesRawPacketsMaskedAsLocal) {
  Bytes packet(64, std::byte{1});
  for (const int lnh : {0, 1, 2}) {
    packet[1] = static_cast<std::byte>(lnh);
    EXPECT_EQ(icrc(packet), crc32_by_bits(masked(packet))) << lnh;
  }
}

TEST(Vcrc, AgreesWithTheDefinitionAtEveryLength) {
  std::mt19937 random{0x100b};
  Bytes packet(700);
  for (auto& b : packet) b = static_cast<std::byte>(random());
  for (std::size_t len = 0; len <= packet.size(); ++len)
    ASSERT_EQ(vcrc(std::span{packet}.first(len)), crc16_by_bits(std::span{packet}.first(len)))
        << len;
}

}  // namespace
}  // namespace ipoib::wire
