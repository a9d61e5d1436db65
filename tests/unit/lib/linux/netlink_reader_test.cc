// SPDX-License-Identifier: BSD-3-Clause
#include "lib/linux/netlink_reader.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>

namespace ipoib::kernel {
namespace {

using Octets = std::vector<std::byte>;

constexpr NetlinkDump kLinks{RTM_GETLINK, AF_UNSPEC, sizeof(ifinfomsg)};
constexpr NetlinkDump kRoutes{RTM_GETROUTE, AF_INET, sizeof(rtmsg)};

/// A message with a payload of one number.
Octets message(std::uint16_t type, std::uint32_t sequence, std::int32_t payload = 0,
               std::uint16_t flags = NLM_F_MULTI) {
  const nlmsghdr header{NLMSG_LENGTH(sizeof payload), type, flags, sequence, 0};
  Octets octets(header.nlmsg_len);
  std::memcpy(octets.data(), &header, sizeof header);
  std::memcpy(octets.data() + sizeof header, &payload, sizeof payload);
  return octets;
}

Octets done(std::uint32_t sequence, std::int32_t error = 0) {
  return message(NLMSG_DONE, sequence, error);
}

/// Writes each call as a letter: Begin, Message, End, Loss.
struct Diary : NetlinkSink {
  void on_snapshot_begin() override { text += 'B'; }
  void on_message(const nlmsghdr& message) override {
    text += 'M';
    types.push_back(message.nlmsg_type);
  }
  void on_snapshot_end() override { text += 'E'; }
  void on_loss() override { text += 'L'; }
  [[nodiscard]] bool in_doubt() const override { return doubt; }

  std::string text;
  bool doubt = false;
  std::vector<std::uint16_t> types;
};

struct NetlinkReaderTest : ::testing::Test {
  /// Begins a snapshot. Returns the sequence number of its first dump.
  std::uint32_t begin() {
    reader.begin_snapshot();
    const auto request = reader.take_request();
    EXPECT_TRUE(request);
    return request ? request->sequence : 0;
  }

  Diary diary;
  NetlinkReader reader{diary, {kLinks, kRoutes}};
};

TEST_F(NetlinkReaderTest, SnapshotIsOneDumpAfterTheOther) {
  EXPECT_TRUE(reader.needs_snapshot());
  reader.begin_snapshot();
  const auto links = reader.take_request();
  ASSERT_TRUE(links);
  EXPECT_EQ(links->type, RTM_GETLINK);
  EXPECT_FALSE(reader.take_request()) << "the kernel makes one dump of a socket at a time";
  reader.take(message(RTM_NEWLINK, links->sequence));
  reader.take(done(links->sequence));
  const auto routes = reader.take_request();
  ASSERT_TRUE(routes);
  EXPECT_EQ(routes->type, RTM_GETROUTE);
  EXPECT_NE(routes->sequence, links->sequence);
  reader.take(done(links->sequence));  // an answer of the former dump
  EXPECT_TRUE(reader.in_snapshot());
  reader.take(message(RTM_NEWROUTE, routes->sequence));
  reader.take(done(routes->sequence));
  EXPECT_EQ(diary.text, "BMME");
  EXPECT_EQ(reader.snapshots(), 1U);
  EXPECT_FALSE(reader.in_snapshot());
  EXPECT_FALSE(reader.needs_snapshot());
  EXPECT_FALSE(reader.take_request());
}

TEST_F(NetlinkReaderTest, ChangesStayInTheirOrder) {
  const std::uint32_t sequence = begin();
  Octets datagram = message(RTM_NEWLINK, sequence);
  for (const std::uint16_t type : {RTM_DELLINK, RTM_NEWADDR}) {
    const Octets change = message(type, 0, 0, 0);
    datagram.insert(datagram.end(), change.begin(), change.end());
  }
  EXPECT_EQ(reader.take(datagram), 3U);
  EXPECT_EQ(diary.types, (std::vector<std::uint16_t>{RTM_NEWLINK, RTM_DELLINK, RTM_NEWADDR}));
}

TEST_F(NetlinkReaderTest, InterruptedSnapshotIsRepeated) {
  const std::uint32_t sequence = begin();
  reader.take(message(RTM_NEWLINK, sequence, 0, NLM_F_MULTI | NLM_F_DUMP_INTR));
  EXPECT_FALSE(reader.needs_snapshot()) << "not before its end";
  reader.take(done(sequence));
  EXPECT_TRUE(reader.needs_snapshot());
  EXPECT_FALSE(reader.take_request()) << "the other dumps would be in vain";
  EXPECT_EQ(diary.text, "BM");
}

TEST_F(NetlinkReaderTest, FailedSnapshotIsRepeated) {
  EXPECT_EQ(reader.error(), 0);
  reader.take(done(begin(), -EBUSY));
  EXPECT_TRUE(reader.needs_snapshot());
  EXPECT_EQ(reader.error(), EBUSY);
  reader.take(message(NLMSG_ERROR, begin(), -EPERM));
  EXPECT_TRUE(reader.needs_snapshot());
  EXPECT_EQ(reader.error(), EPERM);
  begin();
  reader.give_up(ETIMEDOUT);
  EXPECT_TRUE(reader.needs_snapshot());
  EXPECT_EQ(reader.error(), ETIMEDOUT);
  EXPECT_EQ(diary.text, "BBB");
  EXPECT_EQ(reader.snapshots(), 0U);
}

TEST_F(NetlinkReaderTest, LossDuringASnapshotRepeatsIt) {
  const std::uint32_t sequence = begin();
  reader.lose();
  EXPECT_FALSE(reader.needs_snapshot());
  reader.take(done(sequence));
  EXPECT_TRUE(reader.needs_snapshot());
  EXPECT_EQ(diary.text, "BL");
}

TEST_F(NetlinkReaderTest, LengthBeyondTheDatagramIsNoMessage) {
  Octets octets = message(RTM_NEWLINK, 0);
  for (std::size_t len = 0; len < octets.size(); ++len)
    EXPECT_EQ(reader.take(std::span{octets}.first(len)), 0U);
  // The last two are negative as signed numbers.
  for (const std::uint32_t len : {0U, 15U, 21U, 0x8000'0000U, 0xffff'fff0U}) {
    std::memcpy(octets.data(), &len, sizeof len);
    EXPECT_EQ(reader.take(octets), 0U) << len;
  }
  EXPECT_EQ(diary.text, "");
}

TEST_F(NetlinkReaderTest, DamagedMessagesDoNoHarm) {
  Octets good = message(RTM_NEWLINK, 1);
  for (const Octets& more : {message(RTM_NEWLINK, 1), done(1), message(NLMSG_ERROR, 1)})
    good.insert(good.end(), more.begin(), more.end());
  std::mt19937 random{1};
  for (int i = 0; i < 20'000; ++i) {
    Octets bad = good;
    for (int n = 0; n < 3; ++n) bad[random() % bad.size()] = static_cast<std::byte>(random());
    EXPECT_LE(reader.take(bad), 5U);
    if (reader.needs_snapshot()) reader.begin_snapshot();
    static_cast<void>(reader.take_request());
  }
}

TEST_F(NetlinkReaderTest, DoubtOfTheSinkNeedsASnapshot) {
  for (int i = 0; i < 2; ++i) {
    reader.take(done(begin()));
    EXPECT_FALSE(reader.needs_snapshot()) << "it is on its way";
    reader.take(done(reader.take_request()->sequence));
    EXPECT_EQ(reader.needs_snapshot(), diary.doubt);
    diary.doubt = true;
    EXPECT_TRUE(reader.needs_snapshot());
  }
}

}  // namespace
}  // namespace ipoib::kernel
