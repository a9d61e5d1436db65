// SPDX-License-Identifier: BSD-3-Clause
// A link of the draft of 2001 with its communication manager, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "lib/wire/iba.h"
#include "tests/support/sim_connections.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {

using namespace std::chrono_literals;

inline constexpr std::uint32_t kFoundQkey = 0x8001'0c0c;

/// The communication manager of the link's port, with a record of its MADs.
struct PortOf2001 {
  std::deque<wire::CmMad> mads;
  fabric::MadAddress asked{};  ///< Address of the last MAD.
  FakeConnectionActions queues;
  cm::Manager manager{
      [this](const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> octets) {
        asked = to;
        mads.push_back(wire::read<wire::CmMad>(octets).value());
        return Status{};
      },
      {},
      1};
};

inline LinkConfig ibarp_config(const std::function<void(IbarpConfig&)>& change = {}) {
  return SimIpoibLink::config_with([&](LinkConfig& config) {
    config.ibarp.emplace();
    if (change) change(*config.ibarp);
  });
}

inline wire::Gid mgid_of(const wire::SaMad& mad) {
  return wire::read<wire::McMemberRecord>(mad.data)->mgid;
}

class Of2001 : private PortOf2001, public SimIpoibLink {
 public:
  explicit Of2001(const LinkConfig& config = ibarp_config())
      : SimIpoibLink{config, 1, IpoibLink::Connected{queues, manager}} {
    found.mlid = sa.group.mlid.host();
    found.qkey = kFoundQkey;
    found.mgid = sa.group.mgid;
    found.sl = 2;
    found.tclass = 0x33;
    found.hop_limit = 5;
    found.flow_label = 0x777;
  }
  ~Of2001() {
    link.stop(now);
    pass(3s);
  }

  using PortOf2001::asked;
  using PortOf2001::mads;

  /// Time passes, and timers of the manager are due within 10 ms.
  void pass(Duration d) {
    for (const TimePoint end = now + d; now < end;) {
      run_for(10ms);
      manager.tick(now);
    }
    run_for(0ms);
  }
  /// Time passes until a request is sent.
  void pass_until_asked() {
    const auto before = mads.size();
    for (const TimePoint limit = now + 30s; mads.size() == before && now < limit;) pass(10ms);
    EXPECT_EQ(mads.size(), before + 1);
  }
  /// The last question is answered.
  void reply(wire::SidrStatus status, std::span<const std::byte> data) {
    reply_to(mads.back(), status, data);
  }
  void reply_to(const wire::CmMad& question, wire::SidrStatus status,
                std::span<const std::byte> data) {
    const auto req = wire::cm_message<wire::CmSidrReq>(question);
    wire::CmSidrRep rep{};
    rep.request_id = req.request_id;
    rep.service_id = req.service_id;
    rep.status = status;
    wire::set_private(rep.private_data, data);
    feed(wire::make_cm_mad(question.hdr.tid.host(), rep));
  }
  void feed(const wire::CmMad& mad) {
    fabric::ReceivedMad received;
    received.from = asked;
    std::memcpy(received.bytes.data(), &mad, sizeof mad);
    EXPECT_TRUE(manager.on_mad(received, now));
  }
  void reply_found() {
    reply(wire::SidrStatus::kValid, wire::build_ibarp_broadcast(found));
    pass(10ms);
  }
  void bring_up() {
    start();
    reply_found();
    ASSERT_EQ(link.state(), State::kUp) << link.reason();
  }
  /// A host with a path in the SA.
  wire::IbarpAddr host(std::uint64_t guid, std::uint32_t qpn, std::uint16_t lid,
                       std::uint32_t qkey) {
    const auto addr = add_host(guid, qpn, lid);
    return {wire::Be64{guid}, 0, addr.qpn, wire::Be32{qkey}, addr.gid};
  }
  [[nodiscard]] wire::IbarpAddr own() const {
    return {wire::Be64{actions.attr.guid}, 0, wire::Be24{actions.own_qpn}, wire::Be32{kFoundQkey},
            actions.attr.gid()};
  }
  void arp(wire::ArpOp op, const wire::IbarpAddr& from, std::string_view from_ip,
           const wire::HwAddr& to, std::string_view to_ip) {
    const auto record = wire::build_arp({op, from, ip(from_ip).v4_host(), to, ip(to_ip).v4_host()});
    link.on_arp(record, 99, from.qpn.host(), now);
  }
  /// The IBARP record of a frame.
  static std::optional<wire::Arp> record_of(const SentFrame& frame) {
    const auto header = wire::read<wire::Be32>(frame.bytes);
    EXPECT_EQ(wire::encapsulated_type(wire::Encapsulation::kTypeLast, *header),
              wire::EtherType::kArp);
    return wire::parse_arp(wire::LinkKind::kIbarp, std::span{frame.bytes}.subspan(4));
  }

  wire::IbarpBroadcast found;
};

}  // namespace ipoib::link
