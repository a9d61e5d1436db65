// SPDX-License-Identifier: BSD-3-Clause
// An ethdev port as this program uses it, be it an Ethernet port or the cable of a software HCA:
// one receive and one transmit queue, owned by one worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/counters.h"
#include "lib/base/result.h"
#include "lib/fabric/capabilities.h"
#include "lib/mgmt/device_stats.h"
#include "lib/mgmt/port_groups.h"
#include "lib/mgmt/removal_watch.h"
#include "lib/wire/ipoib.h"

struct rte_mempool;

namespace ipoib::mgmt {

struct EthDeviceConfig {
  std::string device;        ///< Name as EAL knows it.
  std::uint16_t mtu = 1500;  ///< Octets behind the Ethernet header that must pass.
  unsigned rxd = 512;        ///< Adjusted to what the device takes.
  unsigned txd = 512;
  rte_mempool* pool = nullptr;
  bool promiscuous = false;  ///< A cable: frames go to LIDs, not to the device's own address.
};

/// Before the IP packet in a frame; octets.
inline constexpr unsigned kEthernetHeader = 14;

/// Started from open() on; closed at destruction, or before that by give_up().
class EthDevice {
 public:
  /// kNotFound names the devices there are; kUnavailable: the MTU cannot be had, with both numbers.
  static Result<EthDevice> open(const EthDeviceConfig& config);
  /// What a device is able to do, without the multicast filter, which open() chooses. kNotFound,
  /// kRefused.
  static Result<fabric::Capabilities> probe(const std::string& device);

  EthDevice(EthDevice&& other) noexcept;
  EthDevice& operator=(EthDevice&&) = delete;
  ~EthDevice();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] fabric::Capabilities capabilities() const;
  /// Groups whose frames it is to receive.
  [[nodiscard]] PortGroups& groups() { return groups_; }
  [[nodiscard]] const wire::MacAddr& mac() const { return mac_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& driver() const { return driver_; }
  [[nodiscard]] std::uint16_t mtu() const { return mtu_; }
  [[nodiscard]] int socket() const;

  /// Nothing is received or sent any more; nobody may be using the device. It may be started again.
  /// What it had received and nobody had taken is lost: Drop::kLinkDown.
  Status stop(DropCounters& drops);
  Status start(DropCounters& drops);
  [[nodiscard]] bool started() const { return started_; }
  /// Frames lost so.
  [[nodiscard]] std::uint64_t drained() const { return drained_; }
  /// Frames of `mtu` octets behind the Ethernet header pass from now on; stopped devices only.
  /// kUnavailable: the device does not carry them, with both numbers.
  Status set_mtu(std::uint16_t mtu);
  /// Frames to foreign addresses are received, or not.
  Status set_promiscuous(bool on);
  [[nodiscard]] bool promiscuous() const;

  /// The device was taken away, and give_up() is due.
  [[nodiscard]] bool removed() const { return watch_ != nullptr && watch_->removed(); }
  /// Stops and closes what is left of it; nobody may be using the device. All else is refused from
  /// then on, and its link is down.
  void give_up();
  [[nodiscard]] bool gone() const { return port_ == kNoPort; }

  struct LinkStatus {
    bool up = false;
    std::uint32_t speed_mbps = 0;  ///< 0: unknown.
  };
  /// Does not wait for negotiation.
  [[nodiscard]] LinkStatus link_status() const;

  /// Of a device that counts nothing: zeros, and none.
  [[nodiscard]] DeviceStats stats() const;
  [[nodiscard]] std::vector<Xstat> xstats() const;

 private:
  EthDevice(std::uint16_t port, std::string device, std::string driver);

  /// False: its driver cannot start it again once it was stopped, so it is left alone instead.
  [[nodiscard]] bool restarts() const { return driver_ != "net_af_packet"; }
  [[nodiscard]] Status present() const;
  void close();
  void drain(DropCounters& drops);

  static constexpr std::uint16_t kNoPort = 0xffff;
  std::uint16_t port_;
  std::string name_;
  std::string driver_;
  fabric::Capabilities capabilities_;  ///< But for the multicast filter, which groups_ knows.
  PortGroups groups_;
  std::unique_ptr<RemovalWatch> watch_;
  wire::MacAddr mac_{};
  std::uint16_t mtu_ = 0;
  bool started_ = true;
  std::uint64_t drained_ = 0;
};

}  // namespace ipoib::mgmt
