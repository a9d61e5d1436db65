// SPDX-License-Identifier: BSD-3-Clause
// Takes the own addresses, and the addresses received for this node, that interfaces report, and
// passes them to routes, workers and ICMP.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/contract.h"
#include "lib/base/log.h"
#include "lib/link/interface.h"
#include "lib/link/log_limit.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/route/multicast/multicast_router.h"
#include "lib/route/route_table.h"

namespace ipoib::mgmt {

/// Management lcore only. The route table and the multicast router outlive every interface's
/// stop().
class AddressBook final : public link::AddressSink {
 public:
  AddressBook(InterfaceTable& interfaces, route::RouteTable& routes,
              route::MulticastRouter& multicast)
      : interfaces_{interfaces}, routes_{routes}, multicast_{multicast} {}

  void set_now(TimePoint now) { now_ = now; }

  void listen(table::InterfaceId iface, const wire::IpAddr& addr) override {
    expects_management();
    report(iface, multicast_.listen(iface, addr, now_));
  }
  void unlisten(table::InterfaceId iface, const wire::IpAddr& addr) override {
    expects_management();
    multicast_.unlisten(iface, addr, now_);
  }
  Status address_assigned(table::InterfaceId iface, const wire::IpPrefix& address) override;
  void address_released(table::InterfaceId iface, const wire::IpPrefix& address) override;
  void address_ready(table::InterfaceId iface, const wire::IpPrefix& address) override;
  void address_removed(table::InterfaceId iface, const wire::IpPrefix& address) override;
  void address_duplicate(table::InterfaceId iface, const wire::IpPrefix& address) override;
  void redirect(table::InterfaceId iface, const wire::IpAddr& to,
                const wire::IpAddr& via) override {
    expects_management();
    report_unapplied(iface, routes_.add_redirect(iface, to, via));
  }
  void default_router(table::InterfaceId iface, const wire::IpAddr& router, bool usable) override;
  void neighbour_failed(table::InterfaceId iface, const wire::IpAddr& addr) override;
  bool host_located(table::InterfaceId iface, const wire::IpAddr& addr) override;
  void host_lost(table::InterfaceId iface, const wire::IpAddr& addr) override;

 private:
  void forget_local(table::InterfaceId iface, const wire::IpPrefix& address);
  void forget_network(table::InterfaceId iface, const wire::IpPrefix& address);
  [[nodiscard]] std::string name_of(table::InterfaceId iface) const;
  void report(table::InterfaceId iface, const Status& status) const {
    if (!status) log(LogArea::kMgmt, LogLevel::kErr, "{}: {}", name_of(iface), status.error().what);
  }

  /// Logs a failure to apply a router's message. Rate-limited, because routers may repeat
  /// themselves at will.
  void report_unapplied(table::InterfaceId iface, const Status& status);

  InterfaceTable& interfaces_;
  route::RouteTable& routes_;
  route::MulticastRouter& multicast_;
  TimePoint now_{};
  link::LogLimit log_limit_{std::chrono::seconds(1)};
  link::LogLimit host_log_limit_{std::chrono::seconds(1)};
  /// Routers that advertise themselves. The first one has the default route until it fails.
  std::vector<std::pair<table::InterfaceId, wire::IpAddr>> routers_;
};

}  // namespace ipoib::mgmt
