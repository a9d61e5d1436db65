// SPDX-License-Identifier: BSD-3-Clause
// MADs of a port with Ethernet link layer: MADs to the own port return directly, others go to GIDs.
#include "drivers/umad/gid_mad_port.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/drivers/umad/fake_umad.h"

namespace ipoib::umad {
namespace {

const auto kPeer = wire::Gid::of(wire::kDefaultGidPrefix, 0x0202'c9ff'fe0a'0b09);

fabric::MadBytes mad(std::uint8_t mgmt_class, std::uint8_t method) {
  wire::MadHdr header{};
  header.base_version = wire::kMadBaseVersion;
  header.mgmt_class = mgmt_class;
  header.method = method;
  header.tid.set(0x0102'0304'0506'0708);
  fabric::MadBytes bytes{};
  std::memcpy(bytes.data(), &header, sizeof(header));
  bytes.back() = std::byte{0x5a};
  return bytes;
}
const fabric::MadBytes kReq = mad(0x07, 0x03);

Arrived from_peer(std::span<const std::byte> bytes) {
  Arrived arrived = arrived_from(0, bytes);
  arrived.from.gid = kPeer;
  arrived.from.gid_index = 5;
  return arrived;
}

class GidMads : public testing::Test {
 protected:
  void start(GidMadConfig config = {.device = "fake0"}) {
    config.first_retry = std::chrono::milliseconds(1);
    config.max_retry = std::chrono::milliseconds(4);
    port_ = std::make_unique<GidMadPort>(std::move(config), std::move(owned_));
  }
  void start_open() {
    start();
    until([this] { return port_->problem().empty(); });
  }
  template <class Condition>
  void until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << port_->problem();
      std::this_thread::yield();
    }
  }
  /// Returns all MADs that have arrived.
  std::vector<fabric::ReceivedMad> received() {
    std::vector<fabric::ReceivedMad> mads;
    until([&] {
      while (auto m = port_->receive()) mads.push_back(std::move(*m));
      return fake_.idle() && !port_->pending();
    });
    return mads;
  }
  /// Waits for `n` MADs that the thread sent, and returns them.
  std::vector<Sent> sent(std::size_t n) {
    std::vector<Sent> all;
    until([&] {
      for (Sent& s : fake_.take_sent()) all.push_back(std::move(s));
      return all.size() >= n;
    });
    return all;
  }
  [[nodiscard]] std::uint64_t count(std::string_view name) const {
    for (const auto& [key, value] : port_->counters())
      if (key == name) return value;
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  std::unique_ptr<FakeUmad> owned_ = std::make_unique<FakeUmad>();
  FakeUmad& fake_ = *owned_;
  std::unique_ptr<GidMadPort> port_;
};

// There is no subnet manager to query, and no QP0.
TEST_F(GidMads, RegistersForConnectionsAlone) {
  start_open();
  fake_.set([](FakeUmad& f) {
    ASSERT_EQ(f.registered_.size(), 1U);
    EXPECT_EQ(f.registered_.at(0x07).request_methods, 1U << 3) << "Send";
  });
}

TEST_F(GidMads, GoToGids) {
  start_open();
  ASSERT_TRUE(port_->send({.lid = fabric::kElsewhereLid, .sl = 3, .gid = kPeer}, kReq));
  const auto sent = this->sent(1);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].mad, kReq);
  EXPECT_EQ(sent[0].to.gid, kPeer);
  EXPECT_EQ(sent[0].to.gid_index, 0);
  EXPECT_EQ(sent[0].to.lid, 0) << "there is none";
  EXPECT_EQ(sent[0].to.sl, 3);
  EXPECT_EQ(sent[0].to.qpn, 1U);
  EXPECT_EQ(sent[0].to.pkey_index, 0);
  EXPECT_EQ(sent[0].qkey, wire::kGsiQkey);
  until([this] { return count("sent") == 1; });
}

TEST_F(GidMads, NameTheConfiguredGid) {
  start({.device = "fake0", .gid_index = 3});
  until([this] { return port_->problem().empty(); });
  ASSERT_TRUE(port_->send({.lid = fabric::kElsewhereLid, .gid = kPeer}, kReq));
  EXPECT_EQ(sent(1).at(0).to.gid_index, 3);
}

TEST_F(GidMads, ComeFromElsewhere) {
  start_open();
  fake_.arrive(from_peer(kReq));
  const auto mads = received();
  ASSERT_EQ(mads.size(), 1U);
  EXPECT_EQ(mads[0].bytes, kReq);
  EXPECT_EQ(mads[0].from.lid, fabric::kElsewhereLid);
  EXPECT_EQ(mads[0].from.gid, kPeer);
  EXPECT_EQ(mads[0].from.qpn, 1U);
  EXPECT_EQ(mads[0].from.pkey, wire::kDefaultPkey);
  // An answer goes back to the same GID.
  ASSERT_TRUE(port_->send(mads[0].from, kReq));
  EXPECT_EQ(sent(1).at(0).to.gid, kPeer);
}

// Queries of the node to its own administrator, and the answers, need no device.
TEST_F(GidMads, OwnOnesComeBack) {
  fake_.open_error_ = Error{Errc::kUnavailable, "the kernel does not support umad: load ib_umad"};
  start({.device = "fake0", .max_queued = 2});
  const auto request = mad(0x03, 0x02);
  ASSERT_TRUE(port_->send({.lid = fabric::kOwnLid, .sl = 1, .answer_ms = 500}, request));
  ASSERT_TRUE(port_->send({.lid = fabric::kOwnLid, .gid = kPeer}, kReq));
  EXPECT_TRUE(port_->pending());
  EXPECT_EQ(port_->send({.lid = fabric::kOwnLid}, request).error().code, Errc::kUnavailable);
  auto own = port_->receive();
  ASSERT_TRUE(own);
  EXPECT_EQ(own->bytes, request);
  EXPECT_EQ(own->from.lid, fabric::kOwnLid);
  EXPECT_EQ(own->from.sl, 1);
  EXPECT_EQ(own->from.qpn, 1U);
  EXPECT_EQ(own->from.pkey, wire::kDefaultPkey);
  EXPECT_FALSE(own->whole) << "tables come in segments, as they were sent";
  own = port_->receive();
  ASSERT_TRUE(own);
  EXPECT_EQ(own->bytes, kReq);
  EXPECT_FALSE(port_->pending());
  EXPECT_FALSE(port_->receive());
  EXPECT_EQ(count("local"), 2U);
  EXPECT_EQ(count("sent"), 0U);
}

TEST_F(GidMads, AddressesThatCannotBeAreRefused) {
  start_open();
  for (const fabric::MadAddress& to :
       {fabric::MadAddress{.lid = fabric::kElsewhereLid},
        fabric::MadAddress{.lid = fabric::kElsewhereLid, .gid = wire::Gid::of(0xff12ULL << 48, 1)},
        fabric::MadAddress{.lid = 0, .gid = kPeer}, fabric::MadAddress{.lid = 3, .gid = kPeer},
        fabric::MadAddress{.lid = fabric::kOwnLid, .qpn = 2},
        fabric::MadAddress{.lid = fabric::kElsewhereLid, .sl = 16, .gid = kPeer},
        fabric::MadAddress{.lid = fabric::kElsewhereLid, .pkey = 0x8001, .gid = kPeer}})
    EXPECT_EQ(port_->send(to, kReq).error().code, Errc::kInvalidArgument) << to.lid;
  // No agent has registered this class.
  EXPECT_TRUE(port_->send({.lid = fabric::kElsewhereLid, .gid = kPeer}, mad(0x03, 0x01)));
  until([this] { return count("send_failed") == 1; });
  EXPECT_TRUE(fake_.take_sent().empty());
}

// The kernel resolves a GID over the network, and its caller blocks meanwhile.
TEST_F(GidMads, NobodyWaitsForOneThatTakesItsTime) {
  start({.device = "fake0", .max_queued = 2});
  until([this] { return port_->problem().empty(); });
  const fabric::MadAddress peer{.lid = fabric::kElsewhereLid, .gid = kPeer};
  fake_.hold_sends(true);
  ASSERT_TRUE(port_->send(peer, kReq));
  until([this] { return fake_.sending(); });
  ASSERT_TRUE(port_->send(peer, kReq));
  ASSERT_TRUE(port_->send(peer, kReq));
  EXPECT_EQ(port_->send(peer, kReq).error().code, Errc::kUnavailable) << "two wait already";
  // The port still receives meanwhile.
  fake_.arrive(from_peer(kReq));
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(port_->problem(), "");
  fake_.hold_sends(false);
  EXPECT_EQ(sent(3).size(), 3U);
  EXPECT_EQ(count("send_failed"), 0U);
}

TEST_F(GidMads, WhatNobodyServesIsRefused) {
  start_open();
  fake_.arrive(from_peer(mad(0x07, 0x01)));  // ClassPortInfo
  fake_.arrive(from_peer(mad(0x07, 0x81)));  // an answer
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(count("unserved"), 2U);
  const auto sent = this->sent(1);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].header().method, 0x81);
  EXPECT_EQ(sent[0].header().status.host(), 0x000c);
  EXPECT_EQ(sent[0].to.gid, kPeer);
  EXPECT_EQ(sent[0].to.gid_index, 5) << "as it was asked";
}

TEST_F(GidMads, WhatCannotBeIsCounted) {
  start_open();
  fake_.arrive(arrived_from(0, kReq));  // without a GRH
  fake_.arrive(from_peer(std::span{kReq}.first(23)));
  Arrived returned = from_peer(kReq);
  returned.status = ETIMEDOUT;
  fake_.arrive(returned);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(count("malformed"), 2U);
  EXPECT_EQ(count("undeliverable"), 1U);
  EXPECT_EQ(count("received"), 3U);
}

TEST_F(GidMads, TellOfTheDeviceThatIsNotThere) {
  fake_.open_error_ = Error{Errc::kNotFound, "no umad device fake0"};
  start();
  until([this] { return port_->problem() == "no umad device fake0"; });
  const auto sent = port_->send({.lid = fabric::kElsewhereLid, .gid = kPeer}, kReq);
  EXPECT_EQ(sent.error().code, Errc::kUnavailable);
  EXPECT_EQ(sent.error().what, "MAD to fe80::202:c9ff:fe0a:b09: no umad device fake0");
  fake_.set([](FakeUmad& f) { f.open_error_.reset(); });
  until([this] { return port_->problem().empty(); });
  fake_.set([](FakeUmad& f) { f.receive_error_ = EIO; });
  until([this] { return count("device_lost") == 1; });
  until([this] { return port_->problem().empty(); });
}

}  // namespace
}  // namespace ipoib::umad
