// SPDX-License-Identifier: BSD-3-Clause
// A node as Prometheus scrapes it: GET http://ADDRESS:PORT/metrics. prometheus-cpp serves it with
// threads of its own, which have the affinity of DPDK's control threads: the CPUs that no lcore
// has, or the management lcore's where there are none. They ask the management lcore for numbers
// and do all else themselves; a client that is slow costs it nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/mgmt/node.h"

namespace ipoib::app {

/// "192.0.2.1:9400", "[::1]:9400"; port 0: any that is free. kInvalidArgument says what is allowed.
/// IPv6 needs a civetweb that was built for it: Debian 12's is not.
[[nodiscard]] Status check_listen_address(std::string_view text);

class Prometheus {
 public:
  struct Config {
    std::string address;                      ///< As check_listen_address() takes it.
    std::string version;                      ///< Of the program.
    std::chrono::milliseconds timeout{2000};  ///< For the management lcore to answer.
  };

  /// Listens from here on. kNoResources: the address cannot be had, with the reason; kUnavailable:
  /// no IPv6.
  static Result<std::unique_ptr<Prometheus>> create(mgmt::Node& node, const Config& config);
  /// Gives up scrapes that wait for the management lcore, which may be at its end.
  ~Prometheus();
  Prometheus(const Prometheus&) = delete;
  Prometheus& operator=(const Prometheus&) = delete;

  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Server;
  explicit Prometheus(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
};

}  // namespace ipoib::app
