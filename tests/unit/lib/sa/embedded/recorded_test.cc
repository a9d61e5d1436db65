// SPDX-License-Identifier: BSD-3-Clause
// The embedded administrator gets the requests that a real subnet manager got, in the same order,
// and must give the same answers. The overloads of as_we_answer() state the intended differences.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/vectors.h"
#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {
namespace {

using ipoib::test::octets;
using ipoib::test::to_hex;
using wire::McMemberRecord;
using wire::PathRecord;

constexpr std::size_t kRecordAt = sizeof(wire::SaHdr);

std::size_t record_len(wire::Attr attr) {
  switch (attr) {
    case wire::Attr::kMcMemberRecord: return sizeof(McMemberRecord);
    case wire::Attr::kPathRecord: return sizeof(PathRecord);
    case wire::Attr::kInformInfo: return sizeof(wire::InformInfo);
    case wire::Attr::kInformInfoRecord: return sizeof(wire::InformInfoRecord);
    default: return sizeof(wire::ClassPortInfo);
  }
}

McMemberRecord as_we_answer(McMemberRecord r, const wire::SaMad& request) {
  if (request.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kDelete)) return r;
  // A group created without a lifetime gets the subnet's; the recorded SM left it 0.
  if (wire::value_of(r.lifetime) == 0) r.lifetime = 0x80 | 18;
  // The scope is that of the MGID; the recorded SM returned the scope of the request, even if it
  // had none.
  r.scope_join = static_cast<std::uint8_t>(0x20 | r.join());
  return r;
}

PathRecord as_we_answer(PathRecord r, const wire::SaMad& request) {
  // If the request has no P_Key, the default partition is preferred to others.
  if ((request.hdr.comp_mask.host() & PathRecord::kPkey) == 0) r.pkey.set(0xffff);
  // A path to a group has the group's lifetime, see above.
  if (r.dgid.is_multicast()) r.lifetime = 0x80 | 18;
  return r;
}

wire::ClassPortInfo as_we_answer(wire::ClassPortInfo r, const wire::SaMad&) {
  // The capabilities are only those that this SA offers: UD multicast and SendOnlyFullMember.
  r.capability_mask.set(0x0200);
  r.capability2_resp_time.set(1U << 17 | 16);
  return r;
}

wire::InformInfoRecord as_we_answer(wire::InformInfoRecord r, const wire::SaMad&) {
  // The enum distinguishes the subscriptions of a port; the recorded SM left it 0.
  r.number.set(r.inform.trap_number.host() == 67 ? 0 : 1);
  return r;
}

template <class T>
void adapt(wire::SaMad& expected, const wire::SaMad& request, std::size_t at) {
  const auto r = wire::read<T>(expected.data, at);
  ASSERT_TRUE(r);
  ASSERT_TRUE(wire::write(std::span{expected.data}, at, as_we_answer(*r, request)));
}

/// Returns the number of records in a recorded answer, from the length that the recording kept.
std::size_t records_in(const nlohmann::json& exchange, wire::Attr attr) {
  if (attr == wire::Attr::kClassPortInfo || attr == wire::Attr::kInformInfo) return 1;
  return (exchange.at("response_octets_received").get<std::size_t>() - kRecordAt) /
         record_len(attr);
}

void expect_answer(const wire::SaMad& got, wire::SaMad want, const wire::SaMad& request,
                   std::size_t records) {
  const auto attr = static_cast<wire::Attr>(request.hdr.mad.attr_id.host());
  const bool refused = want.hdr.mad.status.host() != 0;
  for (std::size_t i = 0; i < records && !refused; ++i) {
    const std::size_t at = i * record_len(attr);
    if (attr == wire::Attr::kMcMemberRecord) adapt<McMemberRecord>(want, request, at);
    if (attr == wire::Attr::kPathRecord) adapt<PathRecord>(want, request, at);
    if (attr == wire::Attr::kInformInfoRecord) adapt<wire::InformInfoRecord>(want, request, at);
    if (attr == wire::Attr::kClassPortInfo) adapt<wire::ClassPortInfo>(want, request, at);
  }
  const std::size_t len = (refused ? 1 : records) * record_len(attr);
  EXPECT_EQ(to_hex(wire::bytes_of(got.hdr.mad)), to_hex(wire::bytes_of(want.hdr.mad)));
  EXPECT_EQ(got.hdr.attr_offset, want.hdr.attr_offset);
  EXPECT_EQ(got.hdr.comp_mask, want.hdr.comp_mask);
  EXPECT_EQ(got.hdr.sm_key, want.hdr.sm_key);
  EXPECT_EQ(to_hex(std::span{got.data}.first(len)), to_hex(std::span{want.data}.first(len)));
  if (got.hdr.mad.method != static_cast<std::uint8_t>(wire::Method::kGetTableResp)) return;
  // The recording lacks the RMPP header, which a port adds.
  EXPECT_EQ(got.hdr.rmpp_version, 1);
  EXPECT_EQ(got.hdr.rmpp_type, 1);
  EXPECT_EQ(got.hdr.rmpp_rtime_flags & 7, 7);
  EXPECT_EQ(got.hdr.rmpp_segment.host(), 1U);
  EXPECT_EQ(got.hdr.rmpp_len.host(), 20 + len);
}

class RecordedTest : public AdministratorFixture {};

TEST_F(RecordedTest, P03_AnswersAreThoseOfARealSubnetManager) {
  const auto file = ipoib::test::load_vectors("opensm-sa.json");
  std::size_t compared = 0;
  for (const auto& recorded : file.at("exchanges")) {
    const std::string name = recorded.at("name");
    SCOPED_TRACE(name);
    const auto request = wire::read<wire::SaMad>(octets(recorded.at("request")));
    ASSERT_TRUE(request);
    const std::uint16_t from = recorded.at("client") == "node C" ? kLidC : kLidB;
    const auto answer = exchange(*request, from);
    ASSERT_TRUE(answer);
    const auto attr = static_cast<wire::Attr>(request->hdr.mad.attr_id.host());
    const bool served = attr == wire::Attr::kMcMemberRecord || attr == wire::Attr::kPathRecord ||
                        attr == wire::Attr::kClassPortInfo || attr == wire::Attr::kInformInfo ||
                        attr == wire::Attr::kInformInfoRecord;
    // The recorded SM did not answer the unsupported method.
    if (!served || name == "unsupported-method") {
      EXPECT_EQ(status_of(*answer), 0x000c);
      continue;
    }
    const auto want = wire::read<wire::SaMad>(octets(recorded.at("response")));
    ASSERT_TRUE(want);
    expect_answer(*answer, *want, *request, records_in(recorded, attr));
    ++compared;
  }
  EXPECT_EQ(compared, 38U);
}

}  // namespace
}  // namespace ipoib::sa::test
