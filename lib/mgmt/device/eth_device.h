// SPDX-License-Identifier: BSD-3-Clause
// An ethdev, either an Ethernet port or the cable of a software HCA, with its queues.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/counters.h"
#include "lib/base/result.h"
#include "lib/fabric/capabilities.h"
#include "lib/mgmt/device/port_groups.h"
#include "lib/mgmt/device/removal_watch.h"
#include "lib/wire/ipoib.h"

struct rte_eth_dev_info;
struct rte_mempool;

namespace ipoib::mgmt {

struct EthDeviceConfig {
  std::string device;        ///< EAL's name of the device.
  std::uint16_t mtu = 1500;  ///< Octets after the Ethernet header that must pass.
  unsigned rxd = 512;        ///< Adjusted to the limits of the device.
  unsigned txd = 512;
  /// One for each worker that receives: a receive queue's mbufs are on the NUMA node of its worker.
  std::vector<rte_mempool*> rx_pools;
  unsigned senders = 1;      ///< Workers that send.
  bool promiscuous = false;  ///< A cable: frames go to LIDs, not to the device's MAC.
};

/// Octets of a frame before its IP packet.
inline constexpr unsigned kEthernetHeader = 14;

/// Capabilities that a driver states, without the multicast filter, which EthDevice::open()
/// chooses.
[[nodiscard]] fabric::Capabilities capabilities_of(const rte_eth_dev_info& info);

/// Numbers of queues of a device.
struct EthQueueNumbers {
  std::uint16_t rx = 1;
  std::uint16_t tx = 1;
};

/// Returns the numbers of queues with which the device serves so many workers. With more receive
/// queues than receivers some poll several; with fewer transmit queues than senders some hand their
/// packets over. kUnavailable: the device has fewer receive queues than receivers, with both
/// numbers.
[[nodiscard]] Result<EthQueueNumbers> queues_for(const rte_eth_dev_info& info, unsigned receivers,
                                                 unsigned senders);

struct EthSpread {
  unsigned queues = 1;  ///< Receive queues over which the device spreads its flows.
  int socket = -1;      ///< NUMA node of the device; -1: not known.
};

/// Returns how the device can serve several workers without a change elsewhere: one queue if its
/// driver does not spread flows, or if its peer must have as many queues. The defaults if there is no
/// such device.
[[nodiscard]] EthSpread spread_of(const std::string& device);

/// Started by open(); closed by close() or the destructor.
class EthDevice {
 public:
  /// kNotFound lists the existing devices; kUnavailable: the device does not support the MTU or the
  /// workers, with both numbers.
  static Result<EthDevice> open(const EthDeviceConfig& config);

  EthDevice(EthDevice&& other) noexcept;
  EthDevice& operator=(EthDevice&&) = delete;
  ~EthDevice();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Receive queue i is for the receiver i modulo their number; flows are spread evenly over the
  /// queues, by the device where it can.
  [[nodiscard]] const EthQueueNumbers& queues() const { return queues_; }
  [[nodiscard]] fabric::Capabilities capabilities() const;
  /// Groups whose frames the device receives.
  [[nodiscard]] PortGroups& groups() { return groups_; }
  [[nodiscard]] const wire::MacAddr& mac() const { return mac_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& driver() const { return driver_; }
  [[nodiscard]] std::uint16_t mtu() const { return mtu_; }
  [[nodiscard]] int socket() const;

  /// Stops receiving and sending; start() may follow. Precondition: no worker uses the device.
  /// Packets that the device had received and no worker had taken are dropped: Drop::kLinkDown.
  Status stop(DropCounters& drops);
  Status start(DropCounters& drops);
  [[nodiscard]] bool started() const { return started_; }
  /// Packets dropped by stop() and start().
  [[nodiscard]] std::uint64_t drained() const { return drained_; }
  /// Makes frames with `mtu` octets after the Ethernet header pass; stopped devices only.
  /// kUnavailable: the device does not carry them, with both numbers.
  Status set_mtu(std::uint16_t mtu);
  /// Switches reception of frames to foreign addresses on or off.
  Status set_promiscuous(bool on);
  [[nodiscard]] bool promiscuous() const;

  /// True if the device was taken away, so that close() must be called.
  [[nodiscard]] bool removed() const { return watch_ != nullptr && watch_->removed(); }
  /// Stops and closes the device, or what remains of it. Precondition: no worker uses the device.
  /// Afterwards its link is down and other operations are refused.
  void close();
  [[nodiscard]] bool closed() const { return port_ == kNoPort; }

 private:
  EthDevice(std::uint16_t port, std::string device, std::string driver);

  [[nodiscard]] Status present() const;
  void share_hashes() const;
  void drain(DropCounters& drops);

  static constexpr std::uint16_t kNoPort = 0xffff;
  std::uint16_t port_;
  std::string name_;
  std::string driver_;
  EthQueueNumbers queues_;
  fabric::Capabilities capabilities_;  ///< Without the multicast filter, which groups_ has.
  PortGroups groups_;
  std::unique_ptr<RemovalWatch> watch_;
  wire::MacAddr mac_{};
  std::uint16_t mtu_ = 0;
  bool started_ = true;
  std::uint64_t drained_ = 0;
};

}  // namespace ipoib::mgmt
