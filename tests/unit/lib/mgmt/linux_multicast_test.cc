// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/linux_multicast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/addresses.h"
#include "tests/support/packets.h"
#include "tests/unit/lib/mgmt/fake_interface.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;
using std::chrono::seconds;
using table::ForLinux;
using wire::IpAddr;

constexpr std::int32_t kEth = 11, kIb = 12, kRegister = 13;  ///< Indices in Linux.

/// The deliveries of workers.
struct Deliveries final : route::DeliverySink {
  void set(const table::Delivery& d) override {
    ++writes;
    entries[{d.in, d.source}] = d;
  }
  void remove(table::InterfaceId in, const IpAddr&, const IpAddr& source) override {
    EXPECT_EQ(entries.erase({in, source}), 1U);
  }
  [[nodiscard]] table::Delivery lookup(table::InterfaceId in, const IpAddr& source) const {
    auto it = entries.find({in, source});
    if (it == entries.end()) it = entries.find({in, IpAddr{}});
    return it != entries.end() ? it->second : table::Delivery{};
  }

  std::map<std::pair<table::InterfaceId, IpAddr>, table::Delivery> entries;
  std::size_t writes = 0;
};

/// Two interfaces with mirrors, 0 and 1.
struct LinuxMulticastTest : testing::Test {
  LinuxMulticastTest() {
    for (FakeInterface* control : {&eth, &ib}) {
      InterfaceSlot& slot = interfaces.add({0});
      slot.control = control;
    }
    interfaces.find(table::InterfaceId{0})->usable = {*wire::parse_prefix("192.168.1.1/24")};
  }
  Status set(const IpAddr& source, std::int32_t in, std::vector<std::int32_t> out) {
    return linux.set({kGroup, source, 253, in, std::move(out)}, now);
  }
  [[nodiscard]] bool is_copy(const IpAddr& source, const IpAddr& group) const {
    return linux.is_copy(fwd::test::ip_packet(source, group, 17, std::array<std::byte, 8>{}));
  }
  [[nodiscard]] table::Delivery at(table::InterfaceId in) const { return sink.lookup(in, kSource); }

  const IpAddr kGroup = ip("239.1.1.1"), kSource = ip("192.168.1.9");
  TimePoint now{seconds(1'000)};
  FakeInterface eth, ib;
  InterfaceTable interfaces;
  Deliveries sink;
  route::MulticastTable table{{}, sink};
  std::map<std::int32_t, table::InterfaceId> mirrors{{kEth, 0}, {kIb, 1}};
  LinuxMulticast linux{interfaces, table,
                       [this](std::int32_t ifindex) -> std::optional<table::InterfaceId> {
                         const auto it = mirrors.find(ifindex);
                         return it != mirrors.end() ? std::optional{it->second} : std::nullopt;
                       }};
};

TEST_F(LinuxMulticastTest, P17_IndicesOfLinuxBecomeInterfaces) {
  ASSERT_TRUE(set(kSource, kEth, {kIb}));
  EXPECT_EQ(at(0).out, 0b10U);
  EXPECT_EQ(at(0).for_linux, ForLinux::kSample);
  ASSERT_TRUE(set(kSource, kEth, {kIb, kRegister}));
  EXPECT_EQ(at(0).out, 0b10U);
  EXPECT_EQ(at(0).for_linux, ForLinux::kAll) << "Linux sends registers";
  ASSERT_TRUE(set(kSource, kEth, {kEth}));
  EXPECT_EQ(at(0).for_linux, ForLinux::kSample) << "the incoming interface is no place to go";
  linux.remove(kGroup, kSource, now);
  EXPECT_TRUE(sink.entries.empty());
  linux.remove(kGroup, kSource, now);
  EXPECT_EQ(linux.size(), 0U);
}

/// Each packet is forwarded by workers or by Linux, and not by both.
TEST_F(LinuxMulticastTest, P17_CopiesAreThoseOfPacketsThatWorkersForward) {
  EXPECT_FALSE(is_copy(kSource, kGroup)) << "Linux may have an entry that is not known here yet";
  ASSERT_TRUE(set(kSource, kEth, {kIb}));
  EXPECT_TRUE(is_copy(kSource, kGroup));
  EXPECT_FALSE(is_copy(ip("192.168.1.1"), kGroup)) << "of a program on this node";
  EXPECT_FALSE(is_copy(ip("192.168.1.8"), kGroup));
  EXPECT_FALSE(is_copy(kSource, ip("239.1.1.2")));
  ASSERT_TRUE(set(kSource, kRegister, {kIb}));
  EXPECT_FALSE(is_copy(kSource, kGroup)) << "from a register";
  EXPECT_EQ(at(0).out, 0U);
  ASSERT_TRUE(set({}, kEth, {kIb}));
  EXPECT_FALSE(is_copy(kSource, kGroup)) << "its own entry counts";
  EXPECT_TRUE(is_copy(ip("192.168.1.8"), kGroup));
}

TEST_F(LinuxMulticastTest, P17_IndexOfALostMirrorMeansNothing) {
  ASSERT_TRUE(set(kSource, kEth, {kIb}));
  mirrors.erase(kEth);
  linux.mirrors_changed(now);
  EXPECT_EQ(at(0).out, 0U);
  EXPECT_FALSE(is_copy(kSource, kGroup));
  mirrors = {{kEth, 0}};
  linux.mirrors_changed(now);
  EXPECT_EQ(at(0).out, 0U);
  EXPECT_EQ(at(0).for_linux, ForLinux::kAll) << "what was the mirror of ib0 is Linux's own now";
}

TEST_F(LinuxMulticastTest, P17_ImpossibleEntriesAreRefused) {
  EXPECT_FALSE(linux.set({ip("224.0.0.13"), kSource, 253, kEth, {kIb}}, now));
  EXPECT_FALSE(is_copy(kSource, ip("224.0.0.13"))) << "workers do not forward it";
  EXPECT_TRUE(sink.entries.empty());
  linux.remove(ip("224.0.0.13"), kSource, now);
}

/// pimd looks at the counters of the kernel each 31 seconds.
TEST_F(LinuxMulticastTest, P17_EachEntryIsSampledInTime) {
  constexpr std::size_t kEntries = 95;
  for (std::uint32_t i = 0; i < kEntries; ++i)
    ASSERT_TRUE(set(IpAddr::v4(0x0a00'0100 + i), kEth, {kIb}));
  const std::size_t writes = sink.writes;
  const TimePoint end = now + LinuxMulticast::kSampleInterval;
  std::size_t most = 0;
  for (; now < end; now += std::chrono::milliseconds(100)) {
    const std::size_t before = sink.writes;
    linux.tick(now);
    most = std::max(most, sink.writes - before);
  }
  EXPECT_GE(sink.writes - writes, kEntries);
  EXPECT_LE(most, kEntries / 10 + 1) << "paced";
}

}  // namespace
}  // namespace ipoib::mgmt
