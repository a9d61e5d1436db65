#include "lib/wire/mad.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace ipoib::wire {
namespace {

TEST(MadStatus, EveryStatusHasItsOwnName) {
  std::set<std::string_view> names;
  for (const int status : {0x0000, 0x0001, 0x0002, 0x0004, 0x0008, 0x000c, 0x001c, 0x0100, 0x0200,
                           0x0300, 0x0400, 0x0500, 0x0600, 0x0700, 0x0800}) {
    const auto name = status_name(static_cast<std::uint16_t>(status));
    EXPECT_FALSE(name.empty());
    EXPECT_NE(name, "unknown status") << status;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  for (const int status : {0x0003, 0x0010, 0x0301, 0x0900, 0xffff})
    EXPECT_EQ(status_name(static_cast<std::uint16_t>(status)), "unknown status") << status;
}

}  // namespace
}  // namespace ipoib::wire
