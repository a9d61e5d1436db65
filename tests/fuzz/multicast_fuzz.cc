// SPDX-License-Identifier: BSD-3-Clause
// The multicast router under any IGMP and MLD messages, packets from any source, routes, interfaces
// that come and go, and time. Groups, sources and deliveries are bounded. Deliveries make no loop
// and equal the table. Groups without hosts disappear in time. At the end, workers have no
// deliveries left.
// Input: steps of one octet each, followed by their arguments; see Step.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include "lib/route/multicast/multicast_router.h"
#include "lib/wire/icmpv6.h"
#include "lib/wire/igmp.h"
#include "lib/wire/mld.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace ipoib::route {
namespace {

using namespace std::chrono_literals;
using table::InterfaceId;
using test::Input;
using test::require;
using wire::IpAddr;

constexpr InterfaceId kInterfaces = 3;
constexpr std::size_t kMaxGroups = 6, kMaxSources = 4, kMaxEntries = 24, kMaxSeen = 6,
                      kMaxContests = 6, kMaxRoutes = 4;
/// Upper limit of the queries that one message causes.
constexpr std::size_t kMaxSent = 64;
/// Upper limit of the timers that expire within one step of time, which is ten minutes at most.
constexpr unsigned kMaxTurns = 50'000;

/// Longest time that passes in the steps of one input. Nothing here lasts longer than ten minutes
/// unless another querier asks for that, and further queries show nothing new.
constexpr Duration kLongest = 30min;

/// The low 4 bits of a step's octet. The others are the interface (bits 4, 5), the family (bit 6)
/// and an option (bit 7).
enum class Step : unsigned {
  /// Version, host, number of records. Each record: type, group, number of sources, sources.
  kReport,
  /// Version, from, group, response time, S and QRV, QQI, number of sources, sources.
  kQuery,
  kRaw,        ///< The next octets unchanged: length.
  kChanged,    ///< The last message with changed octets and the same checksum.
  kTime,       ///< Time passes: power of two, ms.
  kSeen,       ///< A packet without a table entry: group, source.
  kListen,     ///< This node joins a group.
  kUnlisten,   ///< This node leaves a group.
  kLink,       ///< The link goes down or up.
  kInterface,  ///< The interface stops or starts multicast routing.
  kAddress,    ///< An address of the interface disappears or becomes ready.
  kAddRoute,   ///< A static multicast route: groups, length, source, outgoing interfaces.
  kDelRoute,   ///< Removes a static route: index.
  kStray,      ///< Checks packets that arrive by a wrong interface: source.
  kAgain,      ///< The last message again.
  kForget,     ///< A long time passes.
};

std::vector<IpAddr> addresses(std::initializer_list<const char*> texts) {
  std::vector<IpAddr> out;
  for (const char* text : texts) out.push_back(*wire::parse_ip(text));
  return out;
}

const std::vector<IpAddr>& groups() {
  static const std::vector<IpAddr> list =
      addresses({"239.1.1.1", "239.1.1.2", "239.1.1.3", "239.1.1.4", "239.1.1.5", "239.1.1.6",
                 "239.1.1.7", "232.1.1.1", "224.0.0.5", "10.0.0.1", "ff0e::1", "ff0e::2", "ff35::1",
                 "ff02::5", "ff05::7", "fe80::1", "0.0.0.0", "::"});
  return list;
}

const std::vector<IpAddr>& hosts() {
  static const std::vector<IpAddr> list =
      addresses({"10.0.0.7", "10.0.0.8", "10.0.0.9", "10.0.0.1", "10.0.0.2", "0.0.0.0", "239.1.1.1",
                 "10.0.0.200", "fe80::7", "fe80::8", "fe80::1", "fe80::2", "fd00::7",
                 "::", "ff0e::1", "fe80::ffff"});
  return list;
}

/// The deliveries that workers have.
class Deliveries final : public DeliverySink {
 public:
  using Key = std::tuple<InterfaceId, IpAddr, IpAddr>;

  void set(const table::Delivery& d) override { entries[{d.in, d.addr, d.source}] = d; }
  void remove(InterfaceId in, const IpAddr& addr, const IpAddr& source) override {
    require(entries.erase({in, addr, source}) == 1);
  }

  std::map<Key, table::Delivery> entries;
};

/// Gives an MLD report without a source that of a host. An interface without an address sends such
/// reports, which snooping switches read and routers ignore. Source: RFC 3810 §5.2.13.
std::vector<std::byte> with_source(std::vector<std::byte> packet) {
  constexpr std::size_t kMessage = sizeof(wire::Ipv6Hdr) + 8;  // Behind the router alert.
  auto ip = wire::read<wire::Ipv6Hdr>(packet);
  require(ip.has_value() && packet.size() >= kMessage + sizeof(wire::MldHdr));
  auto header = *wire::read<wire::MldHdr>(packet, kMessage);
  if (ip->src != IpAddr{} || header.type == static_cast<std::uint8_t>(wire::MldType::kQuery))
    return packet;
  const std::span message = std::span{packet}.subspan(kMessage);
  require(wire::icmp6_checksum(ip->src, ip->dst, message) == 0);
  ip->src = *wire::parse_ip("fe80::7");
  header.checksum = {};
  require(wire::write(message, 0, header));
  header.checksum.set(wire::icmp6_checksum(ip->src, ip->dst, message));
  require(wire::write(message, 0, header) && wire::write(std::span{packet}, 0, *ip));
  return packet;
}

class Sender final : public MulticastSender {
 public:
  /// Expects valid queries, and reports of groups that this node receives.
  void send(InterfaceId iface, std::vector<std::byte> packet) override {
    require(iface < kInterfaces && !packet.empty());
    const bool v4 = std::to_integer<unsigned>(packet[0]) >> 4 == 4;
    const auto parsed = v4 ? wire::parse_igmp(packet) : wire::parse_mld(with_source(packet));
    require(parsed.has_value() && wire::is_multicast(parsed->dst));
    if (const auto* report = std::get_if<wire::MembershipReport>(&parsed->message))
      for (const wire::MembershipRecord& record : report->records) {
        require(GroupReporter::is_reported(record.group));
        require(received.contains({iface, record.group}));
      }
    ++sent;
  }

  std::size_t sent = 0;
  std::set<std::pair<InterfaceId, IpAddr>> received;  ///< Groups that this node received once.
};

MembershipConfig membership() {
  MembershipConfig c;
  c.max_groups = kMaxGroups;
  c.max_sources = kMaxSources;
  return c;
}

MulticastTableConfig bounds() {
  MulticastTableConfig c;
  c.max_entries = kMaxEntries;
  c.max_routes = kMaxRoutes;
  c.max_seen = kMaxSeen;
  c.max_contests = kMaxContests;
  return c;
}

class Harness {
 public:
  Harness() : router_{bounds(), sender_, deliveries_} {
    for (InterfaceId i = 0; i < kInterfaces; ++i) add_interface(i);
  }

  void run(Input in) {
    for (unsigned steps = 0; !in.empty() && steps < 256; ++steps) {
      sender_.sent = 0;
      step(in);
      check();
    }
    if (!foreign_queries_) expect_members_forgotten();
    clear();
    require(deliveries_.entries.empty() && router_.table().entries() == 0);
    require(!router_.next_deadline());
  }

 private:
  static const IpAddr& group(Input& in) { return groups()[in.octet() % groups().size()]; }
  static const IpAddr& host(Input& in) { return hosts()[in.octet() % hosts().size()]; }
  static std::vector<IpAddr> sources(Input& in) {
    std::vector<IpAddr> out;
    for (unsigned n = in.octet() % 8; n > 0; --n) out.push_back(host(in));
    return out;
  }
  static IpAddr own(InterfaceId i, IpFamily family) {
    IpAddr a = *wire::parse_ip(family == IpFamily::kIpv4 ? "10.0.0.5" : "fe80::5");
    a.bytes[14] = static_cast<std::byte>(i);
    return a;
  }

  void add_interface(InterfaceId i) {
    require(router_.add_interface(i, membership(), now_).has_value());
    for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6})
      router_.address_ready(i, own(i, family), now_);
    routing_.insert(i);
  }

  void step(Input& in) {
    const unsigned code = in.octet();
    const auto iface = static_cast<InterfaceId>((code >> 4 & 3) % kInterfaces);
    const IpFamily family = (code & 64) != 0 ? IpFamily::kIpv6 : IpFamily::kIpv4;
    const bool option = (code & 128) != 0;
    switch (static_cast<Step>(code & 15)) {
      case Step::kReport: return report(in, iface, family);
      case Step::kQuery: return query(in, iface, family);
      case Step::kRaw: {
        const auto octets = in.take(in.octet());
        return hear(iface, {octets.begin(), octets.end()});
      }
      case Step::kChanged: return hear(iface, changed(in));
      case Step::kTime: return let_pass(std::chrono::milliseconds{1U << in.octet() % 19});
      case Step::kSeen: {
        const IpAddr& g = group(in);
        const IpAddr& source = host(in);
        if (!option) return router_.table().packet_seen(g, source, now_);
        const unsigned other = in.octet();
        const auto from = static_cast<InterfaceId>(other % (kInterfaces + 1));
        return router_.table().packet_heard({g, source, iface, from, (other & 64) != 0}, now_);
      }
      case Step::kListen: return listen(iface, group(in));
      case Step::kUnlisten: return unlisten(iface, group(in));
      case Step::kLink: return option ? router_.link_up(iface, now_) : link_down(iface);
      case Step::kInterface: return option ? reinstate(iface) : remove(iface);
      case Step::kAddress:
        return option ? router_.address_ready(iface, own(iface, family), now_)
                      : router_.address_removed(iface, own(iface, family), now_);
      case Step::kAddRoute: return add_route(in, iface);
      case Step::kDelRoute: return remove_route(in.octet());
      case Step::kStray: return stray(iface, host(in));
      case Step::kAgain: return hear(iface, last_);
      case Step::kForget: return let_pass(600s);
    }
  }

  /// Such a packet leaves only by static routes from that interface.
  void stray(InterfaceId iface, const IpAddr& source) const {
    for (const IpAddr& g : groups()) {
      auto found = deliveries_.entries.find({iface, g, source});
      if (found == deliveries_.entries.end())
        found = deliveries_.entries.find({iface, g, IpAddr{}});
      if (found == deliveries_.entries.end()) continue;
      std::uint64_t out = found->second.out & ~found->second.from_reverse_path;
      for (const StaticMulticastRoute& route : router_.table().static_routes()) {
        if (route.in != iface || !wire::contains(route.groups, g)) continue;
        for (const InterfaceId to : route.out) out &= ~(std::uint64_t{1} << to);
      }
      require(out == 0);
    }
  }

  void report(Input& in, InterfaceId iface, IpFamily family) {
    wire::MembershipReport r;
    r.version = static_cast<wire::MembershipVersion>(1 + in.octet() % 3);
    const IpAddr& from = host(in);
    for (unsigned n = in.octet() % 8; n > 0; --n) {
      wire::MembershipRecord record;
      record.type = static_cast<wire::RecordType>(1 + in.octet() % 6);
      record.group = group(in);
      record.sources = sources(in);
      r.records.push_back(std::move(record));
    }
    // Older versions have one record without sources.
    if (r.version != wire::MembershipVersion::kV3) {
      r.records.resize(1);
      r.records[0].sources.clear();
    }
    hear(iface, family == IpFamily::kIpv4 ? wire::make_igmp(from, r) : wire::make_mld(from, r));
  }
  void query(Input& in, InterfaceId iface, IpFamily family) {
    wire::MembershipQuery q;
    q.version = static_cast<wire::MembershipVersion>(1 + in.octet() % 3);
    const IpAddr& from = host(in);
    q.group = group(in);
    q.max_response = std::chrono::milliseconds{in.number(2)};
    const unsigned flags = in.octet();
    q.suppress = (flags & 8) != 0;
    q.robustness = static_cast<std::uint8_t>(flags & 7);
    q.interval = std::chrono::seconds{in.number(2)};
    q.sources = sources(in);
    hear(iface, family == IpFamily::kIpv4 ? wire::make_igmp(from, q) : wire::make_mld(from, q));
  }
  std::vector<std::byte> changed(Input& in) const {
    auto packet = last_;
    for (unsigned n = in.octet() & 3; n > 0 && !packet.empty(); --n) {
      const std::size_t at = in.octet() % packet.size();
      packet[at] ^= static_cast<std::byte>(in.octet());
    }
    return packet;
  }
  void hear(InterfaceId iface, const std::vector<std::byte>& packet) {
    for (const auto& parsed : {wire::parse_igmp(packet), wire::parse_mld(packet)})
      if (parsed && std::holds_alternative<wire::MembershipQuery>(parsed->message))
        foreign_queries_ = true;
    (void)router_.on_packet(iface, packet, now_);
    require(sender_.sent <= kMaxSent);
    last_ = packet;
  }

  void listen(InterfaceId iface, const IpAddr& g) {
    if (!router_.listen(iface, g, now_)) return;
    ++listens_[{iface, g}];
    sender_.received.insert({iface, g});
  }
  void unlisten(InterfaceId iface, const IpAddr& g) {
    router_.unlisten(iface, g, now_);
    if (const auto it = listens_.find({iface, g}); it != listens_.end() && --it->second == 0)
      listens_.erase(it);
  }
  void link_down(InterfaceId iface) {
    router_.link_down(iface, now_);
    for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6})
      if (const auto* m = router_.membership(iface, family)) require(m->group_count() == 0);
  }
  void remove(InterfaceId iface) {
    router_.remove_interface(iface, now_);
    routing_.erase(iface);
    std::erase_if(listens_, [&](const auto& l) { return l.first.first == iface; });
  }
  void reinstate(InterfaceId iface) {
    if (!routing_.contains(iface)) add_interface(iface);
  }
  void add_route(Input& in, InterfaceId iface) {
    StaticMulticastRoute route;
    route.groups.addr = group(in);
    route.groups.len = static_cast<std::uint8_t>(in.octet() % 129);
    route.source = (in.octet() & 1) != 0 ? host(in) : IpAddr{};
    route.in = iface;
    const unsigned out = in.octet();
    for (InterfaceId i = 0; i < kInterfaces + 1; ++i)
      if ((out >> i & 1) != 0) route.out.push_back(i);
    sender_.received.insert({iface, route.groups.addr});
    (void)router_.add_static(route, now_);
  }
  void remove_route(unsigned which) {
    const auto routes = router_.table().static_routes();
    if (routes.empty()) return;
    require(router_.remove_static(routes[which % routes.size()], now_).has_value());
  }

  void let_pass(Duration d) {
    d = std::min(d, left_);
    left_ -= d;
    pass(d);
  }
  void pass(Duration d) {
    const TimePoint end = now_ + d;
    unsigned turns = 0;
    for (auto next = router_.next_deadline(); next && *next <= end;
         next = router_.next_deadline()) {
      now_ = std::max(now_, *next);
      router_.tick(now_);
      require(++turns < kMaxTurns);
    }
    now_ = end;
  }

  void check() const {
    const auto rows = router_.table().rows(now_);
    require(rows.size() == deliveries_.entries.size() && rows.size() <= kMaxEntries);
    require(router_.table().entries() == rows.size());
    require(router_.table().static_routes().size() <= kMaxRoutes);
    for (const auto& row : rows) check_delivery(row);
    for (InterfaceId i = 0; i < kInterfaces; ++i)
      for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6})
        if (const auto* m = router_.membership(i, family)) check_members(*m);
  }
  void check_delivery(const MulticastEntryInfo& row) const {
    const table::Delivery& d = row.delivery;
    const auto told = deliveries_.entries.find({d.in, d.addr, d.source});
    require(told != deliveries_.entries.end());
    require(told->second.local == d.local && told->second.out == d.out);
    require(told->second.from_reverse_path == d.from_reverse_path);
    require(told->second.stands_by == d.stands_by);
    require((row.left_to_other & d.out) == 0);
    require((d.out >> d.in & 1) == 0);
    if (d.out != 0) require(wire::is_multicast(d.addr) && !wire::is_link_scope_group(d.addr));
    // Hosts receive only from the interface towards the source.
    require((d.from_reverse_path & ~d.out) == 0);
    if (row.learned && !row.from_static) require(d.from_reverse_path == d.out);
    require(d.local == listens_.contains({d.in, d.addr}));
  }
  void check_members(const MulticastMembership& m) const {
    require(m.group_count() <= kMaxGroups);
    for (const MembershipInfo& row : m.groups(now_)) {
      require(wire::is_multicast(row.group) && !wire::is_link_scope_group(row.group));
      require(row.filter.sources.size() <= kMaxSources);
    }
  }

  /// The router forgets silent hosts after the membership interval, 260 s.
  void expect_members_forgotten() {
    pass(261s);
    for (InterfaceId i = 0; i < kInterfaces; ++i)
      for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6})
        if (const auto* m = router_.membership(i, family)) require(m->group_count() == 0);
    for (const auto& row : router_.table().rows(now_)) require(!row.learned);
  }
  void clear() {
    while (!router_.table().static_routes().empty()) remove_route(0);
    for (const auto& [key, n] : listens_)
      for (unsigned i = 0; i < n; ++i) router_.unlisten(key.first, key.second, now_);
    for (InterfaceId i = 0; i < kInterfaces; ++i) router_.remove_interface(i, now_);
    pass(211s);  // Records of seen packets expire.
  }

  TimePoint now_{std::chrono::hours(1)};
  Duration left_ = kLongest;
  Sender sender_;
  Deliveries deliveries_;
  std::set<InterfaceId> routing_;
  std::map<std::pair<InterfaceId, IpAddr>, unsigned> listens_;
  MulticastRouter router_;
  std::vector<std::byte> last_;
  bool foreign_queries_ = false;  ///< Another router may ask for longer times.
};

}  // namespace
}  // namespace ipoib::route

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::route::Harness{}.run(ipoib::test::Input{ipoib::test::input(data, size)});
  return 0;
}
