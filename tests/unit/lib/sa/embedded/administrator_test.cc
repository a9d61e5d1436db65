// SPDX-License-Identifier: BSD-3-Clause
#include "lib/sa/embedded/administrator.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "lib/wire/iba.h"
#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {
namespace {

using wire::Attr;
using wire::Method;
using wire::SaMad;

/// Returns everything that a request may change, as text: groups with attributes and members,
/// ports.
std::string state_of(const Administrator& sa) {
  std::string text;
  const auto add = [&text](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (const auto& [mgid, group] : sa.groups()) {
    add(wire::bytes_of(group.record));
    for (const auto& [gid, bits] : group.members) {
      add(wire::bytes_of(gid));
      text += static_cast<char>(bits);
    }
  }
  for (const auto& [gid, port] : sa.ports()) {
    add(wire::bytes_of(gid));
    text += std::to_string(port.lid);
    for (const std::uint16_t p : port.partitions) text += std::to_string(p);
  }
  return text;
}

class DispatchTest : public AdministratorFixture {
 protected:
  static SaMad good() { return request_mad(find_group(kBroadcast), 0x1234'5678'9abc'def0); }
};

TEST_F(DispatchTest, AnswerKeepsWhatTheAskerKnowsItBy) {
  const SaMad request = good();
  const auto answer = exchange(request, kLidB);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hdr.mad.tid, request.hdr.mad.tid);
  EXPECT_EQ(answer->hdr.mad.attr_id, request.hdr.mad.attr_id);
  EXPECT_EQ(answer->hdr.comp_mask, request.hdr.comp_mask);
  EXPECT_EQ(answer->hdr.mad.method, 0x81);
  EXPECT_EQ(answer->hdr.attr_offset.host(), 7);
}

TEST_F(DispatchTest, WhatIsNoRequestGetsNoAnswer) {
  struct Row {
    const char* what;
    void (*spoil)(SaMad&);
    std::uint64_t AdministratorCounters::*counter;
  };
  const Row rows[] = {
      {"class", [](SaMad& m) { m.hdr.mad.mgmt_class = 7; }, &AdministratorCounters::ignored_class},
      {"answer", [](SaMad& m) { m.hdr.mad.method = 0x81; },
       &AdministratorCounters::ignored_no_request},
      {"bad version of an answer",
       [](SaMad& m) { m.hdr.mad.method = 0x81, m.hdr.mad.class_version = 1; },
       &AdministratorCounters::ignored_no_request},
      {"send", [](SaMad& m) { m.hdr.mad.method = 0x03; },
       &AdministratorCounters::ignored_no_request},
      {"trap", [](SaMad& m) { m.hdr.mad.method = 0x05; },
       &AdministratorCounters::ignored_no_request},
      {"report", [](SaMad& m) { m.hdr.mad.method = 0x06; },
       &AdministratorCounters::ignored_no_request},
      {"answer to a report that was not sent", [](SaMad& m) { m.hdr.mad.method = 0x86; },
       &AdministratorCounters::ignored_report},
      {"trap repress", [](SaMad& m) { m.hdr.mad.method = 0x07; },
       &AdministratorCounters::ignored_no_request},
      {"RMPP ACK of a table",
       [](SaMad& m) {
         m.hdr.mad.method = 0x12;
         m.hdr.rmpp_version = 1;
         m.hdr.rmpp_type = 2;
         m.hdr.rmpp_rtime_flags = 1;
       },
       &AdministratorCounters::ignored_rmpp},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const std::uint64_t before = sa->counters().*row.counter;
    SaMad mad = good();
    row.spoil(mad);
    EXPECT_FALSE(exchange(mad, kLidB));
    EXPECT_EQ(sa->counters().*row.counter, before + 1);
  }
  for (const int lid : {0, 0xc000, 0xffff})
    EXPECT_FALSE(exchange(good(), static_cast<std::uint16_t>(lid)));
  EXPECT_EQ(sa->counters().ignored_source, 3U);
  EXPECT_EQ(sa->counters().ended(), sa->counters().received);
}

TEST_F(DispatchTest, EveryLengthButOneIsIgnored) {
  const std::vector<std::byte> octets(600, std::byte{1});
  for (std::size_t n = 0; n <= octets.size(); ++n) {
    if (n == wire::kMadLen) continue;
    EXPECT_FALSE(sa->answer({kLidB, 0, 1, 0xffff}, std::span{octets}.first(n), now));
  }
  EXPECT_EQ(sa->counters().ignored_length, 600U);
}

TEST_F(DispatchTest, RefusalsOfTheHeader) {
  struct Row {
    const char* what;
    void (*spoil)(SaMad&);
    std::uint16_t status;
    std::uint8_t method;
  };
  const Row rows[] = {
      {"base version", [](SaMad& m) { m.hdr.mad.base_version = 2; }, 0x0004, 0x81},
      {"class version", [](SaMad& m) { m.hdr.mad.class_version = 1; }, 0x0004, 0x81},
      {"method 0", [](SaMad& m) { m.hdr.mad.method = 0; }, 0x0008, 0x80},
      {"GetMulti", [](SaMad& m) { m.hdr.mad.method = 0x14; }, 0x0008, 0x94},
      {"attribute", [](SaMad& m) { m.hdr.mad.attr_id.set(0x99); }, 0x000c, 0x81},
      {"attribute not served", [](SaMad& m) { m.hdr.mad.attr_id.set(0x31); }, 0x000c, 0x81},
      {"set of a path", [](SaMad& m) { m.hdr.mad.attr_id.set(0x35), m.hdr.mad.method = 0x02; },
       0x000c, 0x81},
      {"delete of a path", [](SaMad& m) { m.hdr.mad.attr_id.set(0x35), m.hdr.mad.method = 0x15; },
       0x000c, 0x95},
      {"table of ClassPortInfo",
       [](SaMad& m) { m.hdr.mad.attr_id.set(0x01), m.hdr.mad.method = 0x12; }, 0x000c, 0x92},
      {"wrong SM_Key", [](SaMad& m) { m.hdr.sm_key.set(2); }, 0x0700, 0x81},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    SaMad mad = good();
    row.spoil(mad);
    const auto answer = exchange(mad, kLidB);
    ASSERT_TRUE(answer);
    EXPECT_EQ(status_of(*answer), row.status);
    EXPECT_EQ(answer->hdr.mad.method, row.method);
    EXPECT_EQ(answer->hdr.mad.base_version, 1);
    EXPECT_EQ(answer->hdr.mad.class_version, 2);
    EXPECT_EQ(answer->hdr.sm_key.host(), 0U) << "never sent back";
    EXPECT_EQ(answer->hdr.rmpp_rtime_flags, 0);
    EXPECT_EQ(answer->data, mad.data);
  }
  EXPECT_EQ(sa->counters().ended(), sa->counters().received);
}

TEST_F(DispatchTest, RandomOctetsChangeNothingButCounters) {
  status(join_group(kBroadcast, kB, 0xffff, 1), kLidB);
  const std::string before = state_of(*sa);
  std::mt19937_64 random{7};
  for (int i = 0; i < 20'000; ++i) {
    fabric::ReceivedMad mad{{static_cast<std::uint16_t>(random()), 0, 1, 0xffff}, {}};
    for (std::byte& b : mad.bytes) b = static_cast<std::byte>(random());
    const auto answer = sa->answer(mad, now);
    if (answer) {
      EXPECT_NE(status_of(*answer), 0);
    }
  }
  EXPECT_EQ(state_of(*sa), before);
  EXPECT_EQ(sa->counters().ended(), sa->counters().received);
  EXPECT_EQ(sa->counters().received, 20'001U);
}

/// The headers are valid and the records are random, so that the requests reach every handler.
TEST_F(DispatchTest, RandomRecordsWithRealHeadersNeverJoinAnybody) {
  std::mt19937_64 random{11};
  const std::uint8_t methods[] = {0x01, 0x02, 0x12, 0x15};
  const std::uint16_t attrs[] = {0x01, 0x35, 0x38};
  const std::string before = state_of(*sa);
  for (int i = 0; i < 60'000; ++i) {
    SaMad mad = good();
    mad.hdr.mad.method = methods[random() % 4];
    mad.hdr.mad.attr_id.set(attrs[random() % 3]);
    mad.hdr.mad.status.set(static_cast<std::uint16_t>(random()));
    mad.hdr.comp_mask.set(random());
    for (std::byte& b : mad.data) b = static_cast<std::byte>(random());
    EXPECT_TRUE(exchange(mad, kLidB));
  }
  EXPECT_EQ(state_of(*sa), before);
  EXPECT_EQ(sa->counters().ended(), sa->counters().received);
}

/// Good requests have up to two damaged octets. The administrator's state must stay consistent,
/// even if it answers them with status 0.
TEST_F(DispatchTest, DamagedRequestsLeaveAStateThatMakesSense) {
  std::mt19937_64 random{13};
  const Request good_ones[] = {create(),
                               create(ipoib_mgid(7), kB, 8),
                               leave_group(kGroup, kB, 0xffff, 1),
                               join_group(kBroadcast, kC, 0xffff, 4),
                               find_path(kB, kC, 0xffff),
                               find_group(kGroup),
                               list_groups(0xffff)};
  for (int i = 0; i < 60'000; ++i) {
    SaMad mad = request_mad(good_ones[random() % std::size(good_ones)], random());
    fabric::ReceivedMad received{{static_cast<std::uint16_t>(2 + random() % 4), 0, 1, 0xffff}, {}};
    ASSERT_TRUE(wire::write(std::span{received.bytes}, 0, mad));
    for (std::uint64_t n = random() % 3; n > 0; --n)
      received.bytes[random() % 130] = static_cast<std::byte>(random());
    now += std::chrono::milliseconds(random() % 100);
    (void)sa->answer(received, now);
  }
  std::set<std::uint16_t> mlids, lids;
  for (const auto& [mgid, group] : sa->groups()) {
    EXPECT_TRUE(mgid.is_multicast());
    EXPECT_TRUE(wire::is_multicast_lid(group.record.mlid.host()));
    EXPECT_TRUE(mlids.insert(group.record.mlid.host()).second);
    EXPECT_TRUE(wire::mtu_octets(wire::value_of(group.record.mtu)) != 0);
    bool kept = group.configured;
    for (const auto& [gid, bits] : group.members) {
      EXPECT_EQ(sa->ports().count(gid), 1U) << "members are known ports";
      EXPECT_TRUE(bits != 0 && bits < 16);
      kept = kept || (bits & 9) != 0;
    }
    EXPECT_TRUE(kept);
  }
  for (const auto& [gid, port] : sa->ports()) {
    EXPECT_EQ(gid, port.gid);
    EXPECT_TRUE(lids.insert(port.lid).second);
  }
  EXPECT_EQ(sa->counters().ended(), sa->counters().received);
}

TEST_F(DispatchTest, P16_U40_NoRequestIsTrustedWithoutAConfiguredSmKey) {
  AdministratorConfig config = recorded_config();
  config.sm_key = 0;
  restart(config);
  for (const std::uint64_t key : {1ULL, ~0ULL}) {
    SaMad mad = good();
    mad.hdr.sm_key.set(key);
    EXPECT_EQ(status_of(*exchange(mad, kLidB)), 0x0700) << key;
  }
  EXPECT_EQ(status_of(*exchange(good(), kLidB)), kOk);
}

TEST(AdministratorConfigTest, WhatCannotBeServedIsRefusedWithAReason) {
  struct Row {
    const char* reason;
    void (*spoil)(AdministratorConfig&);
  };
  const Row rows[] = {
      {"LID 0xc000", [](AdministratorConfig& c) { c.lid = 0xc000; }},
      {"GID", [](AdministratorConfig& c) { c.gid = {}; }},
      {"MTU code 6", [](AdministratorConfig& c) { c.mtu = 6; }},
      {"rate code 1", [](AdministratorConfig& c) { c.rate = 1; }},
      {"SL 16", [](AdministratorConfig& c) { c.sl = 16; }},
      {"lifetime 64", [](AdministratorConfig& c) { c.lifetime = 64; }},
      {"scope 15,", [](AdministratorConfig& c) { c.scope = 15; }},
      {"partitions 0,", [](AdministratorConfig& c) { c.partitions.clear(); }},
      {"partitions 2,", [](AdministratorConfig& c) { c.max_groups = 1; }},
      {"P_Key 0x8000", [](AdministratorConfig& c) { c.partitions.push_back({0x8000}); }},
  };
  EXPECT_TRUE(Administrator::create(recorded_config()));
  for (const Row& row : rows) {
    AdministratorConfig config = recorded_config();
    row.spoil(config);
    const auto sa = Administrator::create(config);
    ASSERT_FALSE(sa) << row.reason;
    EXPECT_EQ(sa.error().code, Errc::kInvalidArgument);
    EXPECT_NE(sa.error().what.find(row.reason), std::string::npos) << sa.error().what;
  }
}

}  // namespace
}  // namespace ipoib::sa::test
