// SPDX-License-Identifier: BSD-3-Clause
// An interface of the node as an interface of Linux: a TAP of the same name. Its Ethernet addresses
// mean nothing on an IPoIB link, so that programs which know no 20-octet addresses can use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/drop.h"
#include "lib/base/result.h"
#include "lib/link/log_limit.h"
#include "lib/linux/netlink_requests.h"
#include "lib/linux/tap.h"
#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"

namespace ipoib::mgmt {

/// Management lcore only.
class Mirror {
 public:
  struct Counters {
    std::uint64_t delivered = 0;  ///< Packets that Linux received.
    std::uint64_t taken = 0;      ///< Frames that Linux sent.
  };

  /// `requests`: of the same network namespace; outlives it. `of_port`: the Ethernet addresses mean
  /// something. Errors: those of kernel::Tap::create().
  static Result<std::unique_ptr<Mirror>> create(const kernel::TapConfig& config,
                                                kernel::NetlinkRequests& requests, bool of_port);

  [[nodiscard]] const std::string& name() const { return config_.name; }
  [[nodiscard]] std::int32_t ifindex() const { return tap_->ifindex(); }
  /// Readable when Linux has sent a frame.
  [[nodiscard]] int fd() const { return tap_->fd(); }

  /// Gives Linux an IP packet, from its IP header on. kNone: Linux has it.
  [[nodiscard]] Drop deliver(std::span<const std::byte> packet);
  /// Gives Linux an IPv4 packet to all hosts of the interface.
  [[nodiscard]] Drop deliver_broadcast(std::span<const std::byte> packet);
  /// Gives Linux a frame, from its Ethernet header on.
  [[nodiscard]] Drop deliver_frame(std::span<const std::byte> frame);

  /// A frame that Linux has sent.
  enum class Sent : std::uint8_t {
    kNothing,     ///< None waits.
    kPacket,      ///< An IP packet to send: `packet`.
    kMembership,  ///< IGMP or MLD: the groups of Linux may have changed.
    /// Sent on a port: LLDP, or an IP packet to a MAC address that the program knows, such as that of a
    /// DHCP client which has no IP address yet. `packet` starts at the Ethernet header.
    kFrame,
    kRefused,  ///< Anything else that the node does itself (ARP, ND), or damaged.
    kGone,     ///< The interface does not exist any more.
  };
  /// Takes the next frame. `packet`: whole, from its IP header on unless stated; valid until the next
  /// call.
  Sent next(std::span<const std::byte>& packet);

  /// Linux sees the state, MTU and addresses of the interface. Only changes reach the kernel. The log
  /// names those that it refuses.
  void set_carrier(bool up);
  /// Programs see that the interface does not run, and can send on it: kernel::NetlinkRequests.
  void set_dormant(bool dormant, TimePoint now);
  void set_mtu(unsigned mtu);
  void set_addresses(const std::vector<wire::IpPrefix>& addresses, TimePoint now);
  /// Removes an address that another process added. kNotFound counts as done.
  Status remove(const wire::IpPrefix& address);
  /// Another process removed the address. Returns true if set_addresses() had added it, and adds it
  /// again.
  bool restore(const wire::IpPrefix& address, TimePoint now);
  /// Linux removed the IPv6 addresses: set_addresses() adds them again.
  void forget_addresses6() {
    std::erase_if(addresses_, [](const wire::IpPrefix& p) { return !p.addr.is_v4(); });
    refused_.clear();
  }
  /// True if set_addresses() added it.
  [[nodiscard]] bool has(const wire::IpPrefix& address) const {
    return addresses_.contains(address);
  }

  [[nodiscard]] bool carrier() const { return carrier_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  Mirror(const kernel::TapConfig& config, std::unique_ptr<kernel::Tap> tap,
         kernel::NetlinkRequests& requests, bool of_port);

  Drop deliver_to(const wire::MacAddr& to, wire::EtherType type, std::span<const std::byte> packet);
  Drop give(std::span<const std::byte> header, std::span<const std::byte> packet);
  bool add(const wire::IpPrefix& address, TimePoint now);
  void report(std::string_view what, const Status& status, TimePoint now);

  kernel::TapConfig config_;
  std::unique_ptr<kernel::Tap> tap_;
  kernel::NetlinkRequests& requests_;
  bool of_port_;
  bool carrier_ = false;
  bool dormant_ = false;
  TimePoint dormant_again_ = TimePoint::min();   ///< Linux is not asked before this time.
  std::set<wire::IpPrefix> addresses_;           ///< Added here, and not removed since.
  std::map<wire::IpPrefix, TimePoint> refused_;  ///< Not added before this time.
  std::vector<std::byte> frame_;
  Counters counters_;
  link::LogLimit log_{std::chrono::seconds(1), 10};
};

}  // namespace ipoib::mgmt
