// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/ethdev_mtu.h"

#include <rte_dev.h>
#include <rte_ethdev.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ipoib::fabric {
namespace {

/// A virtual device that exists as long as this object.
class Device {
 public:
  Device(std::string name, const std::string& arguments) : name_{std::move(name)} {
    created_ = rte_eal_hotplug_add("vdev", name_.c_str(), arguments.c_str()) == 0 &&
               rte_eth_dev_get_port_by_name(name_.c_str(), &port_) == 0;
  }
  ~Device() {
    if (created_) rte_eal_hotplug_remove("vdev", name_.c_str());
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] bool created() const { return created_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  std::string name_;
  bool created_ = false;
  std::uint16_t port_ = 0;
};

TEST(EthdevMtu, DeviceWithoutLimitCarriesWhatItCannotBeTold) {
  const Device device{"net_ring_mtu", ""};
  ASSERT_TRUE(device.created());
  EXPECT_TRUE(require_ethdev_mtu(device.port(), 4176));
}

TEST(EthdevMtu, MemifCarriesItsBufferSize) {
  const Device small{"net_memif0", "role=server,id=0,socket=ipoib-mtu-test,socket-abstract=yes"};
  const Device large{"net_memif1",
                     "role=server,id=1,socket=ipoib-mtu-test,socket-abstract=yes,bsize=4096"};
  ASSERT_TRUE(small.created() && large.created());
  EXPECT_TRUE(require_ethdev_mtu(large.port(), 2128));
  EXPECT_TRUE(require_ethdev_mtu(small.port(), 2034));
  const Status refused = require_ethdev_mtu(small.port(), 2128);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "net_memif0 supports an MTU of 2034, but 2128 is required");
}

TEST(EthdevMtu, PacketSocketCarriesTheSmallerOfSlotAndInterface) {
  const Device slot{"net_af_packet0", "iface=lo"};
  if (!slot.created()) GTEST_SKIP() << "packet sockets need root";
  EXPECT_TRUE(require_ethdev_mtu(slot.port(), 1968));
  EXPECT_FALSE(require_ethdev_mtu(slot.port(), 2128));
  const Device large{"net_af_packet1", "iface=lo,blocksz=4096,framesz=4096,framecnt=512"};
  ASSERT_TRUE(large.created());
  EXPECT_TRUE(require_ethdev_mtu(large.port(), 2128));
}

TEST(EthdevMtu, UnknownPortIsAnError) {
  const Status missing = require_ethdev_mtu(RTE_MAX_ETHPORTS - 1, 1500);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
}

}  // namespace
}  // namespace ipoib::fabric
