// SPDX-License-Identifier: BSD-3-Clause
// Answers of a port's own agent and of its subnet manager, each to a question that was asked. The
// resulting attributes are usable, and each change of them causes an event.
#include <chrono>
#include <cstring>
#include <deque>

#include "drivers/umad/port_watch.h"
#include "drivers/umad/sm_watch.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib;
using ipoib::test::require;

/// Octets of an input for one answer: status, source, data of the attribute.
constexpr std::size_t kStep = 2 + sizeof(wire::Smp::data);
constexpr std::size_t kMaxQuestions = 64;

struct Question {
  std::uint16_t to;
  wire::Smp smp;
};

void check(const fabric::PortAttr& before, umad::PortWatch& watch) {
  const fabric::PortAttr& attr = watch.attr();
  for (const std::uint16_t pkey : attr.pkeys) {
    require((pkey & 0x7fff) != 0);
    const int index = watch.pkey_index(pkey);
    require(index >= 0);
    require(((watch.pkey(static_cast<std::uint16_t>(index)) ^ pkey) & 0x7fff) == 0);
  }
  bool told = false, of_attributes = false;
  while (const auto event = watch.events().next()) {
    told = true;
    of_attributes = of_attributes || *event != fabric::PortEvent::kPkeyChange;
  }
  fabric::PortEvents expected;
  expected.add_changes(before, attr);
  const bool active = attr.state == fabric::PortState::kActive;
  const bool was = before.state == fabric::PortState::kActive;
  const bool changed = expected.next().has_value() || active != was;
  require(told || !changed);
  // An entry of the P_Key table that moved over a hole changes no attribute.
  require(changed || !of_attributes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  TimePoint now{std::chrono::seconds(1)};
  umad::PortWatch port{7};
  umad::SmWatch sm{9};
  std::deque<Question> asked;
  const umad::SmpSender send = [&](std::uint16_t lid, std::uint8_t sl, const wire::Smp& smp) {
    require(lid != 0 && sl < 16);
    if (asked.size() < kMaxQuestions) asked.push_back({lid, smp});
    return true;
  };
  for (; size >= kStep; data += kStep, size -= kStep, now += std::chrono::milliseconds(100)) {
    const fabric::PortAttr before = port.attr();
    port.tick(now, send);
    sm.tick(port.attr(), now, send);
    if (!asked.empty()) {
      Question question = asked.front();
      asked.pop_front();
      question.smp.mad.status.set(data[0]);
      std::memcpy(question.smp.data.data(), data + 2, question.smp.data.size());
      const bool own =
          question.smp.mad.mgmt_class == static_cast<std::uint8_t>(wire::MgmtClass::kSubnDr);
      if (own)
        port.on_answer(question.smp, send);
      else if (data[1] % 4 == 0)
        sm.on_bounce(static_cast<std::uint32_t>(question.smp.mad.tid.host()));
      else
        sm.on_answer(data[1] % 4 == 1 ? question.to : data[1], question.smp);
    }
    static_cast<void>(sm.take_reregister());
    check(before, port);
  }
  return 0;
}
