// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ipoib_cm.h"

#include <gtest/gtest.h>

#include "tests/support/vector_frames.h"

namespace ipoib::wire {
namespace {

using test::number;

TEST(IpoibCm, ServiceIdsOfBothFormsAndNoOthers) {
  const auto vectors = test::load_vectors("addressing.json");
  for (const auto& v : vectors.at("service_id")) {
    const auto qpn = static_cast<std::uint32_t>(number(v.at("ud_qpn")));
    const auto ietf = std::stoull(v.at("draft_connected_mode_03").get<std::string>(), nullptr, 16);
    const auto linux_id = std::stoull(v.at("linux").get<std::string>(), nullptr, 16);
    EXPECT_EQ(ipoib_service_id(ServiceIdForm::kIetf, qpn), ietf);
    EXPECT_EQ(ipoib_service_id(ServiceIdForm::kLinux, qpn), linux_id);
    ASSERT_TRUE(ipoib_service_of(ietf) && ipoib_service_of(linux_id));
    EXPECT_EQ(ipoib_service_of(ietf)->form, ServiceIdForm::kIetf);
    EXPECT_EQ(ipoib_service_of(ietf)->ud_qpn, qpn);
    EXPECT_EQ(ipoib_service_of(linux_id)->form, ServiceIdForm::kLinux);
    EXPECT_EQ(ipoib_service_of(linux_id)->ud_qpn, qpn);
  }
  for (const std::uint64_t other :
       {0x0000'0000'0000'0048ULL, 0x0200'0000'0000'0048ULL, 0x1100'0000'0000'0048ULL,
        0x0101'0000'0000'0048ULL,  // type 1
        0x0100'0000'0100'0048ULL, 0x1000'8000'0000'0048ULL})
    EXPECT_FALSE(ipoib_service_of(other)) << other;
}

TEST(IpoibCm, PrivateDataIsReservedZeroQpnAndReceiveMtu) {
  const auto vectors = test::load_vectors("addressing.json");
  for (const auto& v : vectors.at("cm_private_data")) {
    const auto qpn = static_cast<std::uint32_t>(number(v.at("ud_qpn")));
    const auto mtu = static_cast<std::uint32_t>(number(v.at("receive_mtu")));
    const auto octets = test::octets(v.at("hex"));
    EXPECT_EQ(test::to_hex(bytes_of(IpoibCmPrivate::of(qpn, mtu))), test::to_hex(octets));
    auto garbled = octets;
    garbled[0] = std::byte{0xff};  // ignored on receive
    const auto said = read<IpoibCmPrivate>(garbled).value();
    EXPECT_EQ(said.ud_qpn.host(), qpn);
    EXPECT_EQ(said.receive_mtu.host(), mtu);
  }
  // The private data of a CM message begins with these fields.
  const auto rep = read<CmMad>(test::packet_named("cm-rep"), kUdLocalHeaderLen).value();
  const auto said = read<IpoibCmPrivate>(cm_message<CmRep>(rep).private_data).value();
  EXPECT_EQ(said.ud_qpn.host(), 0x49U);
  EXPECT_EQ(said.receive_mtu.host(), 65'524U);
}

TEST(IpoibCm, MtuIsTheSmallerWithoutTheEncapsulationHeader) {
  EXPECT_EQ(connection_ip_mtu(65'524, 65'524), 65'520U);
  EXPECT_EQ(connection_ip_mtu(65'524, 2'048), 2'044U);
  EXPECT_EQ(connection_ip_mtu(2'048, 0xffff'ffff), 2'044U);
  EXPECT_EQ(connection_ip_mtu(65'524, 4), 0U);
  EXPECT_EQ(connection_ip_mtu(0, 65'524), 0U);
}

TEST(IpoibCm, TheSmallerAddressAcceptsARequestThatCrosses) {
  const auto address = [](std::uint8_t flags, std::uint32_t qpn, std::uint64_t guid) {
    return LinkAddr{flags, Be24{qpn}, Gid::of(kDefaultGidPrefix, guid)};
  };
  // The QPN is compared first, then the GID. Flags do not count.
  EXPECT_TRUE(accepts_crossing(address(0x80, 0x48, 9), address(0, 0x49, 1)));
  EXPECT_FALSE(accepts_crossing(address(0, 0x49, 1), address(0x80, 0x48, 9)));
  EXPECT_TRUE(accepts_crossing(address(0xc0, 0x48, 1), address(0, 0x48, 2)));
  EXPECT_FALSE(accepts_crossing(address(0, 0x48, 2), address(0xc0, 0x48, 1)));
  EXPECT_TRUE(accepts_crossing(address(0, 0x0000ff, 9), address(0, 0xff0000, 1)));

  const auto mad = read<CmMad>(test::packet_named("cm-req-rc"), kUdLocalHeaderLen).value();
  const LinkAddr peer = requester(cm_message<CmReq>(mad));
  EXPECT_EQ(to_string(peer), "00:00:00:48:fe:80:00:00:00:00:00:00:00:02:c9:03:00:a1:b2:04");
}

}  // namespace
}  // namespace ipoib::wire
