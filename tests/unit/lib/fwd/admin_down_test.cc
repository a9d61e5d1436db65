// SPDX-License-Identifier: BSD-3-Clause
// Interfaces that an operator took down receive nothing; interfaces that are coming up do receive.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <thread>

#include "tests/support/fake_connected_queues.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

class AdminDown : public WorkerFixture {
 protected:
  void SetUp() override {
    WorkerFixture::SetUp();
    connect(kIb0, messages);
    start();
    set_neighbour(0, eth_neighbour(kEth1, "192.168.2.10", mac(0x20)));
    set_neighbour(1, ib_neighbour(kIb1, "10.1.0.2", 8, 1));
    loop();
  }
  /// Sends packets that a worker would forward, deliver or punt, one of each kind.
  void send_everything() {
    for (const char* dst : {"192.168.2.10", "10.1.0.2", "192.168.1.1", "10.99.0.1"}) {
      receive(kEth0, to_eth0(Ip4{.dst = dst}.bytes()));
      receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = dst}.bytes()));
      rte_mbuf* const m = mbuf(to_link(Ip4{.src = "10.0.0.2", .dst = dst}.bytes()));
      fabric::meta_of(m).rx = {};
      fabric::meta_of(m).rx.transport = fabric::Transport::kRc;
      messages.incoming.push_back(m);
    }
    receive(kEth0, ethernet(kBroadcastMac, mac(0x10), 0x0806, Bytes(28)));
    receive(kIb0, encapsulated(0x0806, Bytes(56)), true);
  }

  FakeReceiveQueue messages;
};

TEST_F(AdminDown, WhatComesIsDroppedAndCountedInEveryMode) {
  for (const table::InterfaceId iface : {kEth0, kIb0}) {
    entries[iface].up = false;
    entries[iface].admin_down = true;
  }
  for (std::size_t mode = 0; mode < kForwardModeNames.size(); ++mode) {
    settings.mode = static_cast<ForwardMode>(mode);
    for (const bool forwarding : {true, false}) {
      settings.forwarding = forwarding;
      const auto eth = drops(kEth0, Drop::kInterfaceDown), ib = drops(kIb0, Drop::kInterfaceDown);
      send_everything();
      loop();
      EXPECT_EQ(drops(kEth0, Drop::kInterfaceDown) - eth, 5U) << kForwardModeNames[mode];
      EXPECT_EQ(drops(kIb0, Drop::kInterfaceDown) - ib, 9U) << "datagrams and messages";
      EXPECT_EQ(all_drops(), drops(kEth0, Drop::kInterfaceDown) + drops(kIb0, Drop::kInterfaceDown))
          << "under no other name";
      EXPECT_TRUE(punted().empty());
      for (const table::InterfaceId port : {kEth0, kEth1})
        EXPECT_TRUE(sent_by_port(port).empty()) << kForwardModeNames[mode];
      for (const table::InterfaceId link : {kIb0, kIb1}) EXPECT_TRUE(sent_by_link(link).empty());
    }
  }
}

TEST_F(AdminDown, OtherInterfacesGoOn) {
  entries[kEth0].up = false;
  entries[kEth0].admin_down = true;
  feed(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "192.168.2.10"}.bytes()));
  EXPECT_EQ(sent_by_port(kEth1).size(), 1U);
  EXPECT_EQ(all_drops(), 0U);
}

/// A link that is still joining needs ARP and neighbour discovery before it is up.
TEST_F(AdminDown, OnItsWayUpAnInterfaceReceives) {
  entries[kIb0].up = false;
  receive(kIb0, encapsulated(0x0806, Bytes(56)), true);
  receive(kIb0, to_link(Ip4{.src = "10.0.0.2", .dst = "10.0.0.1"}.bytes()));
  loop();
  const auto up_messages = punted();
  ASSERT_EQ(up_messages.size(), 2U);
  EXPECT_EQ(up_messages[0].message.kind, msg::Up::Kind::kArp);
  EXPECT_EQ(up_messages[1].message.kind, msg::Up::Kind::kLocal);
  EXPECT_EQ(all_drops(), 0U);
}

/// ICMP errors carry the MTU of an interface that is up. set_up() therefore stores the MTU first,
/// and keeps it when the interface goes down.
TEST(InterfaceState, WhoSeesItUpSeesItsMtu) {
  InterfaceEntry entry;
  std::atomic<bool> done{false};
  std::uint64_t without = 0;
  std::thread worker{[&] {
    while (!done.load(std::memory_order_relaxed))
      if (entry.is_up() && entry.mtu.load(std::memory_order_relaxed) == 0) ++without;
  }};
  for (unsigned i = 0; i < 1000; ++i) {
    entry.set_up(true, 2044);
    EXPECT_TRUE(entry.is_up());
    EXPECT_EQ(entry.mtu, 2044);
    entry.set_up(false, 0);
    EXPECT_FALSE(entry.is_up());
    EXPECT_EQ(entry.mtu, 2044) << "a worker that saw it up a moment ago reads this now";
  }
  done = true;
  worker.join();
  EXPECT_EQ(without, 0U);
  entry.set_up(true, 1500);
  EXPECT_EQ(entry.mtu, 1500);
}

/// A page of memory that records the address of the first write after each watch().
class WatchedPage {
 public:
  WatchedPage()
      : size_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))},
        memory_{mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)} {
    watched_ = this;
    struct sigaction action {};
    action.sa_sigaction = &WatchedPage::touched;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~WatchedPage() {
    watched_ = nullptr;
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(memory_, size_);
  }
  WatchedPage(const WatchedPage&) = delete;
  WatchedPage& operator=(const WatchedPage&) = delete;

  [[nodiscard]] void* memory() const { return memory_; }
  void watch() {
    first_ = nullptr;
    mprotect(memory_, size_, PROT_READ);
  }
  [[nodiscard]] const void* first_written() const { return first_; }

 private:
  static void touched(int signal, siginfo_t* what, void* /*context*/) {
    WatchedPage* const page = watched_;
    const auto* const at = static_cast<const std::byte*>(what->si_addr);
    const auto* const begin = page == nullptr ? nullptr : static_cast<std::byte*>(page->memory_);
    if (page == nullptr || at < begin || at >= begin + page->size_) {
      std::signal(signal,
                  SIG_DFL);  // a real fault: the instruction runs again and ends the program
      return;
    }
    page->first_ = at;
    mprotect(page->memory_, page->size_, PROT_READ | PROT_WRITE);
  }

  static inline WatchedPage* watched_ = nullptr;
  std::size_t size_;
  void* memory_;
  const void* first_ = nullptr;
  struct sigaction before_ {};
};

/// A second thread would almost never read between the two stores, so the test watches their order
/// through page faults.
TEST(InterfaceState, TheMtuIsThereBeforeTheInterfaceIsUp) {
  WatchedPage page;
  auto* const entry = new (page.memory()) InterfaceEntry;
  page.watch();
  entry->set_up(true, 2044);
  EXPECT_EQ(page.first_written(), &entry->mtu);
  EXPECT_TRUE(entry->is_up());
  EXPECT_EQ(entry->mtu, 2044);
  page.watch();
  entry->set_up(false, 0);
  EXPECT_EQ(page.first_written(), &entry->up) << "the MTU stays";
  page.watch();
  entry->set_up(false, 0);
  EXPECT_EQ(page.first_written(), nullptr) << "nothing has changed";
}

}  // namespace
}  // namespace ipoib::fwd::test
