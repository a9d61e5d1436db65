// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/smp.h"

#include <gtest/gtest.h>

namespace ipoib::wire {
namespace {

TEST(Smp, PartsOfPortInfo) {
  PortInfo port{};
  port.speed_state = 0xf4;
  port.protect_lmc = 0xc3;
  port.mtu_sm_sl = 0x5a;
  port.init_mtu_cap = 0xf4;
  EXPECT_EQ(port.state(), 4);
  EXPECT_EQ(port.lmc(), 3);
  EXPECT_EQ(port.sm_sl(), 10);
  EXPECT_EQ(port.mtu_cap(), 4);
  EXPECT_EQ(port.neighbor_mtu(), 5);
}

// Rate codes are those of paths (iba-wire.md §2). Each row has the width, speed, extended speed,
// and the code that they result in.
TEST(Smp, RateOfAPort) {
  struct Case {
    std::uint8_t width, speed, extended, code;
  };
  for (const Case& c : {
           Case{1, 1, 0, 2},    // 1x SDR: 2.5
           Case{2, 1, 0, 3},    // 4x SDR: 10
           Case{8, 1, 0, 4},    // 12x SDR: 30
           Case{1, 2, 0, 5},    // 1x DDR: 5
           Case{2, 4, 0, 7},    // 4x QDR: 40
           Case{2, 4, 1, 12},   // 4x FDR: 56, where the old field says QDR
           Case{2, 4, 2, 16},   // 4x EDR: 100
           Case{16, 4, 4, 16},  // 2x HDR: 100
           Case{2, 4, 4, 17},   // 4x HDR: 200
           Case{2, 4, 8, 21},   // 4x NDR: 400
           Case{2, 0, 0, 0},    // down
           Case{0, 4, 0, 0},
           Case{3, 4, 0, 0},
       }) {
    PortInfo port{};
    port.width_active = c.width;
    port.speed_active = static_cast<std::uint8_t>(c.speed << 4 | 0x7);
    port.speed_ext_active = static_cast<std::uint8_t>(c.extended << 4 | 0x3);
    EXPECT_EQ(port_rate(port), c.code)
        << unsigned{c.width} << ' ' << unsigned{c.speed} << ' ' << unsigned{c.extended};
  }
}

}  // namespace
}  // namespace ipoib::wire
