// SPDX-License-Identifier: BSD-3-Clause
// Prepared test packets: a template per flow, so that making a packet is a copy and a few
// additions. Management makes a Generator and never changes it: workers read it under RCU, each
// with a GeneratorState.
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
  /// Sums of 16-bit words in memory order, folded to 16 bits: ip_sum covers the IPv4 header,
  /// udp_sum the UDP header and pseudo header.
  std::uint32_t ip_sum = 0;
  std::uint32_t udp_sum = 0;
  std::uint32_t dst4 = 0;  ///< Destination in host order, if it is IPv4.
};
static_assert(sizeof(FlowTemplate) == 64);

class Generator {
 public:
  struct Environment {
    std::uint64_t tsc_hz = 0;
    unsigned workers = 1;        ///< All workers share the rate evenly.
    std::uint16_t max_size = 0;  ///< Octets that fit into an mbuf.
    std::uint64_t link_bps = 0;  ///< Rate of the egress, for rates in per cent. 0: unknown.
    std::uint32_t run_id = 0;    ///< Identifies time stamps of this process; its low octet is 0.
    bool all_flows = false;      ///< Use `flows` even if multi_flow is off.
    bool stamped = false;        ///< Packets carry sequence number and time.
  };
  /// kInvalidArgument: an error of check(), or packets that do not fit into an mbuf.
  static Result<std::unique_ptr<const Generator>> create(const GeneratorConfig& config,
                                                         const Environment& environment);
  /// kInvalidArgument: the message names the invalid value, for example addresses of two families,
  /// a group, or a size out of range.
  static Status check(const GeneratorConfig& config);

  [[nodiscard]] const std::vector<FlowTemplate>& flows() const noexcept { return flows_; }
  [[nodiscard]] const std::vector<std::uint16_t>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const Pace& pace() const noexcept { return pace_; }
  [[nodiscard]] std::uint32_t run_id() const noexcept { return run_id_; }
  [[nodiscard]] bool is_v4() const noexcept { return v4_; }
  [[nodiscard]] bool stamped() const noexcept { return stamped_; }
  /// The rate is a percentage of an unknown link rate: no packets are sent.
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
