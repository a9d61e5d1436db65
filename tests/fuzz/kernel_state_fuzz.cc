// SPDX-License-Identifier: BSD-3-Clause
// The model of the kernel's routing state under any messages of rtnetlink, snapshots and losses. The
// sink hears of each object once, and of its end once. A snapshot leads to the same state as it does
// without a history, and one without objects leaves nothing.
// Input: messages, each with the octets type (bits 0 to 2), flags and length, and its payload.
// Types 8 and 9 begin and end a snapshot, and 10 is a loss.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "lib/mgmt/linux/kernel_state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

namespace ipoib::mgmt {
namespace {

using test::Input;
using test::require;

constexpr std::size_t kMaxMessages = 64;
constexpr unsigned kMaxTurns = 1'000;
constexpr std::uint16_t kTypes[] = {RTM_NEWLINK,    RTM_DELLINK,    RTM_NEWADDR,  RTM_DELADDR,
                                    RTM_NEWNEXTHOP, RTM_DELNEXTHOP, RTM_NEWROUTE, RTM_DELROUTE};
constexpr std::uint16_t kFlags[] = {0, NLM_F_MULTI, NLM_F_REPLACE, NLM_F_CREATE | NLM_F_APPEND};
enum : unsigned { kBegin = 8, kEnd = 9, kLoss = 10 };

/// A message at an aligned address, in a buffer of its length.
struct Message {
  std::vector<std::uint32_t> words;

  [[nodiscard]] nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(words.data()); }
};

struct Sink final : KernelStateSink {
  void link_changed(std::int32_t ifindex, const KernelLink* link) override {
    if (link != nullptr)
      links[ifindex] = *link;
    else
      require(links.erase(ifindex) == 1);
  }
  void address_added(std::int32_t ifindex, const KernelAddress& address) override {
    require(addresses.insert({ifindex, address}).second);
  }
  void address_removed(std::int32_t ifindex, const KernelAddress& address) override {
    require(addresses.erase({ifindex, address}) == 1);
  }
  void route_set(const KernelRouteEntry& route) override {
    const bool unicast = route.type == KernelRouteType::kUnicast;
    require(route.paths.empty() != unicast && wire::network(route.to) == route.to.addr);
    for (const KernelPath& path : route.paths)
      require(path.weight != 0 && links.contains(path.ifindex));
    auto& known = routes[{route.to, route.metric}];
    require(known != route);
    known = route;
  }
  void route_removed(const wire::IpPrefix& to, std::uint32_t metric) override {
    require(routes.erase({to, metric}) == 1);
  }
  void in_step() override {}

  std::map<std::int32_t, KernelLink> links;
  std::set<std::pair<std::int32_t, KernelAddress>> addresses;
  std::map<std::pair<wire::IpPrefix, std::uint32_t>, std::optional<KernelRouteEntry>> routes;
};

void advance(KernelState& state) {
  unsigned turns = 0;
  while (state.advance()) require(++turns < kMaxTurns);
}

/// The kernel lists links first, then addresses, objects and routes, and each but routes once.
void give_snapshot(KernelState& state, std::vector<Message>& listed) {
  state.on_snapshot_begin();
  for (Message& message : listed) {
    message.header().nlmsg_flags = NLM_F_MULTI;
    state.on_message(message.header());
  }
  state.on_snapshot_end();
  advance(state);
}

std::vector<Message> listed_of(std::vector<Message> messages) {
  std::erase_if(messages, [](Message& message) {
    const auto type = message.header().nlmsg_type;
    return type != RTM_NEWLINK && type != RTM_NEWADDR && type != RTM_NEWNEXTHOP &&
           type != RTM_NEWROUTE;
  });
  const auto rank = [](Message& message) {
    return std::find(std::begin(kTypes), std::end(kTypes), message.header().nlmsg_type);
  };
  std::stable_sort(messages.begin(), messages.end(),
                   [&rank](Message a, Message b) { return rank(a) < rank(b); });
  std::set<std::int32_t> links;
  std::set<std::uint32_t> objects;
  std::erase_if(messages, [&](Message& message) {
    const auto type = message.header().nlmsg_type;
    if (type == RTM_NEWLINK) {
      const auto link = read_kernel_link(message.header());
      return link && !links.insert(link->ifindex).second;
    }
    const auto object = read_kernel_next_hop(message.header());
    return type == RTM_NEWNEXTHOP && object && !objects.insert(object->id).second;
  });
  return messages;
}

void run(Input input) {
  Sink sink, fresh_sink;
  KernelState state{sink, KernelState::kMainTable, 1};
  KernelState fresh{fresh_sink, KernelState::kMainTable, 2};
  std::vector<Message> messages;
  bool in_snapshot = false;
  while (!input.empty() && messages.size() < kMaxMessages) {
    const unsigned step = input.octet() % 11;
    if (step == kBegin) state.on_snapshot_begin();
    if (step == kEnd && in_snapshot) state.on_snapshot_end();
    if (step == kLoss) state.on_loss();
    if (step == kBegin || step == kEnd) in_snapshot = step == kBegin;
    if (step >= kBegin) continue;
    const std::uint16_t flags = input.one_of(kFlags);
    const auto payload = input.take(input.octet() * 4U);
    Message message;
    message.words.resize((sizeof(nlmsghdr) + payload.size() + 3) / 4);
    nlmsghdr& header = message.header();
    header.nlmsg_len = static_cast<std::uint32_t>(sizeof(nlmsghdr) + payload.size());
    header.nlmsg_type = kTypes[step];
    header.nlmsg_flags = flags;
    if (!payload.empty())
      std::memcpy(message.words.data() + sizeof(nlmsghdr) / 4, payload.data(), payload.size());
    state.on_message(header);
    advance(state);
    messages.push_back(std::move(message));
  }
  std::vector<Message> listed = listed_of(std::move(messages));
  give_snapshot(state, listed);
  give_snapshot(fresh, listed);
  require(sink.links == fresh_sink.links && sink.addresses == fresh_sink.addresses &&
          sink.routes == fresh_sink.routes);
  require(state.routes().size() == fresh.routes().size());
  listed.clear();
  give_snapshot(state, listed);
  require(sink.links.empty() && sink.addresses.empty() && sink.routes.empty());
  require(state.routes().size() == 0 && state.paths().contents() == 0 &&
          state.paths().reports() == 0);
}

}  // namespace
}  // namespace ipoib::mgmt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::mgmt::run(ipoib::mgmt::Input{ipoib::test::input(data, size)});
  return 0;
}
