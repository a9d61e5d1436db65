// SPDX-License-Identifier: BSD-3-Clause
// The faces of a node. User interfaces and tests get this struct and include the headers of the
// faces that they use.
#pragma once

namespace ipoib::mgmt {

class ManagementLoop;
class NodeControl;
class NodeStats;
class NodeView;
class TestTraffic;
class Trace;

/// References to objects that live as long as the node.
struct NodeFaces {
  ManagementLoop& loop;  ///< Tasks of other threads, descriptors, stop.
  NodeView& view;        ///< State of everything.
  NodeStats& stats;      ///< Counters, and their clear functions.
  NodeControl& control;  ///< Commands.
  TestTraffic& traffic;  ///< Forward modes and test packets.
  Trace& trace;          ///< Packet trace.
};

}  // namespace ipoib::mgmt
