// SPDX-License-Identifier: BSD-3-Clause
// Test packets, prepared: a template per flow, so that making one is a copy and a few additions.
// Made by management, then never changed: workers read it under RCU, each with a GeneratorRun.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/fwd/generator_config.h"
#include "lib/fwd/pacer.h"

namespace ipoib::fwd {

/// Headers of a flow; lengths, IPv4 identification and checksums are zero.
struct alignas(64) FlowTemplate {
  static constexpr std::size_t kMaxHeader = 48;  // IPv6 and UDP
  std::array<std::byte, kMaxHeader> header{};
  /// Sums of 16-bit words in memory order, folded to 16 bits: the IPv4 header; UDP header and
  /// pseudo header.
  std::uint32_t ip_sum = 0;
  std::uint32_t udp_sum = 0;
  std::uint32_t dst4 = 0;  ///< Destination, host order, where it is IPv4.
};
static_assert(sizeof(FlowTemplate) == 64);

class Generator {
 public:
  struct Environment {
    std::uint64_t tsc_hz = 0;
    unsigned workers = 1;        ///< They share the rate evenly.
    std::uint16_t max_size = 0;  ///< Octets that fit an mbuf.
    std::uint64_t link_bps = 0;  ///< Of the outgoing link; for rates in per cent. 0: unknown.
    std::uint32_t run_id = 0;    ///< Of this process, its low octet 0; names its time stamps.
    bool all_flows = false;      ///< `flows`, even where multi_flow is off.
    bool stamped = false;        ///< Packets carry sequence number and time.
  };
  /// kInvalidArgument: what check() says, or packets that fit no mbuf.
  static Result<std::unique_ptr<const Generator>> create(const GeneratorConfig& config,
                                                         const Environment& environment);
  /// kInvalidArgument names the value that cannot be: addresses of two families, a group, a size
  /// that its headers do not fit into.
  static Status check(const GeneratorConfig& config);

  [[nodiscard]] const std::vector<FlowTemplate>& flows() const noexcept { return flows_; }
  [[nodiscard]] const std::vector<std::uint16_t>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const Pace& pace() const noexcept { return pace_; }
  [[nodiscard]] std::uint32_t run_id() const noexcept { return run_id_; }
  [[nodiscard]] bool is_v4() const noexcept { return v4_; }
  [[nodiscard]] bool stamped() const noexcept { return stamped_; }
  /// The rate is a share of what is not known: nothing is sent.
  [[nodiscard]] bool waiting() const noexcept { return waiting_; }

 private:
  Generator() = default;

  std::vector<FlowTemplate> flows_;
  std::vector<std::uint16_t> sizes_;
  Pace pace_;
  std::uint32_t run_id_ = 0;
  bool v4_ = true;
  bool stamped_ = false;
  bool waiting_ = false;
};

}  // namespace ipoib::fwd
