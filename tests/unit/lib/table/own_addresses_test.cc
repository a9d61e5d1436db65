// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/own_addresses.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/addresses.h"

namespace ipoib::table {
namespace {

using ipoib::test::ip;

TEST(OwnAddresses, FindsWhatWasAddedInBothFamilies) {
  OwnAddresses own;
  own.add(ip("192.168.1.1"));
  own.add(ip("fd00:1::1"));
  EXPECT_TRUE(own.perhaps_v4(0xc0a8'0101));
  EXPECT_TRUE(own.perhaps(ip("192.168.1.1")));
  EXPECT_TRUE(own.perhaps(ip("fd00:1::1")));
}

// A bit is cleared with the last of the addresses that share it. Removing an unknown address
// changes nothing.
TEST(OwnAddresses, ForgetsOnlyWhatWasRemoved) {
  OwnAddresses own;
  std::mt19937 random{1};
  std::vector<wire::IpAddr> addresses(2000);  // so many that they share bits of the 4096
  for (wire::IpAddr& a : addresses) a = wire::IpAddr::v4(static_cast<std::uint32_t>(random()));
  for (const wire::IpAddr& a : addresses) own.add(a);
  own.add(addresses.front());
  own.remove(ip("fd00::99"));
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    own.remove(addresses[i]);
    for (std::size_t kept = i + 1; kept < addresses.size(); ++kept)
      ASSERT_TRUE(own.perhaps(addresses[kept])) << i << " " << kept;
  }
  for (const wire::IpAddr& a : addresses) EXPECT_FALSE(own.perhaps(a));
}

// False positives are the price of the filter: each costs a foreign source a second check.
TEST(OwnAddresses, FewForeignAddressesGetASecondLook) {
  OwnAddresses own;
  for (std::uint32_t i = 0; i < 100; ++i) own.add(wire::IpAddr::v4(0x0a00'0001 + i * 256));
  std::mt19937 random{2};
  int perhaps = 0;
  for (int i = 0; i < 100'000; ++i)
    perhaps += own.perhaps_v4(static_cast<std::uint32_t>(random())) ? 1 : 0;
  EXPECT_LT(perhaps, 3'000);
}

}  // namespace
}  // namespace ipoib::table
