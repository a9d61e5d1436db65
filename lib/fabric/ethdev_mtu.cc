// SPDX-License-Identifier: BSD-3-Clause
#include "lib/fabric/ethdev_mtu.h"

#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_ethdev.h>
#include <rte_kvargs.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ipoib::fabric {
namespace {

constexpr std::uint32_t kEtherHeader = RTE_ETHER_HDR_LEN;
/// Octets of an AF_PACKET ring slot (TPACKET_V2) that headers use, the Ethernet header included.
constexpr std::uint32_t kPacketRingOverhead = 80;
/// Size of a memif buffer, and of an AF_PACKET ring slot, if the device arguments give none.
constexpr std::uint32_t kDefaultBuffer = 2048;

std::uint32_t device_argument(const rte_eth_dev_info& info, const char* key,
                              std::uint32_t otherwise) {
  const rte_devargs* devargs = rte_dev_devargs(info.device);
  rte_kvargs* list = devargs ? rte_kvargs_parse(devargs->args, nullptr) : nullptr;
  const char* text = list ? rte_kvargs_get(list, key) : nullptr;
  const std::uint32_t value =
      text ? static_cast<std::uint32_t>(std::strtoul(text, nullptr, 0)) : otherwise;
  rte_kvargs_free(list);
  return value;
}

/// MTU of a kernel interface; 0 if it cannot be read.
std::uint32_t kernel_mtu(unsigned if_index) {
  ifreq request{};
  if (!if_indextoname(if_index, request.ifr_name)) return 0;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  const int r = ioctl(fd, SIOCGIFMTU, &request);
  close(fd);
  return r == 0 ? static_cast<std::uint32_t>(request.ifr_mtu) : 0;
}

/// Largest MTU that the device carries without a change of its MTU setting.
std::uint32_t carried_mtu(const rte_eth_dev_info& info, std::uint16_t current) {
  const std::string_view driver{info.driver_name};
  if (driver == "net_memif") return device_argument(info, "bsize", kDefaultBuffer) - kEtherHeader;
  if (driver == "net_af_packet")
    return std::min(kernel_mtu(info.if_index),
                    device_argument(info, "framesz", kDefaultBuffer) - kPacketRingOverhead);
  // The device receives any length and has no MTU (ring, pcap).
  if (info.max_rx_pktlen > UINT16_MAX) return UINT16_MAX;
  return current;
}

}  // namespace

Status require_ethdev_mtu(std::uint16_t port_id, std::uint16_t mtu) {
  rte_eth_dev_info info{};
  std::uint16_t current = 0;
  if (rte_eth_dev_info_get(port_id, &info) != 0 || rte_eth_dev_get_mtu(port_id, &current) != 0)
    return fail(Errc::kNotFound, "no Ethernet device with port number {}", port_id);

  // The MTU of a bounded device is not set: its driver may accept the number and drop frames.
  const std::string_view driver{info.driver_name};
  const bool bounded = driver == "net_memif" || driver == "net_af_packet";
  const std::uint32_t carried = carried_mtu(info, current);
  if (carried >= mtu) return {};
  if (!bounded && rte_eth_dev_set_mtu(port_id, mtu) == 0) return {};
  return fail(Errc::kUnavailable, "{} supports an MTU of {}, but {} is required",
              rte_dev_name(info.device), carried, mtu);
}

}  // namespace ipoib::fabric
