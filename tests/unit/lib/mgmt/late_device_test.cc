// SPDX-License-Identifier: BSD-3-Clause
// A node whose InfiniBand device uses verbs and Ethernet as link layer, and disappears and returns.
// The node continues to run, its subnet administration exists as long as the port, and there is no
// cable.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/silent_mad_port.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using fabric::PortEvent;
using fabric::PortState;

constexpr std::uint64_t kGuid = 0x0202'c9ff'fe0a'0b01, kOtherGuid = 0x0202'c9ff'fe0a'0b02;

class FakeUdQueue final : public fabric::UdQueue {
 public:
  FakeUdQueue()
      : UdQueue{0x48, [](UdQueue&, rte_mbuf**, std::uint16_t) noexcept { return std::uint16_t{0}; },
                [](UdQueue&, rte_mbuf** pkts, std::uint16_t n) noexcept {
                  rte_pktmbuf_free_bulk(pkts, n);
                  return n;
                }} {}
};

/// A port that the test's thread removes and restores. MADs to other ports are lost.
class FakeHca final : public fabric::Hca, public test::SilentMadPort {
 public:
  explicit FakeHca(const HcaConfig& config) : Hca{config.name} { become({}); }

  /// Callable from any thread. 0: there is no device.
  void set_device(std::uint64_t guid) {
    const std::lock_guard lock{mutex_};
    wanted_ = guid;
  }

  [[nodiscard]] const fabric::PortAttr& attr() const override { return attr_; }
  [[nodiscard]] fabric::MadPort& mad_port() override { return *this; }
  [[nodiscard]] fabric::Capabilities capabilities() const override { return {}; }
  std::optional<PortEvent> next_event() override {
    std::optional<std::uint64_t> guid;
    {
      const std::lock_guard lock{mutex_};
      if (wanted_ != attr_.guid) guid = wanted_;
    }
    if (guid && *guid == 0) {
      become({});
      events_ = {PortEvent::kFatal, PortEvent::kPortDown};
    } else if (guid) {
      become(*guid);
      events_ = {PortEvent::kGidChange, PortEvent::kPortActive};
    }
    if (events_.empty()) return std::nullopt;
    const PortEvent first = events_.front();
    events_.pop_front();
    return first;
  }
  [[nodiscard]] std::string problem() const override {
    return attr_.guid == 0 ? "no device mlx5_7" : "";
  }

  Result<fabric::UdQueue*> create_ud_queue(const fabric::UdQueueConfig& /*config*/) override {
    return &queue_;
  }
  void destroy_ud_queue(fabric::UdQueue& /*queue*/) override {}
  Status set_qkey(fabric::UdQueue& /*queue*/, std::uint32_t /*qkey*/) override { return {}; }
  Status attach(fabric::UdQueue& /*queue*/, const wire::Gid& /*mgid*/,
                std::uint16_t /*mlid*/) override {
    return {};
  }
  Status detach(fabric::UdQueue& /*queue*/, const wire::Gid& /*mgid*/,
                std::uint16_t /*mlid*/) override {
    return {};
  }
  Result<fabric::AhIndex> create_ah(const fabric::AhAttr& ah) override {
    EXPECT_TRUE(ah.global);
    return next_ah_++;
  }
  void destroy_ah(fabric::AhIndex /*ah*/) override {}
  [[nodiscard]] DropTotals drops() const override { return {}; }

  Status send(const fabric::MadAddress& to,
              std::span<const std::byte, wire::kMadLen> mad) override {
    if (to.lid != fabric::kOwnLid) return {};
    fabric::ReceivedMad& own = own_.emplace_back();
    own.from = {.lid = fabric::kOwnLid, .pkey = to.pkey};
    std::copy(mad.begin(), mad.end(), own.bytes.begin());
    return {};
  }
  std::optional<fabric::ReceivedMad> receive() override {
    if (own_.empty()) return std::nullopt;
    auto first = std::move(own_.front());
    own_.pop_front();
    return first;
  }
  [[nodiscard]] bool pending() const override { return !own_.empty(); }

 private:
  void become(std::uint64_t guid) {
    attr_ = {};
    attr_.link_layer = fabric::LinkLayer::kEthernet;
    attr_.guid = guid;
    if (guid != 0) attr_.lid = attr_.sm_lid = fabric::kOwnLid;
    attr_.state = guid != 0 ? PortState::kActive : PortState::kDown;
  }

  fabric::PortAttr attr_;
  std::deque<PortEvent> events_;
  FakeUdQueue queue_;
  fabric::AhIndex next_ah_ = 0;
  DropCounters drops_;
  std::deque<fabric::ReceivedMad> own_;
  std::mutex mutex_;
  std::uint64_t wanted_ = 0;
};

class LateDevice : public NodeFixture {
 protected:
  NodeConfig verbs_config() {
    NodeConfig c = config();
    HcaConfig verbs;
    verbs.name = "mlx0";
    verbs.driver = HcaDriver::kVerbs;
    verbs.device = "mlx5_7";
    verbs.port = 2;
    verbs.subnet_administrator = true;
    c.hcas = {verbs};
    c.links[0].hca = "mlx0";
    return c;
  }
  void run_with(const NodeConfig& c, const Outside& outside) {
    const HcaFactory make =
        [this](const HcaConfig& h,
               const HcaResources& resources) -> Result<std::unique_ptr<fabric::Hca>> {
      if (h.driver == HcaDriver::kSoft) return make_soft(h, resources);
      auto made = std::make_unique<FakeHca>(h);
      hca = made.get();
      return made;
    };
    ASSERT_TRUE(run_node(c, make, outside));
  }
  static LinkInfo link(const NodeFaces& node) {
    return ask<LinkInfo>(node, [](const NodeFaces& n) { return n.view.links().at(0); });
  }
  static HcaInfo port(const NodeFaces& node) {
    return ask<HcaInfo>(node, [](const NodeFaces& n) { return n.view.hcas().at(0); });
  }
  static SaInfo sa(const NodeFaces& node) {
    return ask<SaInfo>(node,
                       [](const NodeFaces& n) { return n.view.subnet_administration().at(0); });
  }
  static Status start_capture(const NodeFaces& node, const std::string& file) {
    return ask<Status>(node,
                       [&](const NodeFaces& n) { return n.control.capture_start({.file = file}); });
  }
  static std::vector<wire::Gid> members(const NodeFaces& node) {
    std::vector<wire::Gid> all;
    for (const auto& group : sa(node).groups)
      for (const auto& member : group.members) all.push_back(member.port_gid);
    return all;
  }

  FakeHca* hca = nullptr;
};

TEST_F(LateDevice, P16_NodeWithoutADeviceThatCapturesSaysSo) {
  run_with(verbs_config(), [](const NodeFaces& node) {
    const auto refused = start_capture(node, "x.pcap");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kRefused);
    EXPECT_NE(refused.error().what.find("mlx0"), std::string::npos) << refused.error().what;
  });
}

TEST_F(LateDevice, P16_DeviceWithoutCaptureDoesNotPreventThatOfOthers) {
  const std::string file = testing::TempDir() + "late_device." + std::to_string(getpid());
  NodeConfig c = verbs_config();
  c.hcas.push_back(config().hcas.at(0));
  run_with(c, [&](const NodeFaces& node) {
    const auto started = start_capture(node, file);
    EXPECT_TRUE(started) << started.error().what;
    EXPECT_TRUE(
        ask<bool>(node, [](const NodeFaces& n) { return n.control.capture_stop().has_value(); }));
  });
  std::remove(file.c_str());
}

TEST_F(LateDevice, ComesGoesAndComesBackAsAnother) {
  run_with(verbs_config(), [this](const NodeFaces& node) {
    HcaInfo absent = port(node);
    EXPECT_EQ(absent.driver, "verbs");
    EXPECT_EQ(absent.wire, "mlx5_7:2");
    EXPECT_EQ(absent.mad.device, "mlx5_7");
    EXPECT_EQ(absent.mad.port, 2U);
    EXPECT_EQ(absent.problem, "no device mlx5_7");
    EXPECT_FALSE(absent.subnet_administrator);
    EXPECT_FALSE(sa(node).administrator);
    EXPECT_EQ(sa(node).problem, "no device mlx5_7");
    EXPECT_EQ(link(node).state, "waiting");
    EXPECT_GE(xstat(node, "mlx0", "rx_drop_ib_pkey"), 0) << "its own counters";
    EXPECT_EQ(xstat(node, "mlx0", "rx_good_packets"), -1) << "it has no cable";
    ask<bool>(node, [](const NodeFaces& n) { return n.stats.clear_stats(), true; });
    const auto refused = ask<Status>(node, [](const NodeFaces& n) {
      return n.control.change_hca("mlx0", {.lid = std::uint16_t{5}});
    });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::kRefused);
    EXPECT_EQ(refused.error().what,
              "cannot set mlx0: its subnet manager or its device configures the port");

    hca->set_device(kGuid);
    ASSERT_TRUE(eventually([&] { return link(node).state == "up"; }));
    EXPECT_EQ(link(node).gid.guid(), kGuid);
    EXPECT_EQ(link(node).lid, fabric::kOwnLid);
    EXPECT_TRUE(port(node).subnet_administrator);
    ASSERT_FALSE(members(node).empty());
    for (const wire::Gid& gid : members(node)) EXPECT_EQ(gid.guid(), kGuid);

    hca->set_device(0);
    ASSERT_TRUE(eventually([&] { return link(node).state == "waiting"; }));
    EXPECT_EQ(port(node).attr.guid, 0U);
    EXPECT_EQ(ask<std::size_t>(node, [](const NodeFaces& n) { return n.view.ports().size(); }), 1U);

    hca->set_device(kOtherGuid);
    ASSERT_TRUE(eventually([&] { return link(node).state == "up"; }));
    EXPECT_EQ(link(node).gid.guid(), kOtherGuid);
    ASSERT_FALSE(members(node).empty());
    for (const wire::Gid& gid : members(node)) EXPECT_EQ(gid.guid(), kOtherGuid);
    EXPECT_EQ(sa(node).ports.size(), 1U) << "the one before is nobody's";
  });
}

}  // namespace
}  // namespace ipoib::mgmt
