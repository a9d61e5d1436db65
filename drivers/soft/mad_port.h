// SPDX-License-Identifier: BSD-3-Clause
// QP0 and QP1 of a software HCA: one ring carries MADs as whole frames to the worker that has QP1,
// another one carries received frames back.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "drivers/soft/mad_share.h"
#include "drivers/soft/soft_frame.h"
#include "drivers/soft/subnet_agent.h"
#include "lib/fabric/hca.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/icrc/icrc.h"

namespace ipoib::soft {

/// SMPs go to QP0 and come from it, and the port's subnet management agent answers those of its subnet
/// manager. MADs at the queue pair of other classes are dropped. Management lcore only.
class SoftMadPort final : public fabric::MadPort {
 public:
  /// MADs that one call of receive() answers or drops.
  static constexpr unsigned kMadsPerCall = 8;
  /// MADs queued per direction; a power of two.
  static constexpr unsigned kRingSize = 1024;
  /// Octets of a frame that holds a MAD.
  static constexpr std::size_t kFrameLen =
      kLocalHeadLen + sizeof(UdWords) + wire::kMadLen + wire::kIcrcLen;

  /// `to_wire`: this object is the only producer; `from_wire`: the only consumer. Frames come from
  /// `pool` or, while that is empty, from `reserve`. `share` has the places of `from_wire`. The
  /// references must outlive the object.
  /// `doorbell`: the worker rings one when it has enqueued into `from_wire`.
  SoftMadPort(const fabric::PortAttr& port, bool icrc, rte_mempool* pool, rte_mempool* reserve,
              rte_ring& to_wire, rte_ring& from_wire, MadShare& share, bool doorbell)
      : port_{port},
        icrc_{icrc},
        doorbell_{doorbell},
        pool_{pool},
        reserve_{reserve},
        to_wire_{to_wire},
        from_wire_{from_wire},
        share_{share},
        agent_{port} {}
  ~SoftMadPort() override;

  /// kUnavailable while the port is not active. A MAD to the port's own LID is received here
  /// without touching the wire.
  Status send(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) override;
  /// Empty also if kMadsPerCall were dropped, or were SMPs for the agent, which has answered them.
  /// Others may be pending() then.
  std::optional<fabric::ReceivedMad> receive() override;
  [[nodiscard]] bool polled() const override { return !doorbell_; }
  [[nodiscard]] bool pending() const override {
    return !local_.empty() || rte_ring_empty(&from_wire_) == 0;
  }
  /// The HCA counts the frames.
  [[nodiscard]] fabric::NamedCounters counters() const override {
    return {{"wrong_qp", wrong_qp_}};
  }
  /// Empty: the HCA knows the port's problem.
  [[nodiscard]] std::string problem() const override { return {}; }

  [[nodiscard]] SubnetAgent& agent() { return agent_; }

 private:
  struct Arrived {
    fabric::ReceivedMad mad;
    std::uint32_t dest_qp;
  };
  [[nodiscard]] std::optional<Arrived> next();
  [[nodiscard]] Result<std::uint16_t> own_pkey(std::uint16_t pkey) const;
  [[nodiscard]] std::uint16_t matching_pkey(std::uint16_t pkey) const;
  void fill(rte_mbuf* m, const fabric::MadAddress& to, std::uint16_t pkey,
            std::span<const std::byte, wire::kMadLen> mad);

  const fabric::PortAttr& port_;
  bool icrc_;
  bool doorbell_;
  rte_mempool* pool_;
  rte_mempool* reserve_;
  rte_ring& to_wire_;
  rte_ring& from_wire_;
  MadShare& share_;
  SubnetAgent agent_;
  std::uint32_t psn_ = 0;
  std::uint64_t wrong_qp_ = 0;  ///< SMPs at QP1, and MADs of other classes at QP0.
  std::deque<fabric::ReceivedMad> local_;
};

}  // namespace ipoib::soft
