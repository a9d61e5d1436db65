// SPDX-License-Identifier: BSD-3-Clause
// A packet trace that answers with packets that tests supply.
#pragma once

#include <vector>

#include "lib/mgmt/trace.h"

namespace ipoib::app {

struct FakeTrace final : mgmt::Trace {
  using State = mgmt::TraceInfo::State;
  Status start(const mgmt::TraceRequest& request) override {
    if (request.src && request.dst && request.src->addr.is_v4() != request.dst->addr.is_v4())
      return fail(Errc::kInvalidArgument, "different IP versions");
    shown = {State::kRunning, request};
    return {};
  }
  Status stop() override {
    if (shown.state != State::kRunning) return fail(Errc::kUnavailable, "no trace is running");
    shown.state = State::kStopped;
    return {};
  }
  void clear() override {
    shown = {};
    rows.clear();
  }
  mgmt::TraceInfo info() override { return shown; }
  const std::vector<mgmt::TracedPacket>& packets() override { return rows; }

  mgmt::TraceInfo shown;
  std::vector<mgmt::TracedPacket> rows;
};

}  // namespace ipoib::app
