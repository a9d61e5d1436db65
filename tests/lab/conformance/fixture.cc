// SPDX-License-Identifier: BSD-3-Clause
#include "tests/lab/conformance/fixture.h"

#include "lib/wire/ipoib.h"

namespace ipoib::conformance {

MadStatus ConformanceFixture::status(PortId port, const sa::Request& request) {
  const sa::Outcome outcome = session().ask(port, request);
  if (outcome) return kOk;
  if (outcome.error().code != Errc::kRefused) ADD_FAILURE() << sa::describe(outcome.error());
  return static_cast<MadStatus>(outcome.error().status);
}

sa::Reply ConformanceFixture::table(PortId port, const sa::Request& request) {
  const sa::Outcome outcome = session().ask(port, request);
  if (!outcome) ADD_FAILURE() << sa::describe(outcome.error());
  return outcome.value_or(sa::Reply{});
}

wire::SaMad ConformanceFixture::raw(PortId port, const sa::Request& request, std::uint64_t sm_key) {
  wire::SaMad mad = sa::request_mad(request, 0);
  mad.hdr.sm_key.set(sm_key);
  const auto answer = session().ask_raw(port, mad);
  if (!answer) ADD_FAILURE() << "no answer";
  return answer.value_or(wire::SaMad{});
}

wire::Gid ConformanceFixture::fresh(std::uint16_t pkey) {
  static std::uint32_t number = 0x0100'0000;
  return wire::mgid_of(wire::IpAddr::v4(0xe000'0000 | ++number), pkey, 2);
}

McMemberRecord ConformanceFixture::broadcast(std::uint16_t pkey) {
  return member(kA, sa::find_group(wire::broadcast_mgid(pkey, 2)));
}

}  // namespace ipoib::conformance
