// An ethdev port as this program uses it, be it an Ethernet port or the cable of a software HCA:
// one receive and one transmit queue, owned by one worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/mgmt/device_stats.h"
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

/// Started from open() to destruction.
class EthDevice {
 public:
  /// kNotFound names the devices there are; kUnavailable: the MTU cannot be had, with both numbers.
  static Result<EthDevice> open(const EthDeviceConfig& config);

  EthDevice(EthDevice&& other) noexcept;
  EthDevice& operator=(EthDevice&&) = delete;
  ~EthDevice();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] const wire::MacAddr& mac() const { return mac_; }
  [[nodiscard]] const std::string& driver() const { return driver_; }
  [[nodiscard]] std::uint16_t mtu() const { return mtu_; }
  [[nodiscard]] int socket() const;

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
  EthDevice(std::uint16_t port, std::string driver) : port_{port}, driver_{std::move(driver)} {}

  static constexpr std::uint16_t kNoPort = 0xffff;
  std::uint16_t port_;
  std::string driver_;
  wire::MacAddr mac_{};
  std::uint16_t mtu_ = 0;
};

}  // namespace ipoib::mgmt
