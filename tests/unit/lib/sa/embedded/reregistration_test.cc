// SPDX-License-Identifier: BSD-3-Clause
// An administrator that has started again, and the ports that had registered with its predecessor.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lib/wire/smp.h"
#include "tests/support/logged.h"
#include "tests/unit/lib/sa/embedded/administrator_fixture.h"

namespace ipoib::sa::test {
namespace {

using namespace std::chrono_literals;
using wire::Method;
using wire::PortInfo;
using wire::Smp;

class ReregistrationTest : public AdministratorFixture {
 protected:
  struct Sent {
    fabric::MadAddress to;
    Smp smp;
    [[nodiscard]] Method method() const { return static_cast<Method>(smp.mad.method); }
    [[nodiscard]] PortInfo info() const { return *wire::read<PortInfo>(smp.data); }
  };

  ReregistrationTest() {
    AdministratorConfig config = recorded_config();
    config.manages_ports = true;
    restart(config);
  }

  /// Returns the SMPs that are due.
  std::vector<Sent> due() {
    std::vector<Sent> sent;
    sa->tick(now, [&sent](const fabric::MadAddress& to, auto bytes) {
      const auto smp = *wire::read<Smp>(bytes);
      if (smp.mad.mgmt_class == static_cast<std::uint8_t>(wire::MgmtClass::kSubnLid))
        sent.push_back({to, smp});
      return Status{};
    });
    return sent;
  }
  static PortInfo info_of(std::uint16_t lid) {
    PortInfo info{};
    info.lid.set(lid);
    info.sm_lid.set(kSmLid);
    info.capability_mask.set(wire::kReregistrationSupported);
    info.speed_state = 0x14;
    info.phys_down = 0x52;
    info.mtu_sm_sl = 4 << 4;
    return info;
  }
  bool answer(const Sent& request, const PortInfo& info, std::uint16_t mad_status = 0) {
    fabric::ReceivedMad mad{.from = request.to, .bytes = {}};
    Smp smp = request.smp;
    smp.mad.method = static_cast<std::uint8_t>(Method::kGetResp);
    smp.mad.status.set(mad_status);
    EXPECT_TRUE(wire::write(std::span{smp.data}, 0, info));
    std::ranges::copy(wire::bytes_of(smp), mad.bytes.begin());
    return sa->on_smp(mad, now);
  }
};

TEST_F(ReregistrationTest, P03_PortsInNoGroupAreRequestedToRegisterAgain) {
  EXPECT_TRUE(due().empty());
  sa->overhear(kB, kLidB, 0xffff, now);
  const auto questions = due();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].to.lid, kLidB);
  EXPECT_EQ(questions[0].to.qpn, 0U);
  EXPECT_EQ(questions[0].method(), Method::kGet);
  EXPECT_FALSE(sa->next_deadline() < now + 1s) << "it waits for the answer";

  EXPECT_TRUE(answer(questions[0], info_of(kLidB)));
  const auto requests = due();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].to.lid, kLidB);
  EXPECT_EQ(requests[0].method(), Method::kSet);
  // The port keeps its attributes, and its states.
  PortInfo wanted = info_of(kLidB);
  wanted.speed_state = 0x10;
  wanted.phys_down = 0x02;
  wanted.set_client_reregister();
  EXPECT_EQ(std::memcmp(&wanted, requests[0].smp.data.data(), sizeof(wanted)), 0);
  const std::string log = logged([&] { EXPECT_TRUE(answer(requests[0], wanted)); });
  EXPECT_NE(log.find("at LID 3 was requested to register again"), std::string::npos) << log;
  now += 1h;
  sa->overhear(kB, kLidB, 0xffff, now);
  EXPECT_TRUE(due().empty()) << "one request is enough";
  EXPECT_FALSE(answer(requests[0], wanted)) << "it is answered already";
}

TEST_F(ReregistrationTest, PortsThatRegisterAreLeftAlone) {
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk);
  const auto questions = due();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].method(), Method::kGet);
  EXPECT_TRUE(answer(questions[0], info_of(kLidB)));
  EXPECT_TRUE(due().empty());
  EXPECT_FALSE(sa->next_deadline());
}

/// A port of 2048 octets in a subnet of 4096.
TEST_F(ReregistrationTest, M07_SmallPortsAreInNoGroupOfALargerMtu) {
  AdministratorConfig config = recorded_config();
  config.manages_ports = true;
  config.mtu = 5;
  restart(config);
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk) << "not known yet";
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
  EXPECT_EQ(record<wire::PathRecord>(find_path(kC, kB, 0xffff), kLidC).mtu, 0x85);
  const auto questions = due();
  ASSERT_EQ(questions.size(), 2U);
  PortInfo large = info_of(kLidC);
  large.mtu_sm_sl = 5 << 4;
  const std::string log = logged([&] {
    EXPECT_TRUE(answer(questions[0], info_of(kLidB)));
    EXPECT_TRUE(answer(questions[1], large));
  });
  EXPECT_NE(log.find("at LID 3 has MTU 2048; removed from 1 groups"), std::string::npos) << log;
  const auto requests = due();
  ASSERT_EQ(requests.size(), 1U) << "the port must learn of its removal";
  EXPECT_EQ(requests[0].to.lid, kLidB);
  EXPECT_EQ(requests[0].method(), Method::kSet);
  EXPECT_TRUE(requests[0].info().client_reregister());
  EXPECT_TRUE(answer(requests[0], requests[0].info()));

  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kInvalid);
  EXPECT_TRUE(answer(due().at(0), info_of(kLidB)));
  EXPECT_TRUE(due().empty()) << "it has learned of it";
  EXPECT_EQ(status(join_group(kBroadcast, kC, 0xffff, 1), kLidC), kOk);
  const auto like = [](std::uint8_t mtu) {
    wire::McMemberRecord r = like_broadcast();
    r.mtu = mtu;
    return r;
  };
  EXPECT_EQ(status(create_group(kGroup, kB, 1, like(5)), kLidB), kInvalid);
  EXPECT_EQ(status(create_group(kGroup, kB, 1, like(4)), kLidB), kOk) << "a smaller group";
  EXPECT_EQ(record<wire::PathRecord>(find_path(kC, kB, 0xffff), kLidC).mtu, 0x84);
  EXPECT_EQ(record<wire::PathRecord>(find_path(kC, kC, 0xffff), kLidC).mtu, 0x85);
}

TEST_F(ReregistrationTest, APortThatMovesIsReadAgain) {
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), kLidB), kOk);
  EXPECT_TRUE(answer(due().at(0), info_of(kLidB)));
  EXPECT_EQ(status(join_group(kBroadcast, kB, 0xffff, 1), 9), kOk);
  EXPECT_EQ(due().at(0).to.lid, 9);
}

/// A subnet of 4096 octets whose port B is known to carry 2048.
class PortMtuTest : public ReregistrationTest {
 protected:
  PortMtuTest() {
    AdministratorConfig config = recorded_config();
    config.manages_ports = true;
    config.mtu = 5;
    restart(config);
  }
  std::uint16_t join(std::uint16_t lid) {
    return status(join_group(kBroadcast, kB, 0xffff, 1), lid);
  }
  static PortInfo info_with(std::uint8_t mtu) {
    PortInfo info = info_of(kLidB);
    info.mtu_sm_sl = static_cast<std::uint8_t>(mtu << 4);
    return info;
  }
  /// Answers the SMPs that are due, and the ones that follow, as a port with this MTU. Returns their
  /// number.
  std::size_t answer_all(std::uint8_t mtu) {
    std::size_t n = 0;
    for (auto sent = due(); !sent.empty(); sent = due())
      for (const Sent& request : sent) {
        EXPECT_TRUE(answer(request, info_with(mtu)));
        ++n;
      }
    return n;
  }
};

TEST_F(PortMtuTest, M07_ARefusedPortIsReadAgain) {
  EXPECT_EQ(join(kLidB), kOk);
  answer_all(4);
  now += 10s;
  EXPECT_EQ(join(kLidB), kInvalid);
  const auto questions = due();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].to.lid, kLidB);
  EXPECT_EQ(questions[0].method(), Method::kGet);
  EXPECT_TRUE(answer(questions[0], info_with(5))) << "the operator has raised it";
  EXPECT_EQ(join(kLidB), kOk);
}

/// A port that remains in smaller groups learns of its removal from the larger ones, too.
TEST_F(PortMtuTest, M07_ARemovedPortIsRequestedToRegisterAgain) {
  EXPECT_EQ(join(kLidB), kOk);
  EXPECT_EQ(status(create(), kLidB), kOk);
  const auto questions = due();
  EXPECT_TRUE(answer(questions.at(0), info_with(4)));
  EXPECT_EQ(sa->groups().at(kGroup).members.count(kB), 1U);
  EXPECT_EQ(sa->groups().at(kBroadcast).members.count(kB), 0U);
  EXPECT_EQ(due().at(0).method(), Method::kSet);
}

TEST_F(PortMtuTest, P15_RefusedPortsAreNotReadAtEachRequest) {
  EXPECT_EQ(join(kLidB), kOk);
  answer_all(4);
  std::size_t questions = 0;
  for (int i = 0; i < 100; ++i, now += 100ms) {
    EXPECT_EQ(join(kLidB), kInvalid);
    questions += answer_all(4);
  }
  EXPECT_GE(questions, 1U);
  EXPECT_LE(questions, 3U);
}

TEST_F(PortMtuTest, M07_APortThatMovesMayHaveAnotherMtu) {
  EXPECT_EQ(join(kLidB), kOk);
  answer_all(4);
  EXPECT_EQ(join(9), kOk);
  EXPECT_EQ(due().at(0).to.lid, 9);
}

/// A stranger names another port as its own, and answers with a small MTU.
TEST_F(PortMtuTest, P15_AStrangersMtuIsNotThatOfThePort) {
  EXPECT_EQ(join(kLidB), kOk);
  answer_all(5);
  now += 10s;
  EXPECT_EQ(join(77), kOk);
  const auto questions = due();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].to.lid, 77);
  EXPECT_TRUE(answer(questions[0], info_with(1)));
  now += 3s;
  EXPECT_EQ(join(kLidB), kOk) << "the port has its place again";
  answer_all(5);
  EXPECT_EQ(join(kLidB), kOk);
  EXPECT_EQ(record<wire::PathRecord>(find_path(kB, kB, 0xffff), kLidB).mtu, 0x85);
}

TEST_F(ReregistrationTest, SilentPortsAreAskedThreeTimes) {
  sa->overhear(kB, kLidB, 0xffff, now);
  const std::string log = logged([&] {
    for (int i = 0; i < 10; ++i, now += 1s) {
      EXPECT_EQ(due().size(), i < 3 ? 1U : 0U) << i;
    }
  });
  EXPECT_NE(log.find("at LID 3 is in no group, and it does not answer subnet management: waiting "
                     "until it registers by itself"),
            std::string::npos)
      << log;
  EXPECT_EQ(sa->smps().counters().silent, 1U);
  EXPECT_FALSE(sa->next_deadline());
}

/// Devices that cannot take the request, and devices that refuse the question.
TEST_F(ReregistrationTest, PortsThatDoNotTakeTheRequestAreLogged) {
  PortInfo unable = info_of(kLidB);
  unable.capability_mask.set(0);
  sa->overhear(kB, kLidB, 0xffff, now);
  const auto first = due();
  std::string log = logged([&] { EXPECT_TRUE(answer(first.at(0), unable)); });
  EXPECT_NE(log.find("does not take requests for reregistration"), std::string::npos) << log;
  EXPECT_TRUE(due().empty());
  sa->overhear(kC, kLidC, 0xffff, now);
  const auto second = due();
  log = logged([&] { EXPECT_TRUE(answer(second.at(0), info_of(kLidC), 0x000c)); });
  EXPECT_NE(log.find("refuses subnet management"), std::string::npos) << log;
  EXPECT_TRUE(due().empty());
}

/// Source: IBA vol 1 §14.2.4: a Set needs the port's M_Key.
TEST_F(ReregistrationTest, P03_TheRequestCarriesTheMKeyOfThePort) {
  sa->overhear(kB, kLidB, 0xffff, now);
  PortInfo info = info_of(kLidB);
  info.m_key.set(0x1234'5678'9abc'def0);
  EXPECT_TRUE(answer(due().at(0), info));
  const auto requests = due();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].smp.m_key.host(), 0x1234'5678'9abc'def0U);
  EXPECT_EQ(requests[0].info().m_key.host(), 0x1234'5678'9abc'def0U) << "it keeps its key";
}

TEST_F(ReregistrationTest, P03_PortsOfAnotherSubnetManagerAreNotSet) {
  sa->overhear(kB, kLidB, 0xffff, now);
  PortInfo info = info_of(kLidB);
  info.sm_lid.set(9);
  const auto questions = due();
  const std::string log = logged([&] { EXPECT_TRUE(answer(questions.at(0), info)); });
  EXPECT_NE(log.find("it has another subnet manager"), std::string::npos) << log;
  EXPECT_TRUE(due().empty());
}

TEST_F(ReregistrationTest, P15_AnswersToNoQuestionChangeNothing) {
  sa->overhear(kB, kLidB, 0xffff, now);
  const Sent question = due().at(0);
  Sent forged = question;
  forged.to.lid = kLidC;
  EXPECT_FALSE(answer(forged, info_of(kLidB))) << "from another port";
  forged = question;
  forged.smp.mad.tid.set(question.smp.mad.tid.host() + 1);
  EXPECT_FALSE(answer(forged, info_of(kLidB))) << "of another transaction";
  EXPECT_TRUE(due().empty());
  EXPECT_TRUE(answer(question, info_of(kLidB)));
}

TEST_F(ReregistrationTest, P16_AFewSmpsAreInFlight) {
  AdministratorConfig config = recorded_config();
  config.manages_ports = true;
  config.smps.max_outstanding = 2;
  restart(config);
  for (std::uint16_t i = 0; i < 5; ++i)
    sa->overhear(port_gid(100U + i), static_cast<std::uint16_t>(100 + i), 0xffff, now);
  const auto first = due();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(due().empty());
  PortInfo unable = info_of(100);
  unable.capability_mask.set(0);
  EXPECT_TRUE(answer(first[0], unable));
  EXPECT_EQ(sa->next_deadline(), now);
  EXPECT_EQ(due().size(), 1U);
}

/// Without its own subnet management, the administrator sends no SMPs.
TEST_F(ReregistrationTest, OnlyAManagerOfPortsAsks) {
  restart(recorded_config());
  sa->overhear(kB, kLidB, 0xffff, now);
  EXPECT_TRUE(due().empty());
}

}  // namespace
}  // namespace ipoib::sa::test
