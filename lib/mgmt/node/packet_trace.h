// SPDX-License-Identifier: BSD-3-Clause
// The node's packet trace: gives sessions to the workers, collects their records and names what
// these refer to while it still exists.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/fabric/retirement.h"
#include "lib/mgmt/slow_path/interface_table.h"
#include "lib/mgmt/trace.h"
#include "lib/mgmt/worker/worker_set.h"
#include "lib/route/route_table.h"

namespace ipoib::mgmt {

class PacketTrace final : public Trace {
 public:
  /// `tsc`: the counter that the workers read.
  PacketTrace(WorkerSet& workers, const InterfaceTable& interfaces, const route::RouteTable& routes,
              fabric::Retirement& retirement, std::uint64_t (*tsc)() noexcept)
      : workers_{workers},
        interfaces_{interfaces},
        routes_{routes},
        retirement_{retirement},
        tsc_{tsc} {}

  Status start(const TraceRequest& request) override;
  Status stop() override;
  void clear() override;
  TraceInfo info() override;
  const std::vector<TracedPacket>& packets() override;

  /// Collects records and frees sessions that no worker has any more. Once per turn of the loop.
  void advance(TimePoint now);

 private:
  [[nodiscard]] Result<msg::trace::Filter> filter_of(const TraceRequest& request) const;
  void give_to_workers(msg::trace::Session* session);
  void end(TraceInfo::State state);
  void collect();
  [[nodiscard]] TracedPacket named(const msg::trace::Record& record) const;
  [[nodiscard]] TracedPacket::StepNames names_of(const msg::trace::Step& step) const;
  [[nodiscard]] std::string name_of(table::InterfaceId id) const;
  [[nodiscard]] std::optional<wire::IpPrefix> route_to(const msg::trace::Routed& step) const;
  [[nodiscard]] std::uint16_t lid_of(const msg::trace::Resolved& step) const;

  WorkerSet& workers_;
  const InterfaceTable& interfaces_;
  const route::RouteTable& routes_;
  fabric::Retirement& retirement_;
  std::uint64_t (*tsc_)() noexcept;
  TimePoint now_{};

  TraceInfo info_;
  std::uint64_t start_tsc_ = 0;
  std::unique_ptr<msg::trace::Session> session_;  ///< Null: no trace since the start or a clear().
  std::vector<TracedPacket> packets_;             ///< Indexed like the records of session_.
  fabric::Retired<std::unique_ptr<msg::trace::Session>> old_sessions_;
};

}  // namespace ipoib::mgmt
