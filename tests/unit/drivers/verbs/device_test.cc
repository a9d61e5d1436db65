// SPDX-License-Identifier: BSD-3-Clause
// Devices that cannot be used, disappear and return: the messages about them, and the undisturbed
// rest of the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/support/logged.h"
#include "tests/support/retirement_period.h"
#include "tests/unit/drivers/verbs/verbs_fixture.h"

namespace ipoib::verbs {
namespace {

using fabric::PortEvent;
using fake_verbs::Call;
using fake_verbs::Fabric;
using fake_verbs::Lost;
using testing::Test;

class VerbsDeviceTest : public VerbsFixture {};

using Change = std::function<void(Fabric&, fake_verbs::Device&)>;

/// A fault of the device at the start, the message about it, and the repair.
struct Fault {
  const char* name;
  Change make;
  std::vector<std::string> says;
  Change mend;
};

/// The call fails until clear().
Change fails(Call call, int error) {
  return [=](Fabric& f, fake_verbs::Device&) { f.fail(call, error, Fabric::kAlways); };
}
void clear(Fabric& fabric, fake_verbs::Device& /*device*/) {
  fabric.clear_failures();
}

const std::vector<Fault> kFaults = {
    {"absent",
     [](Fabric& f, fake_verbs::Device& d) { f.remove(d); },
     {"no device hca0", "ibverbs-providers"},
     [](Fabric& f, fake_verbs::Device& d) { f.restore(d); }},
    {"no kernel support", fails(Call::kGetDeviceList, ENOSYS), {"ib_uverbs"}, clear},
    {"no permission for the list",
     fails(Call::kGetDeviceList, EPERM),
     {"permission", "/dev/infiniband", "root"},
     clear},
    {"no permission",
     fails(Call::kOpenDevice, EACCES),
     {"permission", "/dev/infiniband", "root"},
     clear},
    {"gone while it is opened",
     fails(Call::kOpenDevice, ENODEV),
     {"cannot open device hca0", "No such device"},
     clear},
    {"does not say what it is",
     fails(Call::kQueryDevice, EIO),
     {"cannot query device hca0"},
     clear},
    {"no protection domain", fails(Call::kAllocPd, ENOMEM), {"protection domain"}, clear},
    {"no memlock",
     [](Fabric&, fake_verbs::Device& d) { d.memlock = 4096; },
     {"MiB", "memlock limit", "ulimit -l", "LimitMEMLOCK"},
     [](Fabric&, fake_verbs::Device& d) { d.memlock = SIZE_MAX; }},
    {"Ethernet",
     [](Fabric&, fake_verbs::Device& d) { d.ports[0].attr.link_layer = IBV_LINK_LAYER_ETHERNET; },
     {"Ethernet link layer", "subnet-administrator = true"},
     [](Fabric&, fake_verbs::Device& d) {
       d.ports[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
     }},
};

TEST_F(VerbsDeviceTest, EachFaultHasItsMessageAndIsOverWhenItIsMended) {
  for (const Fault& fault : kFaults) {
    SCOPED_TRACE(fault.name);
    fabric_.reset();
    fake_verbs::Device& device = add_device(0);
    fault.make(fabric_, device);
    const auto node = make_node(device);
    for (const std::string& part : fault.says) expect_problem(*node, part);
    EXPECT_EQ(node->hca->attr().state, fabric::PortState::kDown);
    // Meanwhile the worker continues: bursts do nothing, and count their packets.
    rte_mbuf* m = packet(payload(60));
    EXPECT_EQ(node->queue->tx_burst(&m, 1), 1);
    EXPECT_EQ(node->drops(Drop::kIbPortDown), 1U);
    EXPECT_TRUE(node->receive().empty());
    EXPECT_EQ(pass(*node), std::vector<PortEvent>{});

    fault.mend(fabric_, device);
    EXPECT_EQ(pass(*node), std::vector{PortEvent::kPortActive});
    EXPECT_EQ(node->hca->problem(), "");
    EXPECT_NE(node->queue->qpn(), 0U);
  }
}

TEST_F(VerbsDeviceTest, U09_MtuIsTheSmallerOfThoseOfDeviceAndManager) {
  const auto node = make_node(0, [](VerbsHcaConfig& c) { c.mtu = 5; });
  node->manager->mtu = 5;
  pass(*node);
  EXPECT_EQ(node->hca->attr().mtu, 4) << "active_mtu of the device";
  node->manager->mtu = 3;
  node->manager->events = {PortEvent::kPortActive};
  EXPECT_EQ(pass(*node), std::vector{PortEvent::kPortActive}) << "links look at their groups again";
  EXPECT_EQ(node->hca->attr().mtu, 3);
}

TEST_F(VerbsDeviceTest, WrongPortNamesThoseThereAre) {
  const auto node = make_node(0, [](VerbsHcaConfig& c) { c.port = 2; });
  expect_problem(*node, "no port 2, allowed: 1-1");
}

TEST_F(VerbsDeviceTest, AbsentDeviceNamesThoseThereAre) {
  fake_verbs::Device& device = add_device(0);
  add_device(1);
  const auto node = make_node(device, [](VerbsHcaConfig& c) { c.device = "mlx5_7"; });
  expect_problem(*node, "hca0, hca1");
}

TEST_F(VerbsDeviceTest, WithoutThreadDomainsQueuesHaveLocks) {
  const auto peer = make_node(1);
  int number = 2;
  const auto works = [&](const std::function<void(fake_verbs::Device&)>& change) {
    fake_verbs::Device& device = add_device(number++);
    change(device);
    const auto node = make_node(device);
    EXPECT_FALSE(fabric_.lockless(node->queue->qpn()));
    EXPECT_TRUE(talk(*node, *peer));
  };
  works([](auto& device) { device.thread_domains = false; });
  works([](auto& device) { device.single_threaded_cqs = false; });
  works([this](auto&) { fabric_.fail(Call::kAllocParentDomain, EOPNOTSUPP); });
  works([this](auto&) { fabric_.fail(Call::kAllocTd, ENOMEM); });
}

TEST_F(VerbsDeviceTest, SegmentsAreThoseOfTheDeviceThatIsThere) {
  fake_verbs::Device& device = add_device(0);
  device.attr.orig_attr.max_sge = 4;
  const auto node = make_node(device);
  EXPECT_EQ(node->hca->capabilities().max_segments, 4);
  fabric_.remove(device);
  pass(*node);
  EXPECT_EQ(node->hca->capabilities().max_segments, 1) << "nothing is known of the next one";
}

TEST_F(VerbsDeviceTest, C18_AckDelayIsThatOfTheDevice) {
  fake_verbs::Device& device = add_device(0);
  for (const auto& [said, delay] : {std::pair{0, 0}, {16, 16}, {31, 31}, {255, 31}}) {
    device.attr.orig_attr.local_ca_ack_delay = static_cast<std::uint8_t>(said);
    const auto node = make_node(device);
    EXPECT_EQ(node->hca->capabilities().ack_delay, delay);
  }
}

/// A port of Ethernet link layer, whose network device in these tests is the loopback device.
class VerbsEthernetTest : public VerbsDeviceTest {
 protected:
  std::unique_ptr<Node> make_ethernet_node() {
    fake_verbs::Device& device = add_device(0);
    device.ports[0].attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    return make_node(device, [](VerbsHcaConfig& c) {
      c.administrator = true;
      c.mad_port = [](std::uint8_t) { return std::make_unique<test::SilentMadPort>(); };
    });
  }
  /// True if the network device is in the group.
  static bool joined(const wire::Gid& mgid) {
    std::string wanted;
    for (const std::byte b : mgid.bytes) wanted += fmt::format("{:02x}", b);
    std::ifstream all{"/proc/net/igmp6"};
    for (std::string word; all >> word;)
      if (word == wanted) return true;
    return false;
  }
};

TEST_F(VerbsEthernetTest, AGroupIsLeftWithTheLastQueueThatIsInIt) {
  const wire::Gid mgid = wire::Gid::of(0xff12'401b'ffff'0000, 0x0bad'cafe);
  using Leave = std::function<void(Node&, fabric::UdQueue&)>;
  for (const Leave& leave :
       {Leave{[&](Node&n, fabric::UdQueue&q) { EXPECT_TRUE(n.hca->detach(q, mgid, kMlid)); }},
        Leave{[](Node&n, fabric::UdQueue&q) { n.hca->destroy_ud_queue(q); }}}) {
    fabric_.reset();
    const auto node = make_ethernet_node();
    ASSERT_EQ(node->hca->problem(), "");
    fabric::UdQueue& first = *node->queue;
    fabric::UdQueue& second = *node->hca->create_ud_queue({}).value();
    for (fabric::UdQueue* queue : {&first, &second}) {
      if (const auto attached = node->hca->attach(*queue, mgid, kMlid); !attached)
        GTEST_SKIP() << "this machine joins no IPv6 groups: " << attached.error().what;
    }
    ASSERT_TRUE(joined(mgid));
    // The device goes and comes back; the first queue cannot be attached again.
    fabric_.remove(*node->device);
    pass(*node);
    EXPECT_FALSE(joined(mgid));
    fabric_.restore(*node->device);
    fabric_.fail(Call::kAttachMcast, ENOMEM);
    pass(*node);
    ASSERT_TRUE(joined(mgid));
    leave(*node, first);
    EXPECT_TRUE(joined(mgid)) << "the second queue is in it";
    leave(*node, second);
    EXPECT_FALSE(joined(mgid));
  }
}

TEST_F(VerbsDeviceTest, AdministratorOnAnInfinibandPortIsRefused) {
  const auto node = make_node(0, [](VerbsHcaConfig& c) { c.administrator = true; });
  expect_problem(*node, "subnet-administrator = false");
}

TEST_F(VerbsDeviceTest, WrongConfigurationIsAnError) {
  Node node;
  node.device = &add_device(0);
  const auto refused = [&](const std::function<void(VerbsHcaConfig&)>& change) {
    VerbsHcaConfig with = config(node);
    change(with);
    const auto made = VerbsHca::create(std::move(with));
    return !made && made.error().code == Errc::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](VerbsHcaConfig& c) { c.device = ""; }));
  EXPECT_TRUE(refused([](VerbsHcaConfig& c) { c.port = 0; }));
  EXPECT_TRUE(refused([](VerbsHcaConfig& c) { c.mtu = 6; }));
  EXPECT_TRUE(refused([](VerbsHcaConfig& c) { c.pool = nullptr; }));
  EXPECT_TRUE(refused([](VerbsHcaConfig& c) { c.rxd = 0; }));
}

/// Faults that prevent the creation of a queue on a present port.
TEST_F(VerbsDeviceTest, EachFaultOfAQueueHasItsMessage) {
  struct Row {
    const char* name;
    Change make;
    const char* says;
    Change mend;
    Drop counted = Drop::kIbPortDown;
  };
  const auto none = [](Fabric&, fake_verbs::Device&) {};
  const std::vector<Row> rows = {
      {"P_Key", [](Fabric&, fake_verbs::Device& d) { d.ports[0].pkeys = {0x8001}; },
       "P_Key 0xffff is not in the P_Key table of the port",
       [](Fabric&, fake_verbs::Device& d) {
         d.ports[0].pkeys = {0, 0xffff};
       },
       Drop::kIbPkey},
      {"completion queue", fails(Call::kCreateCq, ENOMEM), "cannot create a completion queue",
       clear},
      {"queue pair", fails(Call::kCreateQp, ENOMEM), "cannot create a UD queue pair", clear},
      {"no UD at all", fails(Call::kCreateQp, EOPNOTSUPP),
       "the device cannot create a UD queue pair", clear},
      {"state", [](Fabric& f, fake_verbs::Device&) { f.fail(Call::kModifyQp, EINVAL); },
       "ready (state", none},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    fabric_.reset();
    fake_verbs::Device& device = add_device(0);
    row.make(fabric_, device);
    const auto node = make_node(device);
    expect_problem(*node, row.says);
    rte_mbuf* m = packet(payload(60));
    EXPECT_EQ(node->queue->tx_burst(&m, 1), 1);
    EXPECT_EQ(node->drops(row.counted), 1U);
    row.mend(fabric_, device);
    pass(*node);
    EXPECT_EQ(node->hca->problem(), "");
    EXPECT_NE(node->queue->qpn(), 0U);
  }
}

TEST_F(VerbsDeviceTest, ControlledQkeyTakesAPermission) {
  const auto node = make_node(0);
  node->device->controlled_qkeys = false;
  const auto set = node->hca->set_qkey(*node->queue, 0x8000'0001);
  ASSERT_FALSE(set);
  EXPECT_NE(set.error().what.find("CAP_NET_RAW"), std::string::npos) << set.error().what;
  node->device->controlled_qkeys = true;
  EXPECT_TRUE(node->hca->set_qkey(*node->queue, 0x8000'0001));
  EXPECT_EQ(fabric_.attr_of(node->queue->qpn()).qkey, 0x8000'0001U);
}

TEST_F(VerbsDeviceTest, MbufsSmallerThanTheMtuAreRefused) {
  const auto node = make_node(0, [](VerbsHcaConfig& c) { c.mtu = 5; });
  expect_problem(*node, "--mbuf-size");
}

TEST_F(VerbsDeviceTest, LinkOfAnotherDeviceRunsOn) {
  const auto a = make_node(0);
  const auto b = make_node(1);
  fake_verbs::Device& third = add_device(2);
  third.memlock = 1;
  const auto broken = make_node(third);
  EXPECT_NE(broken->hca->problem(), "");
  EXPECT_TRUE(talk(*a, *b));
  EXPECT_TRUE(talk(*b, *a));
}

// --- Events ---

TEST_F(VerbsDeviceTest, PortGoesDownAndUp) {
  const auto a = make_node(0);
  const auto b = make_node(1);
  pass(*a);
  a->device->ports[0].attr.state = IBV_PORT_DOWN;
  fabric_.raise(*a->device, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(pass(*a, Duration{0}), std::vector{PortEvent::kPortDown});
  const fabric::AhIndex ah = ah_to(*a, 5);
  send(*a, ah, b->queue->qpn(), {payload(60)});
  EXPECT_EQ(a->drops(Drop::kIbPortDown), 1U);
  a->device->ports[0].attr.state = IBV_PORT_ACTIVE;
  fabric_.raise(*a->device, IBV_EVENT_PORT_ACTIVE);
  EXPECT_EQ(pass(*a, Duration{0}), std::vector{PortEvent::kPortActive});
  EXPECT_TRUE(talk(*a, *b));
}

TEST_F(VerbsDeviceTest, ChangesAreToldAtOnce) {
  const auto a = make_node(0);
  pass(*a);
  fake_verbs::Port& port = a->device->ports[0];
  const auto after = [&](ibv_event_type type) {
    fabric_.raise(*a->device, type);
    return pass(*a, Duration{0});
  };
  port.attr.lid = 9;
  EXPECT_EQ(after(IBV_EVENT_LID_CHANGE), std::vector{PortEvent::kLidChange});
  EXPECT_EQ(a->hca->attr().lid, 9);
  port.pkeys = {0xffff, 0x8002};
  EXPECT_EQ(after(IBV_EVENT_PKEY_CHANGE), std::vector{PortEvent::kPkeyChange});
  EXPECT_EQ(a->hca->attr().pkeys, (std::vector<std::uint16_t>{0xffff, 0x8002}));
  port.attr.sm_lid = 3;
  EXPECT_EQ(after(IBV_EVENT_SM_CHANGE), std::vector{PortEvent::kSmChange});
  port.gids[0] = wire::Gid::of(0xfec0'0000'0000'0001, 0x77);
  EXPECT_EQ(after(IBV_EVENT_GID_CHANGE), std::vector{PortEvent::kGidChange});
  a->manager->events.push_back(PortEvent::kClientReregister);
  EXPECT_EQ(pass(*a, Duration{0}), std::vector{PortEvent::kClientReregister});
}

TEST_F(VerbsDeviceTest, EventsOfAnotherPortAreNotOurs) {
  auto setup = fake_verbs::make_setup("two", 4, 0xa);
  setup.ports.push_back(setup.ports[0]);
  const auto a = make_node(fabric_.add_device(std::move(setup)));
  pass(*a);
  a->device->ports[0].attr.lid = 9;  // The driver would see this change if it queried the port.
  fabric_.raise(*a->device, IBV_EVENT_LID_CHANGE, 2);
  EXPECT_EQ(pass(*a, Duration{0}), std::vector<PortEvent>{});
}

TEST_F(VerbsDeviceTest, PkeyThatMovesTakesTheQueueAlong) {
  const auto a = make_node(0);
  const auto b = make_node(1);
  ASSERT_TRUE(a->hca->attach(*a->queue, kMgid, kMlid));
  a->device->ports[0].pkeys = {0x8001, 0x7fff, 0xffff};
  fabric_.raise(*a->device, IBV_EVENT_PKEY_CHANGE);
  pass(*a, Duration{0});
  EXPECT_EQ(fabric_.attr_of(a->queue->qpn()).pkey_index, 2);  // Full members go first.
  EXPECT_TRUE(talk(*a, *b));
  EXPECT_TRUE(talk(*b, *a));
  send(*b, group_ah(*b), wire::kMulticastQpn, {payload(60)});
  EXPECT_EQ(take(a->receive()).size(), 1U);

  a->device->ports[0].pkeys = {0x8001};
  fabric_.raise(*a->device, IBV_EVENT_PKEY_CHANGE);
  pass(*a, Duration{0});
  expect_problem(*a, "P_Key");
  a->device->ports[0].pkeys = {0xffff};
  pass(*a);
  EXPECT_TRUE(talk(*a, *b));
}

TEST_F(VerbsDeviceTest, U36_PacketsThatThePortDiscardsAreDrops) {
  const auto a = make_node(0);
  EXPECT_EQ(a->all_drops(), 0U);
  a->device->ports[0].pkey_violations = 3;
  a->device->ports[0].qkey_violations = 4;
  EXPECT_EQ(a->drops(Drop::kIbPkey), 3U);
  EXPECT_EQ(a->drops(Drop::kIbQkey), 4U);
  EXPECT_EQ(a->all_drops(), 7U);
}

// --- Removal ---

class VerbsRemovalTest : public VerbsFixture,
                         public testing::WithParamInterface<fake_verbs::Removal> {};

TEST_P(VerbsRemovalTest, DeviceGoesAndComesBackUnderItsName) {
  const auto a = make_node(0);
  const auto b = make_node(1);
  pass(*a);
  ASSERT_TRUE(a->hca->attach(*a->queue, kMgid, kMlid));
  const fabric::AhIndex old = ah_to(*a, 5);
  // Some sends are in progress when the device disappears.
  fabric_.hold_sends(*a->device, true);
  send(*a, old, b->queue->qpn(), {payload(60, 1), payload(1000, 2), payload(2000, 3)});
  fabric_.remove(*a->device, GetParam());

  // Workers continue until they are notified.
  send(*a, old, b->queue->qpn(), {payload(60), payload(1000)});
  EXPECT_TRUE(a->receive().empty());
  EXPECT_EQ(pass(*a, std::chrono::milliseconds(300)), std::vector{PortEvent::kFatal});
  EXPECT_EQ(a->hca->attr().state, fabric::PortState::kDown);
  EXPECT_NE(a->hca->problem(), "");
  send(*a, old, b->queue->qpn(), {payload(60)});
  EXPECT_TRUE(a->receive().empty());
  // None of the six packets arrived, and each has a drop reason.
  EXPECT_EQ(a->drops(Drop::kIbTxFlushed), 5U);
  EXPECT_EQ(a->drops(Drop::kIbPortDown), 1U);
  EXPECT_EQ(a->all_drops(), 6U);
  EXPECT_EQ(pass(*a), std::vector<PortEvent>{});
  expect_problem(*a, "no device hca0");

  fabric_.hold_sends(*a->device, false);
  fabric_.restore(*a->device);
  EXPECT_EQ(pass(*a), std::vector{PortEvent::kPortActive});
  EXPECT_TRUE(talk(*a, *b));
  EXPECT_TRUE(talk(*b, *a));
  send(*b, group_ah(*b), wire::kMulticastQpn, {payload(60)});
  EXPECT_EQ(take(a->receive()).size(), 1U);
  // The old handle is invalid.
  send(*a, old, b->queue->qpn(), {payload(60)});
  EXPECT_EQ(a->drops(Drop::kIbTxInvalid), 1U);
  a->hca->destroy_ah(old);
}

// Another worker routed packets to the device before it went, and its owner takes them off the ring
// when the device is back and other peers have handles.
TEST_P(VerbsRemovalTest, PacketsThatWaitInTheRingOfAWorkerReachNoOtherPeer) {
  test::RetirementPeriod period;
  const auto a = make_node(0, [&](VerbsHcaConfig& c) { c.retirement = &period; });
  const auto b = make_node(1);
  const std::uint16_t lid = b->device->ports[0].attr.lid;
  const fabric::AhIndex kept = ah_to(*a, 7);
  const fabric::AhIndex removed = ah_to(*a, 8);
  std::vector<rte_mbuf*> ring;
  for (const fabric::AhIndex ah : {kept, removed, kept, removed})
    ring.push_back(packet(payload(60), ah, b->queue->qpn()));
  fabric_.remove(*a->device, GetParam());
  send(*a, kept, b->queue->qpn(), {payload(60)});  // In one way this alone shows the removal.
  EXPECT_EQ(pass(*a, std::chrono::milliseconds(300)), std::vector{PortEvent::kFatal});
  a->hca->destroy_ah(removed);
  pass(*a);
  fabric_.restore(*a->device);
  EXPECT_EQ(pass(*a), std::vector{PortEvent::kPortActive});

  const fabric::AhIndex first = ah_to(*a, lid);
  EXPECT_NE(first, kept);
  EXPECT_NE(first, removed);
  EXPECT_EQ(a->queue->tx_burst(ring.data(), 4), 4);
  EXPECT_EQ(a->drops(Drop::kIbTxInvalid), 4U);
  EXPECT_TRUE(take(b->receive()).empty());

  ++period.now;
  pass(*a);
  EXPECT_EQ(ah_to(*a, 9), removed) << "no packet names it any more";
  EXPECT_TRUE(talk(*a, *b));
}

std::string removal_name(const testing::TestParamInfo<fake_verbs::Removal>& way) {
  return std::string{way.param.fatal_event ? "Event" : "Silent"} +
         (way.param.path_gone ? "Gone" : "Listed") +
         (way.param.posts_fail ? "Refusing" : "Swallowing");
}

INSTANTIATE_TEST_SUITE_P(
    Ways, VerbsRemovalTest,
    testing::Values(fake_verbs::Removal{}, fake_verbs::Removal{.fatal_event = false},
                    fake_verbs::Removal{.fatal_event = false, .path_gone = false},
                    fake_verbs::Removal{.posts_fail = false},
                    fake_verbs::Removal{.fatal_event = false, .posts_fail = false}),
    removal_name);

TEST_F(VerbsDeviceTest, AnotherNumaNodeIsWarnedOf) {
  fake_verbs::Device& device = add_device(0);
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("numa{}", getpid());
  std::filesystem::create_directories(folder / "device");
  std::ofstream{folder / "device/numa_node"} << 1;
  std::snprintf(device.handles.back()->ibdev_path, sizeof(ibv_device::ibdev_path), "%s",
                folder.c_str());
  const auto said = [&](int worker_node) {
    return logged(
        [&] { make_node(device, [&](VerbsHcaConfig& c) { c.worker_node = worker_node; }); });
  };
  EXPECT_NE(said(0).find("hca0 is on NUMA node 1, its worker's lcore is on node 0"),
            std::string::npos);
  for (const int same_or_unknown : {1, -1})
    EXPECT_EQ(said(same_or_unknown).find("NUMA"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_F(VerbsDeviceTest, GroupsThatCannotBeAttachedAtFirstAreLater) {
  const auto a = make_node(0);
  const auto b = make_node(1);
  ASSERT_TRUE(a->hca->attach(*a->queue, kMgid, kMlid));
  fabric_.remove(*a->device);
  pass(*a);
  fabric_.restore(*a->device);
  fabric_.fail(Call::kAttachMcast, ENOMEM);
  pass(*a);
  pass(*a);
  EXPECT_EQ(a->hca->problem(), "");
  send(*b, group_ah(*b), wire::kMulticastQpn, {payload(60)});
  EXPECT_EQ(take(a->receive()).size(), 1U);
}

TEST_F(VerbsDeviceTest, DeviceThatFailsIsOpenedAnew) {
  const auto a = make_node(0);
  const auto b = make_node(1);
  pass(*a);
  fabric_.raise(*a->device, IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(pass(*a, Duration{0}), std::vector{PortEvent::kFatal});
  EXPECT_EQ(pass(*a), std::vector{PortEvent::kPortActive});
  EXPECT_TRUE(talk(*a, *b));
}

}  // namespace
}  // namespace ipoib::verbs
