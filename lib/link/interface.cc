#include "lib/link/interface.h"

namespace ipoib::link {

std::string_view to_string(State state) {
  switch (state) {
    case State::kDown: return "down";
    case State::kWaiting: return "waiting";
    case State::kJoining: return "joining";
    case State::kUp: return "up";
    case State::kStopping: return "stopping";
    case State::kStopped: return "stopped";
  }
  return "unknown";
}

std::string_view to_string(NeighbourPhase phase) {
  switch (phase) {
    case NeighbourPhase::kIncomplete: return "incomplete";
    case NeighbourPhase::kPath: return "path";
    case NeighbourPhase::kReachable: return "reachable";
    case NeighbourPhase::kStale: return "stale";
    case NeighbourPhase::kProbe: return "probe";
    case NeighbourPhase::kFailed: return "failed";
    case NeighbourPhase::kStatic: return "static";
  }
  return "unknown";
}

}  // namespace ipoib::link
