// SPDX-License-Identifier: BSD-3-Clause
// An IPoIB link whose subnet administrator gives any answers: member records, path records and
// notices with changed fields, refused, lost, repeated or invented. For every input, the link gives
// the device only valid values. When the administrator is honest again, the link comes up, and
// can be stopped with nothing left.
//
// Input: one octet of options, then steps of one octet each with their arguments; see Step.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "lib/wire/notice.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "tests/support/sim_ipoib_link.h"

namespace ipoib::link {
namespace {

using namespace std::chrono_literals;
using test::Input;
using test::require;

constexpr unsigned kHosts = 6;
constexpr std::size_t kMaxEntries = 8;
constexpr std::size_t kGroups = 8;  // Four addresses of each family; see group_address().
/// Number of groups and paths that the steps below can cause, with a margin.
constexpr std::size_t kMaxSaObjects = 64;

/// Longest time that passes in the steps of one input, a multiple of the intervals of the link.
constexpr Duration kLongest = 5min;

/// The low 4 bits of a step's octet.
enum class Step : unsigned {
  kTime,     ///< Time passes: power of two, ms.
  kChange,   ///< Changes the next answer: offset in the record, octet to add.
  kField,    ///< Sets an octet of the next answer that links read: index, value.
  kStatus,   ///< Sets the MAD status of the next answer: status (2 octets).
  kLose,     ///< The next answers are lost: count.
  kAgain,    ///< A former answer arrives again: index.
  kMade,     ///< An answer with the next octets in a copy of a former one: index, offset, length.
  kSilence,  ///< The SA stops answering, or starts again.
  kWant,     ///< The node has a packet for a host or group.
  kHear,     ///< An ARP request or reply of a host arrives.
  kGroup,    ///< The node joins a group, leaves it or sends to it.
  kNotice,   ///< A notice of a new or deleted group, with some octets changed.
  kPort,     ///< An event of the port.
  kStatic,   ///< A static neighbour comes or goes, or a route starts or stops using a gateway.
  kLife,     ///< The link stops or starts.
  kMtu,      ///< The operator limits the MTU.
};

LinkConfig config(unsigned options) {
  LinkConfig c = SimIpoibLink::default_config();
  c.ip6.enabled = (options & 1) != 0;
  c.group.multicast_router = (options & 2) != 0;
  if ((options & 4) != 0) c.group.send_only = SendOnly::kFullMember;
  if ((options & 8) != 0) c.create_broadcast = BroadcastAttributes{};
  if ((options & 16) != 0) c.scope = kScopeAuto;
  c.group.flood_absent = (options & 32) != 0;
  c.neighbour.max_entries = kMaxEntries;
  c.neighbour.max_held = 16;
  return c;
}

class Harness {
 public:
  /// If both upper bits of the options are set, the harness watches the link for ten minutes after
  /// it could come up, and for as long after it could stop. That takes long, so it does so for each
  /// of these inputs at the start, and for an input that is run alone, but only for one in eight
  /// later. For the others, it watches until the link is up or stopped, and ten seconds more.
  explicit Harness(unsigned options)
      : sim_{config(options), options + 1U}, patient_{(options & 0xc0) == 0xc0 && has_time()} {
    for (unsigned i = 0; i < kHosts; ++i)
      hosts_[i] =
          sim_.add_host(0x0002'c903'0000'0100 + i, 0x100 + i, static_cast<std::uint16_t>(16 + i));
    sim_.sa.only_scope = 2;  // An honest administrator has no group of another scope.
    sim_.meddle = [this](fabric::ReceivedMad& mad) { return meddle(mad); };
    sim_.start();
  }

  void run(Input in) {
    for (unsigned steps = 0; !in.empty() && steps < 128; ++steps) {
      step(in);
      check();
    }
    become_honest();
    // The MTU that the input set is a setting, which stays; a larger one is refused until the group
    // allows it again.
    run_until([this] {
      return sim_.link.state() == State::kUp && sim_.link.set_mtu(2044, sim_.now) &&
             sim_.link.mtu() == 2044;
    });
    for (const auto& [addr, n] : gateways_)
      for (unsigned i = 0; i < n; ++i) sim_.link.forget_gateway(addr);
    sim_.link.stop(sim_.now);
    run_until([this] { return sim_.link.state() == State::kStopped; });
    sim_.expect_nothing_left();
  }

 private:
  [[nodiscard]] static bool has_time() {
    static unsigned asked = 0;
    return ++asked <= 64 || asked % 8 == 0;
  }
  [[nodiscard]] static wire::IpAddr host_address(unsigned i) {
    return wire::IpAddr::v4(0x0a00'000aU + i % (kHosts + 2));
  }
  [[nodiscard]] static wire::IpAddr group_address(unsigned i) {
    wire::IpAddr a = ip((i & 4) != 0 ? "ff0e::1" : "239.1.1.1");
    a.bytes[15] = static_cast<std::byte>(1 + i % 4);
    return a;
  }

  bool meddle(fabric::ReceivedMad& mad) {
    if (lost_ != 0) {
      --lost_;
      return false;
    }
    const std::span record = std::span{mad.bytes}.last(wire::kSaDataLen);
    for (const auto& [at, value] : std::exchange(changes_, {})) {
      std::byte& octet = record[at % record.size()];
      octet = static_cast<std::byte>(std::to_integer<unsigned>(octet) + value);
    }
    for (const auto& [at, value] : std::exchange(fields_, {}))
      record[at] = static_cast<std::byte>(value);
    if (const auto status = std::exchange(status_, std::nullopt)) {
      mad.bytes[4] = static_cast<std::byte>(*status >> 8);
      mad.bytes[5] = static_cast<std::byte>(*status);
    }
    if (given_.size() < 32) given_.push_back(mad);
    return true;
  }

  /// Returns the offset of an octet of a member record or path record that links read.
  static std::size_t field(unsigned which) {
    using M = wire::McMemberRecord;
    using P = wire::PathRecord;
    constexpr std::array<std::size_t, 22> kAt = {0,
                                                 1,
                                                 3,
                                                 offsetof(M, qkey),
                                                 offsetof(M, qkey) + 3,
                                                 offsetof(M, mlid),
                                                 offsetof(M, mlid) + 1,
                                                 offsetof(M, mtu),
                                                 offsetof(M, pkey),
                                                 offsetof(M, pkey) + 1,
                                                 offsetof(M, rate),
                                                 offsetof(M, sl_flow_hop),
                                                 offsetof(M, scope_join),
                                                 offsetof(M, port_gid) + 15,
                                                 offsetof(P, dgid),
                                                 offsetof(P, dgid) + 15,
                                                 offsetof(P, dlid),
                                                 offsetof(P, dlid) + 1,
                                                 offsetof(P, qos_sl) + 1,
                                                 offsetof(P, mtu),
                                                 offsetof(P, rate),
                                                 offsetof(P, raw_flow_hop)};
    return kAt[which % kAt.size()];
  }

  void step(Input& in) {
    const unsigned code = in.octet();
    const unsigned option = code >> 4;
    const TimePoint now = sim_.now;
    switch (static_cast<Step>(code & 15)) {
      case Step::kTime: return let_pass(std::chrono::milliseconds{1U << in.octet() % 17});
      case Step::kChange: {
        const unsigned at = in.octet();
        changes_.emplace_back(at, in.octet());
        return;
      }
      case Step::kField: {
        const std::size_t at = field(in.octet());
        fields_.emplace_back(at, in.octet());
        return;
      }
      case Step::kStatus: status_ = in.number(2); return;
      case Step::kLose: lost_ = in.octet() % 8; return;
      case Step::kAgain:
        if (!given_.empty()) sim_.client.on_mad(given_[in.octet() % given_.size()], now);
        return;
      case Step::kMade: return make_answer(in);
      case Step::kSilence: sim_.sa.silent = (option & 1) != 0; return;
      case Step::kWant:
        (void)sim_.want((option & 1) != 0 ? group_address(in.octet()) : host_address(in.octet()));
        return;
      case Step::kHear: return hear(option, in.octet() % kHosts);
      case Step::kGroup: return group(option, group_address(in.octet()));
      case Step::kNotice: return notice(in, option);
      case Step::kPort: return port_event(in.octet(), option);
      case Step::kStatic: return change_neighbour(option, in.octet() % kHosts);
      case Step::kLife: return (option & 1) != 0 ? sim_.link.start(now) : sim_.link.stop(now);
      case Step::kMtu:
        (void)sim_.link.set_mtu(static_cast<std::uint16_t>(in.number(2)), now);
        return;
    }
  }

  void let_pass(Duration d) {
    d = std::min(d, left_);
    left_ -= d;
    sim_.run_for(d);
  }

  /// The invented answer has the transaction ID of a former answer, or of no request.
  void make_answer(Input& in) {
    fabric::ReceivedMad mad{{kSmLid, 0, 1, wire::kDefaultPkey}, {}};
    const unsigned which = in.octet();
    if (!given_.empty()) mad = given_[which % given_.size()];
    const std::size_t at = in.octet();
    const auto octets = in.take(in.octet());
    for (std::size_t i = 0; i < octets.size(); ++i) mad.bytes[(at + i) % wire::kMadLen] = octets[i];
    sim_.client.on_mad(mad, sim_.now);
  }
  void hear(unsigned option, unsigned i) {
    const auto op = (option & 1) != 0 ? wire::ArpOp::kReply : wire::ArpOp::kRequest;
    wire::LinkAddr from = hosts_[(option & 2) != 0 ? (i + 1) % kHosts : i];
    if ((option & 4) != 0) from.qpn.set(0x200 + i);
    sim_.receive_arp(op, from, wire::to_string(host_address(i)), {}, "10.0.0.1");
  }
  void group(unsigned option, const wire::IpAddr& addr) {
    auto& link = sim_.link;
    if (option % 4 == 0) {
      (void)link.join_group(addr, sim_.now);
    } else if (option % 4 == 1) {
      (void)link.leave_group(addr, sim_.now);
    } else {
      const std::array<std::byte, 40> packet{};
      (void)link.send_to_group(addr, packet, sim_.now);
    }
  }
  void notice(Input& in, unsigned option) {
    const auto trap = (option & 1) != 0 ? wire::Trap::kGroupCreated : wire::Trap::kGroupDeleted;
    const wire::Gid mgid = (option & 2) != 0
                               ? wire::broadcast_mgid(wire::kDefaultPkey, 2)
                               : wire::mgid_of(group_address(in.octet()), wire::kDefaultPkey, 2);
    wire::Notice n = wire::make_notice(trap, mgid, kSmLid, {});
    std::array<std::byte, sizeof(n)> octets;
    const auto made = wire::bytes_of(n);
    std::copy(made.begin(), made.end(), octets.begin());
    for (unsigned changes = in.octet() & 3; changes > 0; --changes) {
      const std::size_t at = in.octet() % octets.size();
      octets[at] ^= static_cast<std::byte>(in.octet());
    }
    if (wire::parse_notice(octets, n) == wire::NoticeError::kNone) sim_.link.on_report(n, sim_.now);
  }
  void port_event(unsigned what, unsigned option) {
    using Event = fabric::PortEvent;
    fabric::PortAttr& port = sim_.actions.attr;
    const auto event = static_cast<Event>(what % 8);
    if (event == Event::kPortActive) port.state = fabric::PortState::kActive;
    if (event == Event::kPortDown) port.state = fabric::PortState::kDown;
    if (event == Event::kLidChange) port.lid = static_cast<std::uint16_t>(2 + (option & 1));
    if (event == Event::kPkeyChange)
      port.pkeys = {(option & 1) != 0 ? std::uint16_t{0x8001} : wire::kDefaultPkey};
    sim_.link.on_port_event(event, sim_.now);
  }
  void change_neighbour(unsigned option, unsigned i) {
    auto& link = sim_.link;
    const wire::IpAddr addr = host_address(i);
    const auto lid = static_cast<std::uint16_t>((option & 4) != 0 ? 40 : 0);
    const auto gateway = gateways_.find(addr);
    switch (option % 4) {
      case 0: (void)link.add_static(addr, wire::to_string(hosts_[i]), lid, 0, sim_.now); return;
      case 1: (void)link.remove_neighbour(addr); return;
      case 2:
        if (link.use_gateway(addr, sim_.now)) ++gateways_[addr];
        return;
      default:
        if (gateway == gateways_.end()) return;
        link.forget_gateway(addr);
        if (--gateway->second == 0) gateways_.erase(gateway);
    }
  }

  void check() {
    auto& link = sim_.link;
    const FakeLinkActions& device = sim_.actions;
    require(link.mtu() <= 2044);
    require(link.sa_objects() <= kMaxSaObjects);
    // max_entries does not limit groups; each group that is sent to has a number too.
    require(sim_.sink.open.size() <= 64 && sim_.sink.indexes.size() <= kMaxEntries + kGroups);
    for (const auto& [group, queue_pair] : device.attached)
      require(group.first.is_multicast() && wire::is_multicast_lid(group.second));
    for (const auto& [index, ah] : device.ahs)
      require(ah.sl <= 15 &&
              (wire::is_unicast_lid(ah.dlid) || (wire::is_multicast_lid(ah.dlid) && ah.global)));
    for (const auto& [index, n] : sim_.sink.installed)
      if (n.state == table::NeighbourState::kValid)
        require(device.ahs.contains(n.ah) && n.mtu >= kMinMtu && n.mtu <= 2044);
    if (link.state() == State::kUp)
      require(device.attached.contains(
          {link.parameters().broadcast_mgid, link.parameters().broadcast_mlid}));
    sim_.actions.frames.clear();
  }

  /// Lets time pass until the condition holds, and requires that it holds ten seconds later too.
  void run_until(const std::function<bool()>& holds) {
    for (int i = 0; i < 60 && (patient_ || !holds()); ++i) sim_.run_for(10s);
    require(holds());
    sim_.run_for(10s);
    check();
    require(holds());
  }
  void become_honest() {
    lost_ = 0;
    sim_.sa.silent = false;
    sim_.meddle = nullptr;
    fabric::PortAttr& port = sim_.actions.attr;
    port.state = fabric::PortState::kActive;
    port.pkeys = {wire::kDefaultPkey};
    sim_.link.on_port_event(fabric::PortEvent::kPkeyChange, sim_.now);
    sim_.link.on_port_event(fabric::PortEvent::kPortActive, sim_.now);
    if (sim_.link.state() == State::kStopping) sim_.run_for(300s);
    if (sim_.link.state() == State::kStopped) sim_.start();
  }

  SimIpoibLink sim_;
  Duration left_ = kLongest;
  bool patient_;
  std::array<wire::LinkAddr, kHosts> hosts_;
  std::map<wire::IpAddr, unsigned> gateways_;
  std::vector<fabric::ReceivedMad> given_;
  // Changes to the next answer, and the number of answers to lose:
  std::vector<std::pair<std::size_t, unsigned>> changes_, fields_;
  std::optional<unsigned> status_;
  unsigned lost_ = 0;
};

}  // namespace
}  // namespace ipoib::link

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  GTEST_FLAG_SET(break_on_failure, true);  // Failures of the fakes end the program too.
  ipoib::test::Input in{ipoib::test::input(data, size)};
  const unsigned options = in.octet();
  ipoib::link::Harness{options}.run(in);
  return 0;
}
