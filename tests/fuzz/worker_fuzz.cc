// SPDX-License-Identifier: BSD-3-Clause
// Any octets arrive by an Ethernet port or an IPoIB link. The worker counts, sends or punts each
// packet, and every mbuf returns to the pool.
// Input: one octet of options, one with the end of the first segment, then the frame from its
// Ethernet or IPoIB header on.
#include <rte_mempool.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "lib/fwd/filter/filter_table.h"
#include "lib/fwd/ip4_header.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/eal.h"
#include "tests/support/worker_fixture.h"

namespace ipoib::fwd::test {
namespace {

using ipoib::test::require;
using msg::Up;

/// Bits of the first octet.
enum Option : unsigned {
  kLink = 1,           ///< Arrives by ib0; otherwise by eth0.
  kByMulticast = 2,    ///< On a link: arrives by a group's MGID.
  kOwnMac = 4,         ///< On a port: the destination becomes the port's own address.
  kRightChecksum = 8,  ///< The checksum of an IPv4 header is corrected.
  kSegments = 16,      ///< The packet has two segments.
  kStopped = 32,       ///< Forwarding is off.
  kPlainHost = 64,     ///< No multicast router.
  kFiltered = 128,     ///< Filter rules compare all members of packets.
};

/// Counts of a packet's ways out. A packet for which an ICMP error is wanted counts as lost.
struct Outcome {
  std::uint64_t lost = 0;
  std::size_t sent = 0;
  std::size_t up = 0;
};

class Harness final : public WorkerFixture {
 public:
  static Harness& instance() {
    static auto* const harness = new Harness;
    return *harness;
  }
  void run(std::span<const std::byte> input);

 private:
  Harness();
  void TestBody() override {}
  void add_neighbours();
  void make_filters();
  void feed(unsigned options, std::size_t first, Bytes frame);
  Outcome collect();
  static Bytes adjusted(unsigned options, Bytes frame);

  std::unique_ptr<FilterTable> filters_;
  std::uint64_t lost_ = 0;  ///< Drops until now.
  unsigned available_ = 0;  ///< Free mbufs while no packet is in progress.
};

constexpr std::size_t header_len(unsigned options) {
  return (options & kLink) != 0 ? sizeof(wire::IpoibHdr) : 14;
}

Harness::Harness() {
  require(start_eal("fuzz"));
  WorkerFixture::SetUp();
  configs[0].punt.interval_us = 1;  // Each packet renews all limits.
  entries[kIb0].copy_to_routers = true;
  links[0].first_group = 8;
  start();
  add_neighbours();
  make_filters();
  available_ = rte_mempool_avail_count(pool);
}

/// Neighbours of all kinds: valid, failed and unknown ones, and groups with and without members.
void Harness::add_neighbours() {
  using table::NeighbourState;
  add_route("10.9.0.0/16", {table::NextHopKind::kBlackhole, 0, 0, table::kNoNeighbour});
  add_route("10.8.0.0/16", {table::NextHopKind::kGateway, 0, kEth1, 2});
  set_neighbour(0, eth_neighbour(kEth0, "192.168.1.10", mac(0x10)));
  set_neighbour(1, ib_neighbour(kIb0, "10.0.0.2", 7, 0xabcdef));
  set_neighbour(2, eth_neighbour(kEth1, "192.168.2.10", mac(0x20)));
  set_neighbour(3, eth_neighbour(kEth0, "fd00:1::10", mac(0x10)));
  set_neighbour(4, ib_neighbour(kIb0, "fd00:a::2", 7, 0xabcdef));
  table::Neighbour failed = ib_neighbour(kIb0, "10.0.0.3", 7, 1);
  failed.state = NeighbourState::kFailed;
  set_neighbour(5, failed);
  set_neighbour(6, eth_neighbour(kEth1, "239.1.2.3", mac(0x30)));
  set_neighbour(7, ib_neighbour(kIb1, "239.1.2.3", 8, 0xffffff));
  set_neighbour(8, ib_neighbour(kIb1, "224.0.0.2", 9, 0xffffff));
  set_neighbour(9, ib_neighbour(kIb1, "ff0e::123", 8, 0xffffff));
  table::Neighbour narrow = eth_neighbour(kEth1, "192.168.2.11", mac(0x21));
  narrow.mtu = 68;
  set_neighbour(10, narrow);
  set_neighbour(11, eth_neighbour(kEth1, "239.1.2.4", mac(0x31)));
  set_neighbour(12, ib_neighbour(kIb1, "239.1.2.4", 8, 0xffffff));
  set_neighbour(13, ib_neighbour(kIb1, "ff0e::124", 10, 0xffffff));
  set_neighbour(14, ib_neighbour(kIb0, "239.1.2.3", 8, 0xffffff));
  set_neighbour(15, ib_neighbour(kIb0, "ff0e::123", 8, 0xffffff));
  for (const table::InterfaceId in : {kEth0, kIb0}) {
    set_delivery(in, "239.1.2.3", true, 0xf);
    set_delivery(in, "239.1.2.3", false, 0, "10.0.0.9");
    set_delivery(in, "ff0e::123", true, 0xf);
    set_delivery(in, "239.1.2.4", false, 1U << kIb1);
    set_delivery(in, "239.1.2.4", false, 1U << kEth1, "10.0.0.2");
    set_delivery(in, "ff0e::124", false, 1U << kIb1, "::", 1U << kIb1);
    set_delivery(in, "ff02::1", true, 0);
    set_delivery(in, "fe80::a0", true, 0);
  }
  loop();
}

void Harness::make_filters() {
  std::vector<NumberedRule> rules;
  for (const FilterDirection direction : {FilterDirection::kIn, FilterDirection::kOut}) {
    rules.push_back({kEth1, {.direction = direction, .action = FilterAction::kDrop}});
    for (const std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}})
      rules.push_back({table::kNoInterface,
                       {.direction = direction,
                        .action = FilterAction::kDrop,
                        .protocol = protocol,
                        .source_ports = PortRange{1024, 65'535},
                        .destination_ports = PortRange{0, 1023}}});
    rules.push_back(
        {table::kNoInterface, {.direction = direction, .action = FilterAction::kAccept}});
  }
  auto made = FilterTable::create(rules, {.interfaces = entries.size()});
  require(made.has_value());
  filters_ = std::move(*made);
}

/// Returns the frame with corrections that a fuzzer would need long to find.
Bytes Harness::adjusted(unsigned options, Bytes frame) {
  const std::size_t at = header_len(options);
  if ((options & kLink) == 0 && (options & kOwnMac) != 0 && frame.size() >= 6) {
    const wire::MacAddr own = mac(0xa0);
    std::copy(own.begin(), own.end(), frame.begin());
  }
  if ((options & kRightChecksum) != 0 && frame.size() >= at + sizeof(wire::Ipv4Hdr)) {
    const std::size_t len = (std::to_integer<std::size_t>(frame[at]) & 0xf) * 4;
    if (len < sizeof(wire::Ipv4Hdr) || frame.size() < at + len) return frame;
    std::array<std::byte, 60> aligned;
    std::memcpy(aligned.data(), &frame[at], len);
    set_ip4_checksum(*reinterpret_cast<wire::Ipv4Hdr*>(aligned.data()), len);
    std::memcpy(&frame[at], aligned.data(), len);
  }
  return frame;
}

void Harness::feed(unsigned options, std::size_t first, Bytes frame) {
  settings.forwarding = (options & kStopped) == 0;
  settings.filters = (options & kFiltered) != 0 ? filters_.get() : nullptr;
  for (InterfaceEntry& entry : entries) entry.multicast_router = (options & kPlainHost) == 0;
  for (FakeUdQueue& link : links) link.room = 1000;
  std::vector<std::size_t> segments;
  if ((options & kSegments) != 0)
    segments = {std::min(first, frame.size()), frame.size() - std::min(first, frame.size())};
  rte_mbuf* const m = mbuf(frame, segments);
  if ((options & kLink) != 0)
    receive(kIb0, m, (options & kByMulticast) != 0);
  else
    receive(kEth0, m);
}

Outcome Harness::collect() {
  Outcome out;
  const std::uint64_t lost = all_drops();
  out.lost = lost - std::exchange(lost_, lost);
  for (const table::InterfaceId i : {kEth0, kEth1}) out.sent += sent_by_port(i).size();
  for (const table::InterfaceId i : {kIb0, kIb1}) out.sent += sent_by_link(i).size();
  for (const Punted& p : punted()) {
    switch (p.message.kind) {
      case Up::Kind::kIcmpError:
      case Up::Kind::kMulticastUnknown:
      case Up::Kind::kMulticastHeard:
      case Up::Kind::kRedirectWanted: break;
      default: ++out.up;
    }
  }
  return out;
}

bool may_be_copied(unsigned options, std::span<const std::byte> frame) {
  const std::size_t at = header_len(options);
  const auto octet = [&](std::size_t i) {
    return i < frame.size() ? std::to_integer<unsigned>(frame[i]) : 0;
  };
  return octet(at + 16) >> 4 == 0xe || octet(at + 24) == 0xff;
}

void Harness::run(std::span<const std::byte> input) {
  constexpr std::size_t kMaxLen = 1800;  // Fits in one mbuf.
  if (input.size() < 2 || input.size() > kMaxLen) return;
  const auto options = std::to_integer<unsigned>(input[0]);
  const Bytes frame = adjusted(options, Bytes(input.begin() + 2, input.end()));
  feed(options, std::to_integer<std::size_t>(input[1]), frame);
  loop();
  const Outcome out = collect();
  const std::uint64_t ways = out.lost + out.sent + out.up;
  require(ways != 0);
  const bool fragments = out.sent > 1 && out.lost + out.up == 0;
  require(ways == 1 || fragments || may_be_copied(options, frame));
  require(rte_mempool_avail_count(pool) == available_);
}

}  // namespace
}  // namespace ipoib::fwd::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::fwd::test::Harness::instance().run(ipoib::test::input(data, size));
  return 0;
}
