// SPDX-License-Identifier: BSD-3-Clause
// Queries for second paths, whose answers the test writes.
#include "lib/link/ipoib/paths/second_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/sa/queries.h"
#include "lib/sa/sa_mad.h"
#include "lib/wire/sa_records.h"
#include "tests/support/link_fakes.h"

namespace ipoib::link {
namespace {

const wire::Gid kPeer = wire::Gid::of(wire::kDefaultGidPrefix, 0x77);

class SecondPathsTest : public testing::Test {
 protected:
  void SetUp() override {
    actions.attr.lmc = 2;
    client.set_sm(1, 0, now);
  }
  void ask(std::uint16_t first, std::uint8_t src_path_bits = 0) {
    fabric::AhAttr attr;
    attr.dlid = first;
    attr.src_path_bits = src_path_bits;
    paths.ask(
        kPeer, attr, 4,
        [this](const std::optional<PathTable::ReadyPath>& path, TimePoint) {
          answers.push_back(path);
        },
        now);
  }
  /// The SA's answer to the last query.
  void answer(const wire::PathRecord& record) {
    wire::SaMad mad = sent.back();
    mad.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kGetResp);
    std::ranges::copy(wire::bytes_of(record), mad.data.begin());
    fabric::ReceivedMad received;
    received.from = {.lid = 1, .qpn = 1};
    std::ranges::copy(wire::bytes_of(mad), received.bytes.begin());
    EXPECT_TRUE(client.on_mad(received, now));
  }
  [[nodiscard]] wire::PathRecord asked() const {
    return wire::read<wire::PathRecord>(sent.at(sent.size() - 1).data).value();
  }

  TimePoint now{std::chrono::seconds(10)};
  FakeNeighbourSink sink;
  FakeLinkActions actions{sink};
  std::vector<wire::SaMad> sent;
  sa::Client client{
      [this](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> mad) {
        sent.push_back(wire::read<wire::SaMad>(mad).value());
        return Status{};
      },
      {},
      1};
  SecondPaths paths{0xffff, actions, client};
  std::vector<std::optional<PathTable::ReadyPath>> answers;
};

TEST_F(SecondPathsTest, C15_TheNextLidsOfBothPortsAreAskedFor) {
  ask(0x20);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(asked().dlid.host(), 0x21);
  EXPECT_EQ(asked().slid.host(), actions.attr.lid_with(1));
  EXPECT_EQ(asked().dgid, kPeer);
  EXPECT_EQ(sent[0].hdr.comp_mask.host() & wire::PathRecord::kDlid, wire::PathRecord::kDlid);
  ask(0x23, 3);
  EXPECT_EQ(asked().dlid.host(), 0x20);
  EXPECT_EQ(asked().slid.host(), actions.attr.lid_with(0));
}

TEST_F(SecondPathsTest, C15_APathOfASmallerMtuIsNone) {
  for (const std::uint8_t mtu : std::initializer_list<std::uint8_t>{3, 4}) {
    ask(0x20);
    wire::PathRecord record = asked();
    record.mtu = wire::with_selector(wire::Selector::kExactly, mtu);
    answer(record);
  }
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_FALSE(answers[0]);
  ASSERT_TRUE(answers[1]);
  EXPECT_EQ(answers[1]->attr.dlid, 0x21);
  EXPECT_EQ(answers[1]->attr.src_path_bits, 1);
}

TEST_F(SecondPathsTest, C15_PortsWithOneLidHaveNoSecondPath) {
  actions.attr.lmc = 0;
  ask(0x20);
  EXPECT_TRUE(sent.empty());
}

TEST_F(SecondPathsTest, C15_AnSaThatHasNoneSaysSoAndFurtherQueriesWait) {
  for (std::size_t i = 0; i < SecondPaths::kMaxQueries + 5; ++i) ask(0x20);
  EXPECT_EQ(sent.size(), SecondPaths::kMaxQueries);
  client.shutdown(now);
  client.tick(now);
  EXPECT_EQ(answers.size(), SecondPaths::kMaxQueries + 5);
  for (const auto& path : answers) EXPECT_FALSE(path);
}

}  // namespace
}  // namespace ipoib::link
