// A capture file being written: frames of every HCA's wire as pcap of ERF records.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/fabric/hca.h"
#include "lib/mgmt/erf_writer.h"

struct rte_mempool;
struct rte_ring;

namespace ipoib::mgmt {

/// Management lcore only. One file at a time.
class Capture {
 public:
  Capture() = default;
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// kExists while one runs; kRefused when a device cannot show its wire or the file cannot be
  /// made.
  Status start(const std::string& path, const std::vector<fabric::Hca*>& hcas);
  /// Frames written; kUnavailable when none runs.
  Result<std::uint64_t> stop();

  /// Writes what has come since; a file that takes no more ends the capture.
  void write_pending();
  [[nodiscard]] bool running() const { return writer_.has_value(); }
  /// Frames wait to be written.
  [[nodiscard]] bool pending() const;

 private:
  void release();

  std::optional<ErfWriter> writer_;
  std::vector<fabric::Hca*> hcas_;
  rte_mempool* pool_ = nullptr;
  std::vector<rte_ring*> rings_;  ///< One per HCA: each has one producer.
  std::uint64_t frames_ = 0;
  std::uint64_t tsc_at_start_ = 0;
  std::uint64_t unix_ns_at_start_ = 0;
};

}  // namespace ipoib::mgmt
