// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/kernel_interfaces.h"

#include <rte_cycles.h>

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "lib/base/contract.h"
#include "lib/linux/netlink_listener.h"
#include "lib/mgmt/node/node_assembly.h"
#include "lib/mgmt/node/node_builder.h"
#include "tests/unit/lib/mgmt/node_fixture.h"

namespace ipoib::mgmt {
namespace {

using Octets = std::vector<std::byte>;
constexpr std::uint64_t kKernelGuid = 0x0002'c903'000a'0b01;
constexpr KernelInterfaces::Place kKernelPlace{kKernelGuid, 0x8001};

template <class T>
void append(Octets& to, const T& value) {
  const auto at = to.size();
  to.resize(at + sizeof value);
  std::memcpy(to.data() + at, &value, sizeof value);
}

struct Link {
  std::string name = "ib0";
  std::int32_t index = 5;
  bool up = true;
  std::uint16_t pkey = 0x8001;
  std::uint64_t guid = kKernelGuid;
  std::uint16_t type = ARPHRD_INFINIBAND;
  std::uint8_t family = AF_UNSPEC;
  std::size_t address_len = 20;
};

void append_attribute(Octets& to, std::uint16_t type, const Octets& value) {
  append(to, static_cast<std::uint16_t>(4 + value.size()));
  append(to, type);
  to.insert(to.end(), value.begin(), value.end());
  to.resize((to.size() + 3) & ~std::size_t{3});
}

/// Writes `value` in network order at the offset.
template <class T>
void put(Octets& to, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T) && at + i < to.size(); ++i)
    to[at + i] = static_cast<std::byte>(value >> 8 * (sizeof(T) - 1 - i));
}

Octets message(std::uint16_t type, const Octets& body, std::uint32_t sequence = 0,
               std::uint16_t flags = 0) {
  Octets octets;
  append(octets, static_cast<std::uint32_t>(16 + body.size()));
  append(octets, type);
  append(octets, flags);
  append(octets, sequence);
  append(octets, std::uint32_t{0});
  octets.insert(octets.end(), body.begin(), body.end());
  return octets;
}

Octets link_message(const Link& link, std::uint16_t type = RTM_NEWLINK, std::uint32_t sequence = 0,
                    std::uint16_t flags = 0) {
  Octets body;
  append(body, link.family);
  append(body, std::uint8_t{0});
  append(body, link.type);
  append(body, link.index);
  append(body, std::uint32_t{link.up ? unsigned{IFF_UP} : 0U});
  append(body, std::uint32_t{0});
  Octets name(link.name.size() + 1);
  std::memcpy(name.data(), link.name.data(), link.name.size());
  append_attribute(body, IFLA_IFNAME, name);
  Octets address(link.address_len), broadcast(link.address_len);
  put(address, 12, link.guid);
  put(broadcast, 8, link.pkey);
  append_attribute(body, IFLA_ADDRESS, address);
  append_attribute(body, IFLA_BROADCAST, broadcast);
  return message(type, body, sequence, flags);
}

Octets done(std::uint32_t sequence) {
  return message(NLMSG_DONE, Octets(4), sequence, NLM_F_MULTI);
}

class KernelInterfacesTest : public ::testing::Test {
 protected:
  void begin_snapshot() {
    reader.begin_snapshot();
    sequence = reader.take_request()->sequence;
  }
  void end_snapshot() { reader.take(done(sequence)); }
  /// A snapshot of one interface, ib0.
  void list_one() {
    begin_snapshot();
    reader.take(link_message({}, RTM_NEWLINK, sequence, NLM_F_MULTI));
    end_snapshot();
    ASSERT_EQ(reader.snapshots(), 1U);
    static_cast<void>(all.take_changes());
  }
  [[nodiscard]] std::size_t count() const { return all.at(kKernelPlace).size(); }

  KernelInterfaces all;
  kernel::NetlinkReader reader{all, KernelInterfaces::subscription().dumps};
  std::uint32_t sequence = 0;
};

TEST_F(KernelInterfacesTest, U33_SeesAnInterfaceOfThePortAndPartition) {
  list_one();
  const auto found = all.at({kKernelGuid, 0x0001});  // the P_Key of a limited member
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0], (KernelInterface{"ib0", kKernelGuid, 0x8001, true}));
  EXPECT_TRUE(all.at({kKernelGuid, 0x8002}).empty());
  EXPECT_TRUE(all.at({kKernelGuid + 1, 0x8001}).empty());
}

TEST_F(KernelInterfacesTest, SeveralMessagesAreInADatagram) {
  Octets datagram = link_message({});
  const Octets child = link_message({.name = "ib0.8002", .index = 6, .pkey = 0x8002});
  datagram.insert(datagram.end(), child.begin(), child.end());
  reader.take(datagram);
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(all.at({kKernelGuid, 0x8002}).size(), 1U);
}

TEST_F(KernelInterfacesTest, EachChangeIsReportedAsItWasAndAsItIs) {
  list_one();
  reader.take(link_message({}));  // nothing has changed
  EXPECT_TRUE(all.take_changes().empty());
  reader.take(link_message({.up = false}));
  auto changes = all.take_changes();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_TRUE(changes[0].up);
  EXPECT_FALSE(changes[1].up);
  // Another partition: both links that it concerns must hear of it.
  reader.take(link_message({.up = false, .pkey = 0x8002}));
  changes = all.take_changes();
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].pkey, 0x8001);
  EXPECT_EQ(changes[1].pkey, 0x8002);
  reader.take(link_message({.pkey = 0x8002}, RTM_DELLINK));
  EXPECT_EQ(all.take_changes().size(), 1U);
  EXPECT_TRUE(all.at({kKernelGuid, 0x8002}).empty());
}

TEST_F(KernelInterfacesTest, OtherInterfacesAreIgnored) {
  reader.take(link_message({.type = ARPHRD_ETHER}));
  reader.take(link_message({.address_len = 6}));
  reader.take(link_message({.family = AF_BRIDGE}));
  EXPECT_EQ(count(), 0U);
  EXPECT_TRUE(all.take_changes().empty());
  reader.take(link_message({}));
  reader.take(link_message({.family = AF_BRIDGE}, RTM_DELLINK));  // it has left a bridge
  EXPECT_EQ(count(), 1U);
  reader.take(link_message({.type = ARPHRD_ETHER}));  // another interface has its index now
  EXPECT_EQ(count(), 0U);
}

TEST_F(KernelInterfacesTest, InterfaceThatIsNotInTheSnapshotIsGone) {
  list_one();
  begin_snapshot();
  reader.take(link_message({.name = "ib1", .index = 6}, RTM_NEWLINK, sequence, NLM_F_MULTI));
  EXPECT_EQ(count(), 2U);
  end_snapshot();
  ASSERT_EQ(count(), 1U);
  EXPECT_EQ(all.at(kKernelPlace)[0].name, "ib1");
  EXPECT_EQ(all.take_changes().size(), 2U);
}

TEST_F(KernelInterfacesTest, InterfaceThatAppearsDuringTheSnapshotStays) {
  begin_snapshot();
  reader.take(link_message({}));  // a change, not an answer
  end_snapshot();
  EXPECT_EQ(count(), 1U);
}

TEST_F(KernelInterfacesTest, SnapshotThatFailedRemovesNoInterface) {
  list_one();
  begin_snapshot();
  reader.take(link_message({.name = "ib1", .index = 6}));
  reader.give_up(ETIMEDOUT);
  EXPECT_EQ(count(), 2U);
  begin_snapshot();
  reader.take(link_message({.name = "ib2", .index = 7}));
  end_snapshot();
  ASSERT_EQ(count(), 1U);
  EXPECT_EQ(all.at(kKernelPlace)[0].name, "ib2");
}

TEST_F(KernelInterfacesTest, LossMayHideAChangeOfEachInterface) {
  list_one();
  reader.lose();
  EXPECT_TRUE(reader.needs_snapshot());
  EXPECT_EQ(all.take_changes().size(), 1U);
}

TEST_F(KernelInterfacesTest, NamesArePrintable) {
  reader.take(link_message({.name = "i b\x1b[2J\xff\"0"}));
  ASSERT_EQ(count(), 1U);
  EXPECT_EQ(all.at(kKernelPlace)[0].name, "i?b?[2J?\"0");
}

TEST_F(KernelInterfacesTest, OctetsThatAreNoMessageAreIgnored) {
  const Octets good = link_message({});
  for (std::size_t len = 0; len < good.size(); ++len) reader.take(std::span{good}.first(len));
  EXPECT_EQ(count(), 0U);
  std::mt19937 random{1};
  for (int i = 0; i < 20'000; ++i) {
    Octets bad = good;
    for (int n = 0; n < 3; ++n) bad[random() % bad.size()] = static_cast<std::byte>(random());
    reader.take(bad);
  }
}

struct PortUsers : NodeFixture {
  /// Makes a node whose port has kKernelGuid, and starts its interfaces.
  static std::unique_ptr<NodeAssembly> make(const NodeConfig& config) {
    auto built = build_node(
        config, {0, {1}}, make_soft, []() noexcept { return std::uint64_t{rte_rdtsc()}; }, 0);
    EXPECT_TRUE(built);
    if (!built) return nullptr;
    (*built)->runner.start();
    return std::move(*built);
  }
  static LinkInfo after(NodeAssembly& node, const Octets& message) {
    const ActingAs role{LcoreRole::management()};
    NodeParts& parts = *node.parts;
    kernel::NetlinkReader{parts.kernel_interfaces, KernelInterfaces::subscription().dumps}.take(
        message);
    for (const KernelInterface& changed : parts.kernel_interfaces.take_changes())
      parts.links[0]->on_kernel_interface(changed, parts.now());
    return node.faces.view.links()[0];
  }
};

TEST_F(PortUsers, U33_LinkSharesItsPortWhileTheKernelUsesIt) {
  const auto node = make(config());
  ASSERT_TRUE(node);
  const auto other = after(*node, link_message({.name = "ib0.8001", .index = 6}));
  EXPECT_FALSE(other.port_shared);
  EXPECT_TRUE(other.port_users.empty());
  const auto up = after(*node, link_message({.pkey = 0xffff}));
  EXPECT_TRUE(up.port_shared);
  EXPECT_EQ(up.port_users, (std::vector<std::string>{"ib0 up"}));
  const auto down = after(*node, link_message({.up = false, .pkey = 0xffff}));
  EXPECT_FALSE(down.port_shared);
  EXPECT_EQ(down.port_users, (std::vector<std::string>{"ib0 down"}));
  EXPECT_TRUE(after(*node, link_message({.pkey = 0xffff}, RTM_DELLINK)).port_users.empty());
}

TEST_F(PortUsers, U33_KeyDecidesForTheLink) {
  auto c = config();
  c.links[0].shared_port = link::SharedPort::kYes;
  const auto node = make(c);
  ASSERT_TRUE(node);
  EXPECT_TRUE(after(*node, {}).port_shared);
}

TEST(KernelInterfaces, UnderstandTheAnswersOfTheKernel) {
  KernelInterfaces all;
  const TimePoint now{};
  const auto listener =
      kernel::NetlinkListener::open(KernelInterfaces::subscription(), "", all, now);
  if (!listener) GTEST_SKIP() << listener.error().what;
  for (int i = 0; i < 1000 && (*listener)->reader().snapshots() == 0; ++i) {
    pollfd ready{(*listener)->fd(), POLLIN, 0};
    poll(&ready, 1, 100);
    EXPECT_TRUE((*listener)->receive(now));
  }
  EXPECT_EQ((*listener)->reader().snapshots(), 1U);
}

}  // namespace
}  // namespace ipoib::mgmt
