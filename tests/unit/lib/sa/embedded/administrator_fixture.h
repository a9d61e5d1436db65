// SPDX-License-Identifier: BSD-3-Clause
// The subnet of the recorded exchanges, with the embedded administrator as its SA.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "lib/sa/embedded/administrator.h"
#include "lib/sa/queries.h"
#include "lib/sa/sa_mad.h"

namespace ipoib::sa::test {

inline wire::Gid port_gid(std::uint64_t guid) {
  return wire::Gid::of(wire::kDefaultGidPrefix, guid);
}
inline const wire::Gid kSmGid = port_gid(0x0002'c903'00a1'b201);
inline const wire::Gid kB = port_gid(0x0002'c903'00a1'b204);
inline const wire::Gid kC = port_gid(0x0002'c903'00a1'b207);
inline constexpr std::uint16_t kSmLid = 1, kLidB = 3, kLidC = 4;

inline wire::Gid ipoib_mgid(std::uint64_t group, std::uint16_t pkey = 0xffff,
                            std::uint64_t scope = 2) {
  return wire::Gid::of(0xff10'401b'0000'0000 | scope << 48 | std::uint64_t{pkey} << 16, group);
}
inline const wire::Gid kBroadcast = ipoib_mgid(0xffff'ffff);
inline const wire::Gid kGroup = ipoib_mgid(0x0101'0203);

/// Status fields of answers (wire::MadStatus).
inline constexpr std::uint16_t kOk = 0, kBusy = 1, kNoResources = 0x0100, kInvalid = 0x0200,
                               kNoRecords = 0x0300, kTooMany = 0x0400, kBadGid = 0x0500,
                               kInsufficient = 0x0600;

inline AdministratorConfig recorded_config() {
  AdministratorConfig config;
  config.gid = kSmGid;
  config.lid = kSmLid;
  config.partitions = {{0xffff}, {0x8002}};
  config.qkey = 0x0b1b;
  config.sm_key = 1;
  return config;
}

/// Configuration of an administrator that serves only its own port and knows other ports by GID at
/// most. Paths to them have this LID.
inline constexpr std::uint16_t kElsewhere = 2;
inline AdministratorConfig by_gid_config() {
  AdministratorConfig config = recorded_config();
  config.elsewhere_lid = kElsewhere;
  return config;
}

/// Returns the record from which a create request copies its attributes.
inline wire::McMemberRecord like_broadcast() {
  wire::McMemberRecord like{};
  like.qkey.set(0x0b1b);
  like.mtu = 4;
  like.rate = 3;
  like.pkey.set(0xffff);
  return like;
}

class AdministratorFixture : public ::testing::Test {
 protected:
  AdministratorFixture() { restart(recorded_config()); }

  void restart(const AdministratorConfig& config) { sa.emplace(*Administrator::create(config)); }

  std::optional<wire::SaMad> exchange(const wire::SaMad& request, std::uint16_t from) {
    return sa->answer({from, 0, 1, wire::kDefaultPkey}, wire::bytes_of(request), now);
  }
  wire::SaMad ask(const Request& request, std::uint16_t from, std::uint64_t sm_key = 0) {
    wire::SaMad mad = request_mad(request, ++tid);
    mad.hdr.sm_key.set(sm_key);
    const auto answer = exchange(mad, from);
    EXPECT_TRUE(answer);
    return answer.value_or(wire::SaMad{});
  }
  static std::uint16_t status_of(const wire::SaMad& mad) { return mad.hdr.mad.status.host(); }
  std::uint16_t status(const Request& request, std::uint16_t from) {
    return status_of(ask(request, from));
  }
  template <class T>
  T record(const Request& request, std::uint16_t from) {
    const wire::SaMad mad = ask(request, from);
    EXPECT_EQ(status_of(mad), 0);
    return *wire::read<T>(mad.data);
  }
  wire::McMemberRecord member(const Request& request, std::uint16_t from) {
    return record<wire::McMemberRecord>(request, from);
  }
  /// Returns the records of a table answer.
  Reply table(const Request& request, std::uint16_t from, std::uint64_t sm_key = 0) {
    wire::SaMad mad = ask(request, from, sm_key);
    if (!is_rmpp(mad.hdr)) return read_answer(mad, wire::Method::kGetTable).value_or(Reply{});
    RmppReceiver receiver{8};
    std::deque<wire::SaMad> segments{mad};
    for (; !segments.empty(); segments.pop_front()) {
      wire::Rmpp rmpp;
      EXPECT_EQ(wire::parse_rmpp(segments.front().hdr, rmpp), wire::RmppError::kNone);
      const auto step = receiver.take(segments.front(), rmpp, 1U << 30);
      if (step == RmppReceiver::Step::kDone) break;
      if (receiver.ack_due()) {
        EXPECT_FALSE(exchange(ack(segments.front(), receiver), from));
      }
      sa->tick(now, [&segments](const auto&, auto bytes) {
        segments.push_back(*wire::read<wire::SaMad>(bytes));
        return Status{};
      });
    }
    EXPECT_FALSE(segments.empty()) << "the table broke off";
    if (!segments.empty()) {
      EXPECT_FALSE(exchange(ack(segments.front(), receiver), from));
    }
    return read_table(receiver.header(), receiver.data(), false).value_or(Reply{});
  }

  static wire::SaMad ack(wire::SaMad mad, const RmppReceiver& receiver) {
    wire::Rmpp rmpp;
    rmpp.type = wire::RmppType::kAck;
    rmpp.segment = receiver.in_order();
    rmpp.len = std::max(receiver.window_last(), receiver.in_order());
    mad.hdr.mad.method = static_cast<std::uint8_t>(wire::Method::kGetTable);
    wire::write_rmpp(mad.hdr, rmpp);
    return mad;
  }
  static Request changed(Request request, std::uint64_t mask,
                         void (*change)(wire::McMemberRecord&)) {
    auto r = *wire::read<wire::McMemberRecord>(request.data);
    change(r);
    EXPECT_TRUE(wire::write(std::span{request.data}, 0, r));
    request.comp_mask |= mask;
    return request;
  }
  Request create(const wire::Gid& mgid = kGroup, const wire::Gid& port = kB,
                 std::uint8_t state = 1) {
    return create_group(mgid, port, state, like_broadcast());
  }

  TimePoint now{std::chrono::seconds(1)};
  std::uint64_t tid = 100;
  std::optional<Administrator> sa;
};

}  // namespace ipoib::sa::test
