// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/soft/subnet_agent.h"

#include <span>

#include "lib/wire/sa_records.h"
#include "tests/support/soft_fixture.h"

namespace ipoib::soft {
namespace {

using fabric::PortEvent;
using wire::MadStatus;
using wire::PortInfo;
using wire::Smp;
using wire::SmpAttr;

/// Node 0 has the subnet manager of node 1.
class SoftAgent : public SoftFixture {
 protected:
  SoftAgent() {
    SoftHcaConfig of_port = config(1);
    of_port.attr.sm_lid = kLid[0];
    of_port.attr.mtu = 4;
    of_port.attr.rate = 7;
    port_ = make_node(of_port);
  }

  static fabric::MadBytes bytes_of_smp(const Smp& smp) {
    fabric::MadBytes bytes;
    std::ranges::copy(wire::bytes_of(smp), bytes.begin());
    return bytes;
  }
  static Smp get(SmpAttr attr, std::uint32_t modifier = 0) {
    return wire::smp_get(wire::MgmtClass::kSubnLid, attr, modifier, 77);
  }
  static Smp set(const PortInfo& info) {
    Smp smp = get(SmpAttr::kPortInfo);
    smp.mad.method = static_cast<std::uint8_t>(wire::Method::kSet);
    EXPECT_TRUE(wire::write(std::span{smp.data}, 0, info));
    return smp;
  }
  static PortInfo info_in(const Smp& smp) { return *wire::read<PortInfo>(smp.data); }

  /// Returns the answer to an SMP of the subnet manager, over the cable.
  Smp ask(const Smp& smp) {
    EXPECT_TRUE(manager_.hca->mad_port().send({.lid = kLid[1], .qpn = 0}, bytes_of_smp(smp)));
    manager_.poll();
    port_.poll();
    EXPECT_FALSE(port_.hca->mad_port().receive()) << "the agent takes it";
    port_.poll();
    manager_.poll();
    const auto answer = manager_.hca->mad_port().receive();
    EXPECT_TRUE(answer);
    if (!answer) return {};
    EXPECT_EQ(answer->from.lid, kLid[1]);
    EXPECT_EQ(answer->from.qpn, 0U);
    return *wire::read<Smp>(answer->bytes);
  }
  MadStatus refusal(const Smp& smp) { return MadStatus{ask(smp).mad.status.host()}; }
  std::vector<PortEvent> events() {
    std::vector<PortEvent> all;
    while (const auto event = port_.hca->next_event()) all.push_back(*event);
    return all;
  }

  Node manager_ = make_node(0);
  Node port_;
};

using Events = std::vector<PortEvent>;

TEST_F(SoftAgent, ThePortIsDescribed) {
  const Smp answer = ask(get(SmpAttr::kPortInfo));
  EXPECT_EQ(answer.mad.method, static_cast<std::uint8_t>(wire::Method::kGetResp));
  EXPECT_EQ(answer.mad.status.host(), 0);
  EXPECT_EQ(answer.mad.tid.host(), 77U);
  const PortInfo info = info_in(answer);
  EXPECT_EQ(info.lid.host(), kLid[1]);
  EXPECT_EQ(info.sm_lid.host(), kLid[0]);
  EXPECT_EQ(info.gid_prefix.host(), port_.hca->attr().gid_prefix);
  EXPECT_EQ(info.state(), static_cast<std::uint8_t>(fabric::PortState::kActive));
  EXPECT_EQ(info.neighbor_mtu(), 4);
  EXPECT_EQ(info.mtu_cap(), 4);
  EXPECT_EQ(wire::port_rate(info), 7);
  EXPECT_NE(info.capability_mask.host() & wire::kReregistrationSupported, 0U);
  EXPECT_FALSE(info.client_reregister());
  EXPECT_EQ(events(), Events{});
}

TEST_F(SoftAgent, P03_TheSubnetManagerMakesClientsRegisterAgain) {
  PortInfo info = info_in(ask(get(SmpAttr::kPortInfo)));
  EXPECT_EQ(ask(set(info)).mad.status.host(), 0);
  EXPECT_EQ(events(), Events{}) << "the Set changes nothing";
  info.set_client_reregister();
  info.speed_state &= 0xf0;  // no change of the state
  const Smp answer = ask(set(info));
  EXPECT_EQ(answer.mad.status.host(), 0);
  EXPECT_TRUE(info_in(answer).client_reregister());
  EXPECT_EQ(events(), Events{PortEvent::kClientReregister});
  // More requests are one event, a second later.
  ask(set(info));
  ask(set(info));
  EXPECT_EQ(events(), Events{});
}

TEST_F(SoftAgent, RequestsAreOneEventPerSecond) {
  const fabric::PortAttr attr{.sm_lid = 9};
  SubnetAgent agent{attr};
  PortInfo info{};
  info.gid_prefix.set(attr.gid_prefix);
  info.lid.set(attr.lid);
  info.sm_lid.set(9);
  info.set_client_reregister();
  const fabric::ReceivedMad mad{.from = {.lid = 9, .qpn = 0}, .bytes = bytes_of_smp(set(info))};
  ASSERT_TRUE(agent.serves(mad));
  EXPECT_FALSE(agent.take_reregister(5000, 1000));
  EXPECT_EQ(agent.answer(mad).mad.status.host(), 0);
  EXPECT_TRUE(agent.take_reregister(5000, 1000));
  EXPECT_FALSE(agent.take_reregister(5001, 1000));
  EXPECT_EQ(agent.answer(mad).mad.status.host(), 0);
  EXPECT_FALSE(agent.take_reregister(5999, 1000));
  EXPECT_TRUE(agent.take_reregister(6000, 1000));
}

TEST_F(SoftAgent, NothingElseCanBeSet) {
  const PortInfo info = info_in(ask(get(SmpAttr::kPortInfo)));
  const auto changed = [&](auto change) {
    PortInfo other = info;
    change(other);
    other.set_client_reregister();
    return refusal(set(other));
  };
  EXPECT_EQ(changed([](PortInfo& i) { i.lid.set(9); }), MadStatus::kInvalidField);
  EXPECT_EQ(changed([](PortInfo& i) { i.sm_lid.set(9); }), MadStatus::kInvalidField);
  EXPECT_EQ(changed([](PortInfo& i) { i.gid_prefix.set(9); }), MadStatus::kInvalidField);
  EXPECT_EQ(changed([](PortInfo& i) { i.m_key.set(9); }), MadStatus::kInvalidField);
  EXPECT_EQ(changed([](PortInfo& i) { i.speed_state ^= 1; }), MadStatus::kInvalidField);
  EXPECT_EQ(refusal(get(SmpAttr::kPortInfo, 2)), MadStatus::kInvalidField);
  EXPECT_EQ(refusal(get(SmpAttr::kSmInfo)), MadStatus::kMethodAttributeNotSupported);
  Smp old = get(SmpAttr::kPortInfo);
  old.mad.class_version = 2;
  EXPECT_EQ(refusal(old), MadStatus::kBadVersion);
  EXPECT_EQ(events(), Events{});
}

/// SMPs of others are not for the agent: the node counts them as unknown MADs.
TEST_F(SoftAgent, P15_OnlyTheSubnetManagerIsServed) {
  ASSERT_TRUE(port_.hca->change_port({.sm_lid = 9}));
  EXPECT_EQ(events(), Events{PortEvent::kSmChange});
  PortInfo info{};
  info.set_client_reregister();
  ASSERT_TRUE(manager_.hca->mad_port().send({.lid = kLid[1], .qpn = 0}, bytes_of_smp(set(info))));
  manager_.poll();
  port_.poll();
  const auto mad = port_.hca->mad_port().receive();
  ASSERT_TRUE(mad);
  EXPECT_EQ(mad->from.qpn, 0U);
  EXPECT_EQ(events(), Events{});
}

/// Any host can send to QP1, but only subnet management to QP0. Source: IBA vol 1 §13.5.1.
TEST_F(SoftAgent, P15_MadsArriveAtTheQueuePairOfTheirClass) {
  const auto count = [this] {
    for (const auto& [name, n] : port_.hca->mad_port().counters())
      if (name == "wrong_qp") return n;
    return std::uint64_t{99};
  };
  PortInfo info = info_in(ask(get(SmpAttr::kPortInfo)));
  info.set_client_reregister();
  Smp directed = set(info);
  directed.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnDr);
  Smp general = set(info);
  general.mad.mgmt_class = static_cast<std::uint8_t>(wire::MgmtClass::kSubnAdm);
  const std::pair<std::uint32_t, Smp> wrong[] = {{1, set(info)}, {1, directed}, {0, general}};
  std::uint64_t n = 0;
  EXPECT_EQ(count(), n);
  for (const auto& [qpn, mad] : wrong)
    for (Node* from : {&manager_, &port_}) {
      ASSERT_TRUE(from->hca->mad_port().send({.lid = kLid[1], .qpn = qpn}, bytes_of_smp(mad)));
      manager_.poll();
      port_.poll();
      EXPECT_FALSE(port_.hca->mad_port().receive());
      EXPECT_EQ(count(), ++n);
    }
  port_.poll();
  EXPECT_TRUE(on_cable(0).empty()) << "no answer";
  EXPECT_EQ(events(), Events{});
}

/// Source: IBA vol 1 §9.6.1.
TEST_F(SoftAgent, SmpsArriveOnTheirVirtualLaneOnly) {
  SoftHcaConfig no_icrc = config(1);
  no_icrc.icrc = false;
  port_ = {};
  port_ = make_node(no_icrc);
  ASSERT_TRUE(manager_.hca->mad_port().send({.lid = kLid[1], .qpn = 0},
                                            bytes_of_smp(get(SmpAttr::kPortInfo))));
  manager_.poll();
  Bytes frame = on_cable(1).at(0);
  EXPECT_EQ(wire::read<wire::Lrh>(frame, sizeof(EthHdr))->vl(), wire::kManagementVl);
  put_on_cable(1, frame);
  port_.poll();
  EXPECT_TRUE(port_.hca->mad_port().receive()) << "it is not of the port's subnet manager";
  EXPECT_EQ(port_.all_drops(), 0U);
  frame[sizeof(EthHdr)] = std::byte{0};
  put_on_cable(1, frame);
  port_.poll();
  EXPECT_EQ(port_.hca->drops().get(Drop::kIbQpn), 1U);
}

}  // namespace
}  // namespace ipoib::soft
