// SPDX-License-Identifier: BSD-3-Clause
// The Prometheus endpoint of a node: GET http://ADDRESS:PORT/metrics. prometheus-cpp serves it with
// its own threads, which have the affinity of DPDK's control threads: the CPUs without an lcore, or
// those of the management lcore if there are none. They request numbers from the management lcore,
// at most once a second however many scrape, and do all other work themselves; a slow client costs
// that lcore nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/mgmt/node_faces.h"

namespace ipoib::app {

/// Accepts "192.0.2.1:9400" and "[::1]:9400"; port 0 stands for any free one. Errors:
/// kInvalidArgument with the allowed form. IPv6 needs a civetweb that was built for it: Debian 12's
/// is not.
[[nodiscard]] Status check_listen_address(std::string_view text);

class Prometheus {
 public:
  struct Config {
    std::string address;                      ///< In the form of check_listen_address().
    std::string version;                      ///< Version of the program.
    std::chrono::milliseconds timeout{2000};  ///< Time for the management lcore to answer.
    /// Scrapes within this time of one another get the same numbers.
    std::chrono::milliseconds max_age{1000};
  };

  /// Starts to listen. Errors: kNoResources with the reason if the address is not available;
  /// kUnavailable if IPv6 is not.
  static Result<std::unique_ptr<Prometheus>> create(const mgmt::NodeFaces& node,
                                                    const Config& config);
  /// Aborts scrapes that wait for the management lcore, which may have ended its loop.
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
