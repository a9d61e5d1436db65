// SPDX-License-Identifier: BSD-3-Clause
#include "lib/wire/rmpp.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/vector_frames.h"

namespace ipoib::wire {
namespace {

using nlohmann::json;
using test::Bytes;
using test::number;

std::uint64_t field(const json& frame, const char* name) {
  return number(frame.at("decode").at(std::string{"infiniband.rmpp."} + name));
}

/// Octets before the MAD in a UD frame without GRH: LRH, BTH and DETH.
constexpr std::size_t kMadOffset = 28;

TEST(RmppVectors, SegmentsAcknowledgementsAndEndsDecodeAndEncode) {
  int seen = 0;
  for (const auto& f : test::frames()) {
    if (!f.at("name").get<std::string>().starts_with("rmpp-")) continue;
    SCOPED_TRACE(f.at("name"));
    SaMad mad = read<SaMad>(test::packet_of(f), kMadOffset).value();
    Rmpp rmpp;
    if (f.at("name") == "rmpp-gettable-request") {
      EXPECT_EQ(parse_rmpp(mad.hdr, rmpp), RmppError::kInactive);
      continue;
    }
    ++seen;
    ASSERT_EQ(parse_rmpp(mad.hdr, rmpp), RmppError::kNone);
    EXPECT_EQ(static_cast<unsigned>(rmpp.type), field(f, "rmpptype"));
    EXPECT_EQ(rmpp.status, field(f, "rmppstatus"));
    EXPECT_EQ(rmpp.resp_time, 31);
    if (rmpp.type == RmppType::kData) {
      EXPECT_EQ(rmpp.flags, number(f.at("fields").at("flags")));
      EXPECT_EQ(rmpp.segment, field(f, "segmentnumber"));
      EXPECT_EQ(rmpp.len, field(f, "payloadlength"));
    }
    if (rmpp.type == RmppType::kAck) {
      EXPECT_EQ(rmpp.segment, field(f, "segmentnumber"));
      EXPECT_EQ(rmpp.len, field(f, "newwindowlast"));
    }
    const SaMad as_read = mad;
    mad.hdr.rmpp_version = mad.hdr.rmpp_type = 0xee;
    mad.hdr.rmpp_rtime_flags = mad.hdr.rmpp_status = 0xee;
    mad.hdr.rmpp_segment = mad.hdr.rmpp_len = Be32{0xeeee'eeee};
    write_rmpp(mad.hdr, rmpp);
    EXPECT_EQ(test::to_hex(bytes_of(mad)), test::to_hex(bytes_of(as_read)));
  }
  EXPECT_EQ(seen, 7);
}

struct Row {
  const char* what;
  Rmpp rmpp;
  RmppError error;
};

TEST(ParseRmpp, OddOnesAreNamed) {
  constexpr std::uint8_t kActive = 1, kFirst = 3, kLast = 5, kOnly = 7;
  const Row rows[] = {
      {"not RMPP", {RmppType::kData, 6, 31, 0, 1, 20}, RmppError::kInactive},
      {"type 0", {static_cast<RmppType>(0), kOnly, 31, 0, 1, 20}, RmppError::kType},
      {"type 5", {static_cast<RmppType>(5), kOnly, 31, 0, 1, 20}, RmppError::kType},
      {"one segment", {RmppType::kData, kOnly, 31, 0, 1, 20}, RmppError::kNone},
      {"one segment, full", {RmppType::kData, kOnly, 31, 0, 1, 220}, RmppError::kNone},
      {"one segment, too long", {RmppType::kData, kOnly, 31, 0, 1, 221}, RmppError::kPayloadLength},
      {"one segment, too short", {RmppType::kData, kOnly, 31, 0, 1, 19}, RmppError::kPayloadLength},
      {"first", {RmppType::kData, kFirst, 31, 0, 1, 221}, RmppError::kNone},
      {"first, not known", {RmppType::kData, kFirst, 31, 0, 1, 0}, RmppError::kNone},
      {"first, short", {RmppType::kData, kFirst, 31, 0, 1, 220}, RmppError::kPayloadLength},
      {"segment 0", {RmppType::kData, kActive, 31, 0, 0, 0}, RmppError::kSegment},
      {"first without flag", {RmppType::kData, kActive, 31, 0, 1, 0}, RmppError::kSegment},
      {"flag without first", {RmppType::kData, kFirst, 31, 0, 2, 0}, RmppError::kSegment},
      {"middle", {RmppType::kData, kActive, 31, 0, 2, 0}, RmppError::kNone},
      {"last", {RmppType::kData, kLast, 31, 0, 3, 124}, RmppError::kNone},
      {"last, not known", {RmppType::kData, kLast, 31, 0, 3, 0}, RmppError::kPayloadLength},
      {"last, too long", {RmppType::kData, kLast, 31, 0, 3, 221}, RmppError::kPayloadLength},
      {"data with status", {RmppType::kData, kActive, 31, 1, 2, 0}, RmppError::kStatus},
      {"ack", {RmppType::kAck, kActive, 31, 0, 4, 4}, RmppError::kNone},
      {"ack, window shut", {RmppType::kAck, kActive, 31, 0, 4, 3}, RmppError::kWindow},
      {"ack with status", {RmppType::kAck, kActive, 31, 118, 4, 4}, RmppError::kStatus},
      {"stop", {RmppType::kStop, kActive, 31, 1, 0, 0}, RmppError::kNone},
      {"stop, aborting", {RmppType::kStop, kActive, 31, 118, 0, 0}, RmppError::kStatus},
      {"abort", {RmppType::kAbort, kActive, 31, 255, 0, 0}, RmppError::kNone},
      {"abort, stopping", {RmppType::kAbort, kActive, 31, 1, 0, 0}, RmppError::kStatus},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    SaHdr hdr{};
    write_rmpp(hdr, row.rmpp);
    Rmpp out;
    EXPECT_EQ(parse_rmpp(hdr, out), row.error);
    hdr.rmpp_version = 2;
    EXPECT_EQ(parse_rmpp(hdr, out),
              row.error == RmppError::kInactive ? row.error : RmppError::kVersion);
  }
}

TEST(RmppNames, EveryErrorHasItsOwnAndItsAbortStatus) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(RmppError::kCount); ++i)
    EXPECT_TRUE(names.insert(rmpp_error_name(static_cast<RmppError>(i))).second);
  EXPECT_EQ(rmpp_error_name(RmppError::kWindow), "window");
  const std::pair<RmppError, unsigned> statuses[] = {
      {RmppError::kVersion, 125},       {RmppError::kType, 121},   {RmppError::kStatus, 124},
      {RmppError::kSegment, 120},       {RmppError::kWindow, 122}, {RmppError::kInactive, 127},
      {RmppError::kPayloadLength, 119},
  };
  for (const auto& [error, status] : statuses)
    EXPECT_EQ(static_cast<unsigned>(abort_status(error)), status);
}

}  // namespace
}  // namespace ipoib::wire
