// SPDX-License-Identifier: BSD-3-Clause
// A link of the draft of 2001 finds its broadcast group by service ID resolution.
#include <array>

#include "tests/unit/lib/link/link_of_2001.h"

namespace ipoib::link {
namespace {

TEST(IbarpLink, E02_E04_BroadcastParametersAreThoseOfSidr) {
  Of2001 t;
  t.start();
  t.pass(50ms);
  EXPECT_EQ(t.link.state(), State::kJoining);
  EXPECT_TRUE(t.sa.joins.empty()) << "the group is not known yet";
  ASSERT_EQ(t.mads.size(), 1U);
  EXPECT_EQ(t.asked.lid, kSmLid);
  const auto req = wire::cm_message<wire::CmSidrReq>(t.mads[0]);
  EXPECT_EQ(req.service_id.host(), wire::kIbarpServiceId);
  EXPECT_EQ(req.pkey.host(), wire::kDefaultPkey);
  t.reply_found();
  ASSERT_EQ(t.link.state(), State::kUp) << t.link.reason();
  EXPECT_EQ(t.sa.joins.size(), 1U);
  EXPECT_EQ(t.actions.qkey, kFoundQkey);
  const auto& p = t.link.parameters();
  EXPECT_EQ(p.broadcast_mgid, t.found.mgid);
  EXPECT_EQ(p.sl, 2);
  EXPECT_EQ(p.tclass, 0x33);
  EXPECT_EQ(p.hop_limit, 5);
  EXPECT_EQ(p.flow_label, 0x777U);
  // The announcement of the own address has these fields.
  ASSERT_FALSE(t.actions.frames.empty());
  const auto& frame = t.actions.frames.front();
  EXPECT_EQ(frame.qpn, wire::kMulticastQpn);
  EXPECT_EQ(frame.to.sl, 2);
  EXPECT_EQ(frame.to.dlid, t.found.mlid);
  EXPECT_EQ(frame.to.dgid, t.found.mgid);
  EXPECT_EQ(frame.to.qkey, std::nullopt) << "the queue has it";
  const auto record = Of2001::record_of(frame);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->sender_hw, wire::HwAddr{t.own()});
  EXPECT_EQ(t.link.counters().sidr.answered, 1U);
}

TEST(IbarpLink, E02_AsksTheConfiguredServer) {
  Of2001 t{ibarp_config([](IbarpConfig& c) {
    c.server_lid = 0x77;
    c.service_id = 0x0123'4567'89ab'cdef;
  })};
  t.bring_up();
  EXPECT_EQ(t.asked.lid, 0x77);
  EXPECT_EQ(wire::cm_message<wire::CmSidrReq>(t.mads[0]).service_id.host(), 0x0123'4567'89ab'cdefU);
}

TEST(IbarpLink, E02_RefusalsTimeOutsAndBadAnswersAreNamedAndRetried) {
  Of2001 t;
  t.start();
  t.reply(wire::SidrStatus::kServiceNotSupported, {});
  EXPECT_NE(t.link.reason().find("service ID not supported (1)"), std::string::npos)
      << t.link.reason();
  EXPECT_EQ(t.link.counters().sidr.refused, 1U);
  t.pass_until_asked();

  auto data = wire::build_ibarp_broadcast(t.found);
  data[0] = std::byte{0x22};
  t.reply(wire::SidrStatus::kValid, data);
  EXPECT_NE(t.link.reason().find("invalid: version"), std::string::npos) << t.link.reason();
  EXPECT_EQ(t.link.counters().sidr.errors[static_cast<std::size_t>(wire::IbarpError::kVersion)],
            1U);
  t.pass_until_asked();
  auto other = t.found;
  other.pkey = 0x8123;
  t.reply(wire::SidrStatus::kValid, wire::build_ibarp_broadcast(other));
  EXPECT_NE(t.link.reason().find("invalid: pkey"), std::string::npos) << t.link.reason();
  EXPECT_EQ(t.link.counters().sidr.invalid, 2U);

  const auto before = t.mads.size();
  t.pass(20s);
  EXPECT_GE(t.mads.size(), before + 5) << "one request and its retries";
  EXPECT_NE(t.link.reason().find("no answer of the SIDR server at LID 1"), std::string::npos)
      << t.link.reason();
  EXPECT_GE(t.link.counters().sidr.timed_out, 1U);
  EXPECT_TRUE(t.sa.joins.empty());
  t.pass_until_asked();
  t.reply_found();
  EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
}

// Each invalid answer is counted by its fault, and none makes the link join.
TEST(IbarpLink, E02_InvalidAnswersAreCountedByTheirFault) {
  using wire::IbarpError;
  const std::vector<std::pair<IbarpError, std::function<void(wire::IbarpBroadcast&)>>> rows{
      {IbarpError::kDlid, [](auto& g) { g.mlid = 0xbfff; }},
      {IbarpError::kDgid, [](auto& g) { g.mgid.bytes[0] = std::byte{0xfe}; }},
      {IbarpError::kPkey, [](auto& g) { g.pkey = 0x8000; }},
      {IbarpError::kPkey, [](auto& g) { g.pkey = 0x8123; }}};
  Of2001 t;
  t.start();
  std::array<std::uint64_t, wire::kIbarpErrorCount> errors{};
  for (const auto& [error, change] : rows) {
    auto group = t.found;
    change(group);
    t.reply(wire::SidrStatus::kValid, wire::build_ibarp_broadcast(group));
    ++errors[static_cast<std::size_t>(error)];
    EXPECT_EQ(t.link.counters().sidr.errors, errors);
    EXPECT_TRUE(t.link.reason().ends_with(wire::to_string(error))) << t.link.reason();
    t.pass_until_asked();
  }
  EXPECT_EQ(t.link.counters().sidr.invalid, rows.size());
  EXPECT_TRUE(t.sa.joins.empty());
  EXPECT_EQ(t.link.state(), State::kJoining);
}

// Everything that can happen to a port happens while a question is open. Its answer is late then.
TEST(IbarpLink, E02_PortEventsEndTheOpenQuestion) {
  using fabric::PortEvent;
  for (const auto event : {PortEvent::kFatal, PortEvent::kPortDown, PortEvent::kPortActive,
                           PortEvent::kLidChange, PortEvent::kPkeyChange, PortEvent::kSmChange,
                           PortEvent::kClientReregister, PortEvent::kGidChange}) {
    Of2001 t;
    t.start();
    ASSERT_EQ(t.mads.size(), 1U);
    const auto first = t.mads.back();
    if (event == PortEvent::kFatal || event == PortEvent::kPortDown)
      t.actions.attr.state = fabric::PortState::kDown;
    if (event == PortEvent::kPkeyChange) t.actions.attr.pkeys = {0x8001};
    if (event == PortEvent::kGidChange) t.actions.attr.guid += 0x100;
    if (event == PortEvent::kLidChange) t.actions.attr.lid = 22;
    if (event == PortEvent::kSmChange) t.actions.attr.sm_lid = 9;
    t.link.on_port_event(event, t.now);
    const bool lost =
        t.actions.attr.state != fabric::PortState::kActive || event == PortEvent::kPkeyChange;
    EXPECT_EQ(t.link.state(), lost ? State::kWaiting : State::kJoining) << t.link.reason();
    t.reply_to(first, wire::SidrStatus::kValid, wire::build_ibarp_broadcast(t.found));
    t.pass(10ms);
    EXPECT_TRUE(t.sa.joins.empty()) << "a late answer to a question that nobody has any more";
    EXPECT_EQ(t.link.counters().sidr.answered, 0U);
    t.actions.attr.state = fabric::PortState::kActive;
    t.actions.attr.pkeys = {wire::kDefaultPkey};
    t.link.on_port_event(PortEvent::kPortActive, t.now);
    if (t.mads.size() == 1) t.pass_until_asked();
    EXPECT_EQ(t.asked.lid, event == PortEvent::kSmChange ? 9 : kSmLid);
    t.reply_found();
    EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
  }
}

TEST(IbarpLink, E02_StopEndsTheOpenQuestion) {
  Of2001 t;
  t.start();
  const auto first = t.mads.back();
  t.link.stop(t.now);
  EXPECT_EQ(t.link.state(), State::kStopped);
  t.reply_to(first, wire::SidrStatus::kValid, wire::build_ibarp_broadcast(t.found));
  t.pass(20s);
  EXPECT_EQ(t.mads.size(), 1U) << "nothing is sent any more";
  EXPECT_TRUE(t.sa.joins.empty());
  t.start();
  t.reply_found();
  EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
  // The question of a member that confirms its group ends, too.
  t.link.on_port_event(fabric::PortEvent::kClientReregister, t.now);
  t.pass_until_asked();
  t.link.stop(t.now);
  t.reply_found();
  t.pass(20s);
  EXPECT_EQ(t.link.state(), State::kStopped);
  EXPECT_EQ(t.sa.leaves.size(), 1U);
  t.expect_nothing_left();
}

// A group whose MLID the SA has changed since: the server is asked again.
TEST(IbarpLink, E02_AnotherMlidIsAskedForAgain) {
  Of2001 t;
  t.found.mlid = 0xc00f;
  t.start();
  t.reply_found();
  EXPECT_NE(t.link.reason().find("the SA returned MLID 0xc000, the SIDR server 0xc00f"),
            std::string::npos)
      << t.link.reason();
  t.pass_until_asked();
  t.found.mlid = 0xc000;
  t.reply_found();
  EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
}

// A restarted server may have other parameters for the same group. A member that gets no answer
// keeps those that it has, and asks on.
TEST(IbarpLink, E02_ParametersAreFoundAgain) {
  for (const auto event : {fabric::PortEvent::kClientReregister, fabric::PortEvent::kSmChange}) {
    Of2001 t;
    t.bring_up();
    t.found.qkey = 0x8001'0d0d;
    const auto asked = t.mads.size();
    t.link.on_port_event(event, t.now);
    t.pass(20s);
    EXPECT_GE(t.mads.size(), asked + 5) << "one request and its retries";
    EXPECT_GE(t.sa.joins.size(), 2U) << "the SA may have forgotten the member";
    EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
    EXPECT_EQ(t.link.parameters().qkey, kFoundQkey);
    t.pass_until_asked();
    t.reply_found();
    EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
    EXPECT_EQ(t.link.parameters().qkey, 0x8001'0d0dU);
  }
}

// The SA must know the new address of the port, also while the server is silent.
TEST(IbarpLink, E02_AnotherGidIsJoinedWithoutAnAnswer) {
  Of2001 t;
  t.bring_up();
  const auto old = t.actions.attr.gid();
  t.actions.attr.guid += 0x100;
  t.actions.frames.clear();
  t.link.on_port_event(fabric::PortEvent::kGidChange, t.now);
  t.pass(10s);
  EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
  const auto port_of = [](const wire::SaMad& mad) {
    return wire::read<wire::McMemberRecord>(mad.data)->port_gid;
  };
  ASSERT_GE(t.sa.joins.size(), 2U);
  EXPECT_EQ(port_of(t.sa.joins.back()), t.actions.attr.gid());
  ASSERT_EQ(t.sa.leaves.size(), 1U);
  EXPECT_EQ(port_of(t.sa.leaves[0]), old);
  ASSERT_FALSE(t.actions.frames.empty()) << "the new address is announced";
  EXPECT_EQ(Of2001::record_of(t.actions.frames.front())->sender_hw, wire::HwAddr{t.own()});
}

// A cable that was pulled and plugged in again, while the server is silent: the group is known.
TEST(IbarpLink, E02_AMemberThatWaitedJoinsWithoutAnAnswer) {
  Of2001 t;
  t.bring_up();
  t.actions.attr.state = fabric::PortState::kDown;
  t.link.on_port_event(fabric::PortEvent::kPortDown, t.now);
  EXPECT_EQ(t.link.state(), State::kWaiting);
  t.actions.attr.state = fabric::PortState::kActive;
  t.link.on_port_event(fabric::PortEvent::kPortActive, t.now);
  t.pass(5s);
  EXPECT_GE(t.sa.joins.size(), 2U);
  EXPECT_EQ(t.link.state(), State::kUp) << t.link.reason();
  t.pass_until_asked();
}

TEST(IbarpLink, U03_E02_LeavesTheGroupThatItJoined) {
  Of2001 t;
  t.found.mgid = t.sa.group.mgid = wire::broadcast_mgid(0xffff, 5);
  t.bring_up();
  const auto group_of = [&](const char* broadcast) {
    t.want(ip(broadcast));
    const auto* n = t.sink.find(ip(broadcast));
    return n == nullptr ? wire::Gid{} : t.actions.ahs.at(n->ah).dgid;
  };
  const wire::Gid joined = t.found.mgid;
  constexpr std::array kBroadcasts{"255.255.255.255", "10.0.0.255", "10.255.255.255"};
  for (const char* broadcast : kBroadcasts) EXPECT_EQ(group_of(broadcast), joined) << broadcast;
  t.found.mgid = t.sa.group.mgid = wire::broadcast_mgid(0xffff, 8);
  t.link.on_port_event(fabric::PortEvent::kClientReregister, t.now);
  t.pass_until_asked();
  t.reply_found();
  for (const char* broadcast : kBroadcasts) {
    EXPECT_EQ(t.sink.find(ip(broadcast)), nullptr) << broadcast << " is forgotten at once";
    EXPECT_EQ(group_of(broadcast), t.found.mgid) << broadcast;
  }
  ASSERT_EQ(t.sa.leaves.size(), 1U);
  EXPECT_EQ(mgid_of(t.sa.leaves[0]), joined);
  t.found.mlid = 0xc00f;
  t.link.on_port_event(fabric::PortEvent::kClientReregister, t.now);
  t.pass_until_asked();
  t.reply_found();
  t.link.stop(t.now);
  t.pass(1s);
  ASSERT_EQ(t.sa.leaves.size(), 2U);
  EXPECT_EQ(mgid_of(t.sa.leaves[1]), t.found.mgid);
}

TEST(IbarpLink, E02_ServesItsOwnGroup) {
  Of2001 t{ibarp_config([](IbarpConfig& config) { config.server = true; })};
  wire::CmSidrReq req{};
  req.request_id.set(9);
  req.pkey.set(0x7fff);  // A limited member asks.
  req.service_id.set(wire::kIbarpServiceId);
  t.feed(wire::make_cm_mad(9, req));
  EXPECT_EQ(wire::cm_message<wire::CmSidrRep>(t.mads.back()).status,
            wire::SidrStatus::kServiceNotSupported)
      << "the link is not up";
  t.start();
  t.pass(10ms);
  ASSERT_EQ(t.link.state(), State::kUp) << t.link.reason();
  t.feed(wire::make_cm_mad(9, req));
  const auto rep = wire::cm_message<wire::CmSidrRep>(t.mads.back());
  EXPECT_EQ(rep.status, wire::SidrStatus::kValid);
  EXPECT_EQ(rep.qpn.host(), wire::kMulticastQpn);
  const auto group = wire::parse_ibarp_broadcast(rep.private_data);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->mgid, t.sa.group.mgid);
  EXPECT_EQ(group->qkey, t.sa.group.qkey.host());
  EXPECT_EQ(group->sl, 5);
  EXPECT_EQ(group->flow_label, 0x12345U);
  EXPECT_EQ(t.link.counters().sidr.served, 1U);
  // The SA denies the group: the parameters are those of the past.
  t.sa.join_status = static_cast<std::uint16_t>(wire::MadStatus::kSaRequestInvalid);
  t.link.on_port_event(fabric::PortEvent::kClientReregister, t.now);
  t.pass(500ms);
  ASSERT_EQ(t.link.state(), State::kJoining);
  t.feed(wire::make_cm_mad(9, req));
  EXPECT_EQ(wire::cm_message<wire::CmSidrRep>(t.mads.back()).status,
            wire::SidrStatus::kServiceNotSupported);
  t.sa.join_status = 0;
  t.pass(30s);
  ASSERT_EQ(t.link.state(), State::kUp) << t.link.reason();
  t.feed(wire::make_cm_mad(9, req));
  EXPECT_EQ(wire::cm_message<wire::CmSidrRep>(t.mads.back()).status, wire::SidrStatus::kValid);
}

}  // namespace
}  // namespace ipoib::link
