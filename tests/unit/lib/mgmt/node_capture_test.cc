// SPDX-License-Identifier: BSD-3-Clause
// Captures of a node whose HCAs do not all support them.
#include <rte_cycles.h>

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "lib/mgmt/capture_info.h"
#include "lib/mgmt/stepped_node.h"
#include "tests/support/forwarding_hca.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/mgmt/node_fixture.h"
#include "tests/unit/lib/mgmt/stepped_loop.h"

namespace ipoib::mgmt {
namespace {

class HcaWithoutCapture final : public test::ForwardingHca {
 public:
  explicit HcaWithoutCapture(std::unique_ptr<fabric::Hca> inner)
      : ForwardingHca{std::move(inner), {.captures = false}} {}
};

class NodeCaptureTest : public NodeFixture {
 protected:
  void TearDown() override {
    leave(*node_);
    std::filesystem::remove(file_);
  }
  /// Starts a node with the HCAs soft0 and soft1. Those in `without` do not support captures.
  void start(const std::set<std::string>& without, bool has_hcas = true) {
    ipoib::test::sim_tsc = 77 * rte_get_tsc_hz();
    NodeConfig c = config();
    if (has_hcas) {
      c.ports.clear();
      c.hcas.push_back(c.hcas[0]);
      c.hcas[1].name = "soft1";
      c.hcas[1].wire = second_cable_.name;
      c.hcas[1].guid += 1;
      c.links.push_back(c.links[0]);
      c.links[1].name = "ib1";
      c.links[1].hca = "soft1";
      c.links[1].addresses = {*wire::parse_prefix("10.0.1.1/24")};
    } else {
      c.hcas.clear();
      c.links.clear();
    }
    auto made = SteppedNode::create(
        c,
        [&](const HcaConfig& hca, const HcaResources& r) {
          auto soft = make_timed_soft(hca, r);
          if (!soft || !without.contains(hca.name)) return soft;
          return Result<std::unique_ptr<fabric::Hca>>{
              std::make_unique<HcaWithoutCapture>(std::move(*soft))};
        },
        &ipoib::test::read_sim_tsc);
    ASSERT_TRUE(made) << made.error().what;
    node_ = std::move(*made);
    node_->start();
    pass(*node_, 2s);
  }
  Status capture() { return node_->faces().control.capture_start({.file = file_}); }
  [[nodiscard]] CaptureInfo info() const { return node_->faces().view.capture(); }
  /// Runs the node until the capture has the state; its thread decides when.
  bool reaches(CaptureState state) {
    return eventually([&] {
      node_->run_once();
      return info().state == state;
    });
  }
  static std::size_t frames_on(const RingDevice& device) {
    std::size_t n = 0;
    for (; rte_mbuf* const m = test::next_of(device.from_node); ++n) rte_pktmbuf_free(m);
    return n;
  }
  /// Both links send ARP requests. Returns the numbers of frames on the cables.
  std::pair<std::size_t, std::size_t> send_on_both() {
    static_cast<void>(frames_on(cable)), static_cast<void>(frames_on(second_cable_));
    for (const char* link : {"ib0", "ib1"}) {
      EXPECT_TRUE(node_->faces().control.set_interface_up(link, false));
      pass(*node_, 1s);
      EXPECT_TRUE(node_->faces().control.set_interface_up(link, true));
      pass(*node_, 1s);
    }
    return {frames_on(cable), frames_on(second_cable_)};
  }

  RingDevice second_cable_{"cable"};
  std::unique_ptr<SteppedNode> node_;
  const std::string file_ = testing::TempDir() + "node_capture." + std::to_string(getpid());
};

TEST_F(NodeCaptureTest, P10_OneHcaWithoutCaptureIsNamedAndTheOthersAreCaptured) {
  start({"soft1"});
  const std::string log = logged([&] { EXPECT_TRUE(capture()); });
  EXPECT_NE(log.find("the capture to " + file_ +
                     " has no frames of devices that do not support it: soft1"),
            std::string::npos)
      << log;
  ASSERT_TRUE(reaches(CaptureState::kRunning)) << info().reason;
  const auto [captured, others] = send_on_both();
  EXPECT_GT(captured, 0U);
  EXPECT_GT(others, 0U);
  ASSERT_TRUE(node_->faces().control.capture_stop());
  ASSERT_TRUE(reaches(CaptureState::kDone)) << info().reason;
  EXPECT_EQ(info().frames + info().lost, captured);
  EXPECT_GT(info().frames, 0U);
}

TEST_F(NodeCaptureTest, P10_AllHcasAreCaptured) {
  start({});
  const std::string log = logged([&] { EXPECT_TRUE(capture()); });
  EXPECT_EQ(log, "");
  ASSERT_TRUE(reaches(CaptureState::kRunning)) << info().reason;
  const auto [first, second] = send_on_both();
  ASSERT_TRUE(node_->faces().control.capture_stop());
  ASSERT_TRUE(reaches(CaptureState::kDone)) << info().reason;
  EXPECT_EQ(info().frames + info().lost, first + second);
}

TEST_F(NodeCaptureTest, P10_WithoutASupportingHcaNoFileIsMade) {
  start({"soft0", "soft1"});
  const Status refused = capture();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kRefused);
  EXPECT_EQ(refused.error().what, "no device supports packet capture: soft0, soft1");
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_EQ(info().state, CaptureState::kNone);
}

TEST_F(NodeCaptureTest, P10_ANodeWithoutHcasCapturesNothing) {
  start({}, false);
  const Status refused = capture();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kRefused);
  EXPECT_EQ(refused.error().what, "no hca to capture: the node has only Ethernet ports");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace ipoib::mgmt
