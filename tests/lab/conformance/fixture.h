// SPDX-License-Identifier: BSD-3-Clause
// The fixture of all tests of the suite: functions that build requests and read answers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>

#include "lib/sa/queries.h"
#include "lib/sa/sa_mad.h"
#include "tests/lab/conformance/differences.h"
#include "tests/lab/conformance/session.h"

namespace ipoib::wire {
inline void PrintTo(MadStatus status, std::ostream* out) {
  *out << status_name(static_cast<std::uint16_t>(status));
}
}  // namespace ipoib::wire

namespace ipoib::conformance {

using wire::MadStatus;
using wire::McMemberRecord;
using wire::PathRecord;
using R = McMemberRecord;

inline constexpr MadStatus kOk = MadStatus::kOk, kInvalid = MadStatus::kSaRequestInvalid,
                           kInsufficient = MadStatus::kSaInsufficientComponents,
                           kNoRecords = MadStatus::kSaNoRecords,
                           kTooMany = MadStatus::kSaTooManyRecords,
                           kBadGid = MadStatus::kSaInvalidGid;

using wire::join_state::kFullMember;
using wire::join_state::kNonMember;
using wire::join_state::kSendOnlyFullMember;
using wire::join_state::kSendOnlyNonMember;

/// The expected status of both administrators' answers: the same one, or a Difference.
struct Expected {
  MadStatus opensm, embedded;
  // NOLINTNEXTLINE(google-explicit-constructor): rows of tables name one or the other.
  Expected(MadStatus both) : opensm{both}, embedded{both} {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Expected(const Difference& d) : opensm{d.opensm}, embedded{d.embedded} {}
};

/// A request with changed components, and its answer.
template <class Record>
struct Row {
  const char* what;
  std::uint64_t mask;
  void (*change)(Record&);
  Expected status;
};

/// The session of this run; main() makes it.
[[nodiscard]] Session& session();

class ConformanceFixture : public ::testing::Test {
 protected:
  void TearDown() override { session().clean_up(); }

  static SubnetUnderTest& subnet() { return session().subnet(); }
  static bool embedded() { return subnet().name() == "embedded"; }
  static MadStatus answer(const Expected& e) { return embedded() ? e.embedded : e.opensm; }
  static wire::Gid gid(PortId port) { return subnet().port(port).gid; }

  /// The status of the answer. Without an answer the test fails.
  static MadStatus status(PortId port, const sa::Request& request);
  /// The record of an answer that consists of one record. With another status than 0 the test
  /// fails.
  template <class T>
  static T record(PortId port, const sa::Request& request) {
    const sa::Outcome outcome = session().ask(port, request);
    if (!outcome) {
      ADD_FAILURE() << sa::describe(outcome.error());
      return T{};
    }
    return outcome->record<T>().value_or(T{});
  }
  static McMemberRecord member(PortId port, const sa::Request& request) {
    return record<McMemberRecord>(port, request);
  }
  static sa::Reply table(PortId port, const sa::Request& request);
  /// The whole answer.
  static wire::SaMad raw(PortId port, const sa::Request& request, std::uint64_t sm_key = 0);

  /// The MGID of a group of a partition, different from those of all other tests.
  static wire::Gid fresh(std::uint16_t pkey = kDefault);
  static McMemberRecord broadcast(std::uint16_t pkey = kDefault);
  static sa::Request create(const wire::Gid& mgid, PortId port = kA,
                            std::uint8_t state = kFullMember, std::uint16_t pkey = kDefault) {
    return sa::create_group(mgid, gid(port), state, broadcast(pkey));
  }
  static sa::Request join(const wire::Gid& mgid, PortId port, std::uint8_t state = kFullMember,
                          std::uint16_t pkey = kDefault) {
    return sa::join_group(mgid, gid(port), pkey, state);
  }
  static sa::Request leave(const wire::Gid& mgid, PortId port, std::uint8_t state = kFullMember,
                           std::uint16_t pkey = kDefault) {
    return sa::leave_group(mgid, gid(port), pkey, state);
  }

  /// The request with a changed record and additional components.
  template <class T>
  static sa::Request with(sa::Request request, std::uint64_t mask, void (*change)(T&)) {
    auto r = *wire::read<T>(request.data);
    change(r);
    EXPECT_TRUE(wire::write(std::span{request.data}, 0, r));
    request.comp_mask |= mask;
    return request;
  }
  static sa::Request without(sa::Request request, std::uint64_t mask) {
    request.comp_mask &= ~mask;
    return request;
  }
};

}  // namespace ipoib::conformance
