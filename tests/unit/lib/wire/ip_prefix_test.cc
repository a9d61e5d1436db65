// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/ip_prefix.h"

#include <gtest/gtest.h>

namespace ipoib::wire {
namespace {

TEST(IpPrefix, OfAHostHoldsItsAddressOnly) {
  for (const char* text : {"10.0.0.1/32", "fd00::1/128"}) {
    const IpPrefix prefix = *parse_prefix(text);
    EXPECT_TRUE(is_host(prefix)) << text;
    EXPECT_EQ(host_prefix(prefix.addr), prefix) << text;
  }
  for (const char* text : {"10.0.0.1/31", "fd00::1/32", "fd00::1/127"})
    EXPECT_FALSE(is_host(*parse_prefix(text))) << text;
}

TEST(IpPrefix, OfGroupsHoldsNoOtherAddresses) {
  for (const char* text : {"224.0.0.0/4", "239.1.2.3/32", "ff00::/8", "ff0e::7/128"})
    EXPECT_TRUE(is_multicast(*parse_prefix(text))) << text;
  for (const char* text :
       {"224.0.0.0/3", "10.0.0.0/8", "ff00::/7", "fd00::/8", "0.0.0.0/0", "::/0"})
    EXPECT_FALSE(is_multicast(*parse_prefix(text))) << text;
}

}  // namespace
}  // namespace ipoib::wire
