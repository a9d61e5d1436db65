// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/sim_ipoib_link.h"

#include <rte_log.h>

#include <algorithm>
#include <utility>

#include "lib/sa/sa_mad.h"
#include "lib/wire/iba.h"

namespace ipoib::link {
namespace {

/// These tests cause thousands of errors on purpose, so their logs are suppressed.
[[maybe_unused]] const bool quiet = [] {
  rte_log_set_global_level(RTE_LOG_CRIT);
  return true;
}();

}  // namespace

FakeSa::FakeSa() {
  group.mgid = wire::broadcast_mgid(wire::kDefaultPkey, 2);
  group.qkey = wire::Be32{0x8001'0b1b};
  group.mlid = wire::Be16{0xc000};
  group.mtu = wire::with_selector(wire::Selector::kExactly, 4);
  group.tclass = 7;
  group.pkey = wire::Be16{wire::kDefaultPkey};
  group.rate = wire::with_selector(wire::Selector::kExactly, 3);
  group.sl_flow_hop = wire::McMemberRecord::pack(5, 0x12345, 9);
  group.scope_join = 0x21;
}

std::optional<FakeSa::Answer> FakeSa::answer(const wire::SaMad& mad) {
  const auto attr = static_cast<wire::Attr>(mad.hdr.mad.attr_id.host());
  const auto method = static_cast<wire::Method>(mad.hdr.mad.method);
  const auto bytes = [](const auto& record) {
    const auto b = wire::bytes_of(record);
    return std::vector<std::byte>{b.begin(), b.end()};
  };
  const auto status = [](wire::MadStatus s) { return static_cast<std::uint16_t>(s); };
  if (attr == wire::Attr::kMcMemberRecord && method != wire::Method::kGetTable) {
    auto r = *wire::read<wire::McMemberRecord>(mad.data);
    const bool broadcast =
        method == wire::Method::kGet
            ? r.mgid == group.mgid
            : r.mgid == wire::broadcast_mgid(r.pkey.host(), r.mgid.prefix() >> 48 & 0x0f);
    if (!broadcast) {
      group_requests.push_back(mad);
      if (silent) return std::nullopt;
      if (method == wire::Method::kGet) return Answer{status(wire::MadStatus::kSaNoRecords), {}};
      r.mlid.set(0xc100);
      r.mtu = group.mtu;
      r.rate = group.rate;
      r.qkey = group.qkey;
      return Answer{0, bytes(r)};
    }
  }
  if (attr == wire::Attr::kMcMemberRecord && method == wire::Method::kSet) {
    joins.push_back(mad);
    if (silent) return std::nullopt;
    if (join_status != 0) return Answer{join_status, {}};
    const auto r = *wire::read<wire::McMemberRecord>(mad.data);
    const bool other = only_scope != 0 && (r.mgid.prefix() >> 48 & 0x0f) != only_scope;
    const bool creates = mad.hdr.comp_mask.host() == wire::McMemberRecord::kCreateMask;
    if (other || (only_creation && members == 0 && !creates))
      return Answer{status(wire::MadStatus::kSaInsufficientComponents), {}};
    members = 1;
    return Answer{0, bytes(group)};
  }
  if (attr == wire::Attr::kMcMemberRecord && method == wire::Method::kGet) {
    checks.push_back(mad);
    if (silent) return std::nullopt;
    if (members == 0 || hides_members) return Answer{status(wire::MadStatus::kSaNoRecords), {}};
    return Answer{0, bytes(group)};
  }
  if (attr == wire::Attr::kMcMemberRecord && method == wire::Method::kDelete) {
    leaves.push_back(mad);
    if (silent) return std::nullopt;
    members = 0;
    return Answer{0, bytes(group)};
  }
  if (attr != wire::Attr::kPathRecord)
    return Answer{status(wire::MadStatus::kMethodAttributeNotSupported), {}};
  path_queries.push_back(mad);
  if (silent) return std::nullopt;
  const auto want = *wire::read<wire::PathRecord>(mad.data);
  const auto it = paths.find(want.dgid);
  if (it == paths.end()) return Answer{status(wire::MadStatus::kSaNoRecords), {}};
  Answer found{0, bytes(it->second)};
  const unsigned most = method == wire::Method::kGetTable ? want.reversible_numb & 0x7f : 1;
  for (std::size_t i = 0; i < more_paths.size() && found.data.size() / sizeof(want) < most; ++i)
    if (more_paths[i].dgid == want.dgid)
      for (const std::byte octet : bytes(more_paths[i])) found.data.push_back(octet);
  return found;
}

fabric::ReceivedMad FakeSa::reply(const wire::SaMad& to, const Answer& answer) {
  wire::SaMad mad = to;
  mad.hdr.mad.method = sa::response_of(to.hdr.mad.method);
  mad.hdr.mad.status.set(answer.status);
  const bool table = to.hdr.mad.method == static_cast<std::uint8_t>(wire::Method::kGetTable);
  const std::size_t in_mad = std::min(answer.data.size(), mad.data.size());
  std::copy_n(answer.data.begin(), in_mad, mad.data.begin());
  fabric::ReceivedMad received{{kSmLid, 0, 1, wire::kDefaultPkey}, {}};
  if (table && answer.status == 0) {
    mad.hdr.attr_offset.set(sizeof(wire::PathRecord) / 8);
    received.whole = true;
    received.len = sizeof(wire::SaHdr) + answer.data.size();
    received.rest.assign(answer.data.begin() + static_cast<std::ptrdiff_t>(in_mad),
                         answer.data.end());
  }
  static_cast<void>(wire::write(std::span{received.bytes}, 0, mad));
  return received;
}

LinkConfig SimIpoibLink::default_config() {
  LinkConfig config;
  config.name = "ib0";
  config.id = 3;
  config.addresses = {prefix("10.0.0.1/24")};
  config.ip6.enabled = false;
  return config;
}

LinkConfig SimIpoibLink::config_with(const std::function<void(LinkConfig&)>& change) {
  LinkConfig config = default_config();
  change(config);
  return config;
}

SimIpoibLink::SimIpoibLink(LinkConfig config, std::uint64_t seed,
                           std::optional<IpoibLink::Connected> connected)
    : SimTime{TimePoint{std::chrono::seconds(100)}, seed},
      client{[this](const fabric::MadAddress&, std::span<const std::byte, wire::kMadLen> mad) {
               const auto request = *wire::read<wire::SaMad>(mad);
               if (const auto a = sa.answer(request)) {
                 auto reply = FakeSa::reply(request, *a);
                 if (!meddle || meddle(reply))
                   at(now + sa_delay, [this, reply] { client.on_mad(reply, now); });
               }
               return Status{};
             },
             {},
             seed},
      link{std::move(config), actions, sink, client, seed, no_address_sink(), connected} {
  actions.attr.guid = 0x0002'c903'0000'000a;
  actions.attr.lid = 2;
  actions.attr.sm_lid = kSmLid;
  client.set_sm(kSmLid, 0, now);
}

void SimIpoibLink::run_until(TimePoint end) {
  const auto next_deadline = [this] {
    return earlier(client.next_deadline(), link.next_deadline());
  };
  const auto tick = [this] {
    client.tick(now);
    link.tick(now);
  };
  advance(now);
  tick();
  run_to(end, next_deadline, tick);
  tick();
}

void SimIpoibLink::bring_up() {
  start();
  run_for(std::chrono::milliseconds(10));
  ASSERT_EQ(link.state(), State::kUp) << link.reason();
}

wire::LinkAddr SimIpoibLink::bring_up_with_peer() {
  bring_up();
  const auto host = add_host(0xb, 0x50, 3);
  resolve("10.0.0.2", host);
  return host;
}

HeldPacket SimIpoibLink::resolve(std::string_view addr, const wire::LinkAddr& host) {
  const auto packet = want(ip(addr));
  receive_arp_reply(host, addr);
  run_for(std::chrono::milliseconds(10));
  return packet;
}

void SimIpoibLink::on_port_event(fabric::PortEvent event, Duration then) {
  link.on_port_event(event, now);
  run_for(then);
}

HeldPacket SimIpoibLink::want(const wire::IpAddr& addr) {
  const auto packet = sink.new_packet();
  link.on_neighbour_wanted(addr, packet, now);
  return packet;
}

void SimIpoibLink::receive_arp(wire::ArpOp op, const wire::LinkAddr& sender,
                               std::string_view sender_ip, const wire::LinkAddr& target,
                               std::string_view target_ip) {
  const auto arp =
      wire::build_arp({op, sender, ip(sender_ip).v4_host(), target, ip(target_ip).v4_host()});
  link.on_arp(arp, 99, sender.qpn.host(), now);
}

void SimIpoibLink::receive_arp_reply(const wire::LinkAddr& sender, std::string_view sender_ip) {
  const wire::LinkAddr own{0, wire::Be24{actions.own_qpn}, actions.attr.gid()};
  receive_arp(wire::ArpOp::kReply, sender, sender_ip, own, "10.0.0.1");
}

void SimIpoibLink::receive_arp_request(const wire::LinkAddr& sender, std::string_view sender_ip,
                                       std::string_view target_ip) {
  receive_arp(wire::ArpOp::kRequest, sender, sender_ip, {}, target_ip);
}

wire::LinkAddr SimIpoibLink::add_host(std::uint64_t guid, std::uint32_t qpn, std::uint16_t lid) {
  const wire::LinkAddr hw{0, wire::Be24{qpn}, wire::Gid::of(wire::kDefaultGidPrefix, guid)};
  wire::PathRecord path{};
  path.dgid = hw.gid;
  path.sgid = actions.attr.gid();
  path.dlid = wire::Be16{lid};
  path.slid = wire::Be16{actions.attr.lid};
  path.pkey = wire::Be16{wire::kDefaultPkey};
  path.qos_sl = wire::Be16{3};
  path.mtu = wire::with_selector(wire::Selector::kExactly, 4);
  path.rate = wire::with_selector(wire::Selector::kExactly, 7);
  sa.paths[hw.gid] = path;
  return hw;
}

NeighbourInfo SimIpoibLink::row(std::string_view addr) const {
  for (auto& r : link.neighbours(now))
    if (r.addr == ip(addr)) return r;
  ADD_FAILURE() << "no neighbour " << addr;
  return {};
}

std::size_t SimIpoibLink::arp_requests_for(std::string_view addr, bool broadcast) const {
  return static_cast<std::size_t>(
      std::count_if(actions.frames.begin(), actions.frames.end(), [&](const SentFrame& f) {
        const auto arp = f.arp();
        return arp && arp->op == wire::ArpOp::kRequest && f.broadcast() == broadcast &&
               arp->target_ip == ip(addr).v4_host() && arp->sender_ip != arp->target_ip;
      }));
}

void SimIpoibLink::expect_nothing_left() {
  EXPECT_TRUE(sink.indexes.empty());
  EXPECT_TRUE(sink.open.empty());
  EXPECT_TRUE(actions.ahs.empty());
  EXPECT_TRUE(actions.attached.empty());
  EXPECT_EQ(sa.members, 0U);
}

}  // namespace ipoib::link
