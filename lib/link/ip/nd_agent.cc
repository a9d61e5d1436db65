// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ip/nd_agent.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/link/ip/address_class.h"
#include "lib/link/ip/subnet_proxy.h"
#include "lib/wire/subnet_anycast.h"

namespace ipoib::link {
namespace {

constexpr Duration kNaInterval = std::chrono::seconds(1);    // RFC 4861 §7.2.6
constexpr Duration kAnycastDelay = std::chrono::seconds(1);  // RFC 4861 §10
constexpr std::size_t kMaxAnycastQuestions = 64;
constexpr Duration kMtuInterval = std::chrono::seconds(1);
constexpr Duration kMtuLogInterval = std::chrono::seconds(60);
constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint32_t kValid = 30 * 24 * 3600;     // RFC 4861 §6.2.1
constexpr std::uint32_t kPreferred = 7 * 24 * 3600;  // RFC 4861 §6.2.1

}  // namespace

NdAgent::NdAgent(const NdPlace& place, Medium& medium, NeighbourCache& cache, std::uint64_t seed)
    : place_{place},
      medium_{medium},
      cache_{cache},
      addresses_{place.name, place.config, *this, seed ^ 11},
      advertiser_{place.config, seed ^ 12},
      discovery_{
          place.config,
          [this](const wire::IpAddr& router, bool usable) { on_default_router(router, usable); },
          seed ^ 13},
      mtu_ignored_log_{kMtuLogInterval},
      conflicts_{place.name},
      random_{seed ^ 14} {}

// --- Life ---

void NdAgent::up(const std::vector<wire::IpPrefix>& configured, std::uint64_t interface_id,
                 std::uint16_t mtu, TimePoint now) {
  if (!place_.config.enabled) {
    reason_ = "not configured";
    return;
  }
  if (mtu < wire::kMinIpv6Mtu) {
    down(now);
    reason_ = fmt::format("the MTU {} is less than {} octets, the minimum of IPv6", mtu,
                          wire::kMinIpv6Mtu);
    log(LogArea::kLink, LogLevel::kWarning, "{}: IPv6 disabled: {}", place_.name, reason_);
    return;
  }
  if (running_ && interface_id != interface_id_) down(now);
  interface_id_ = interface_id;
  if (link_mtu_ != mtu) {
    link_mtu_ = mtu;
    mtu_from_.reset();
    apply_mtu(mtu);
    if (advertiser_.running()) advertiser_.start(now);  // hosts must learn it (RFC 4861 §6.2.4)
  }
  if (!running_) return start(configured, interface_id, now);
  addresses_.retry(now);
  for (const auto& own : addresses_.ready()) announce(own.addr, now);
}

void NdAgent::start(const std::vector<wire::IpPrefix>& configured, std::uint64_t interface_id,
                    TimePoint now) {
  running_ = true;
  reason_.clear();
  place_.groups.add(wire::all_nodes(), now);
  if (place_.config.routing) place_.groups.add(wire::all_routers(), now);
  // The link-local one is the first, because the other addresses need it to send.
  std::vector<wire::IpPrefix> addresses{{wire::link_local(interface_id), 64}};
  std::copy_if(configured.begin(), configured.end(), std::back_inserter(addresses),
               [](const auto& own) { return !own.addr.is_v4(); });
  addresses_.start(addresses, now);
  discovery_.start(now);
}

void NdAgent::down(TimePoint now) {
  if (!running_) return;
  if (advertiser_.running()) advertise_router(0, now);
  advertiser_.stop();
  discovery_.stop();
  again_.clear();
  anycast_questions_.clear();
  addresses_.stop(now);
  place_.groups.remove(wire::all_nodes(), now);
  if (place_.config.routing) place_.groups.remove(wire::all_routers(), now);
  running_ = false;
  reason_ = "the interface is down";
  link_mtu_ = 0;
}

void NdAgent::share(SharedAddresses& shared, const std::vector<wire::IpPrefix>& addresses) {
  shared_ = &shared;
  for (const auto& own : addresses)
    if (!own.addr.is_v4() && shared.has(own.addr)) addresses_.set_detection(own.addr, false);
}

void NdAgent::add(const wire::IpPrefix& address, bool detect, TimePoint now) {
  addresses_.set_detection(address.addr, detect);
  if (running_) addresses_.add(address, now);
}

void NdAgent::remove(const wire::IpPrefix& address, TimePoint now) {
  if (running_ && address.addr == wire::link_local(interface_id_)) return;  // it has it anyway
  addresses_.remove(address.addr, now);
  if (advertiser_.running()) advertiser_.start(now);  // hosts must learn it (RFC 4861 §6.2.4)
}

void NdAgent::apply_mtu(std::uint16_t mtu) {
  mtu_ = mtu;
  const std::uint16_t limit = mtu < link_mtu_ ? mtu : std::uint16_t{0};
  cache_.limit_mtu6(limit);
  medium_.limit_mtu6(limit);
}

void NdAgent::begin(const wire::IpPrefix& address, TimePoint now) {
  place_.groups.add(wire::solicited_node(address.addr), now);
  if (const auto anycast = anycast_of(address))
    place_.groups.add(wire::solicited_node(*anycast), now);
}

void NdAgent::end(const wire::IpPrefix& address, TimePoint now) {
  place_.groups.remove(wire::solicited_node(address.addr), now);
  if (const auto anycast = anycast_of(address))
    place_.groups.remove(wire::solicited_node(*anycast), now);
}

void NdAgent::ready(const wire::IpPrefix& address, TimePoint now) {
  if (wire::is_link_local6(address.addr)) {
    place_.receiver.listen(place_.id, address.addr);
    if (place_.config.routing && place_.config.router_advertisement) advertiser_.start(now);
  } else if (advertiser_.running()) {
    advertiser_.start(now);  // hosts must learn the prefix (RFC 4861 §6.2.4)
  }
  place_.receiver.address_ready(place_.id, address);
  announce(address.addr, now);
}

void NdAgent::on_address_removed(const wire::IpPrefix& address, TimePoint) {
  again_.remove(address.addr);
  if (wire::is_link_local6(address.addr)) place_.receiver.unlisten(place_.id, address.addr);
  place_.receiver.address_removed(place_.id, address);
}

void NdAgent::duplicate(const wire::IpPrefix& address) {
  place_.receiver.address_duplicate(place_.id, address);
}

// --- Sending ---

bool NdAgent::to_group(const Message& message, TimePoint now) {
  ++counters_.sent;
  return medium_.send_to_group(message.dst, wire::build_nd(message, medium_.format()), now);
}

void NdAgent::unicast(const wire::HwAddr& to, std::span<const std::byte> packet, TimePoint now) {
  ++counters_.sent;
  medium_.send(to, wire::EtherType::kIpv6, packet, now);
}

bool NdAgent::ask(const wire::IpAddr& addr, const wire::NdNonce& nonce, TimePoint now) {
  Message m;
  m.dst = wire::solicited_node(addr);
  m.target = addr;
  m.nonce = nonce;
  return to_group(m, now);
}

/// Returns a solicitation for `addr` to all hosts; empty, and counted, without a source for it.
std::optional<wire::NdMessage> NdAgent::solicitation(const wire::IpAddr& addr) {
  const auto source = addresses_.source_for(addr);
  if (!running_ || !source) {
    ++counters_.unsent;
    return std::nullopt;
  }
  Message m;
  m.src = *source;
  m.dst = wire::solicited_node(addr);
  m.target = addr;
  m.source_hw = medium_.own_hw();
  return m;
}

/// Only hosts of the target's group hear it. A target option is the mark of a proxy.
void NdAgent::request(const wire::IpAddr& addr, unsigned, TimePoint now) {
  auto m = solicitation(addr);
  if (!m) return;
  if (proxy_ != nullptr) m->target_hw = m->source_hw;
  to_group(*m, now);
}

void NdAgent::probe(const wire::IpAddr& addr, const wire::HwAddr& hw, TimePoint now) {
  auto m = solicitation(addr);
  if (!m) return;
  m->dst = addr;
  m->source_hw = medium_.own_hw_for(hw);
  unicast(hw, wire::build_nd(*m, medium_.format()), now);
}

/// Other next hops must be found for packets through the neighbour (RFC 4861 §7.3.3).
void NdAgent::failed(const wire::IpAddr& addr) {
  if (place_.config.accept_ra) place_.receiver.neighbour_failed(place_.id, addr);
}

void NdAgent::announce_once(const wire::IpAddr& addr, TimePoint now) {
  Message m;
  m.type = wire::Icmp6Type::kNeighbourAdvertisement;
  m.src = addr;
  m.dst = wire::all_nodes();
  m.target = addr;
  m.router = place_.config.routing;
  m.override_it = true;
  m.target_hw = medium_.own_hw();
  to_group(m, now);
}

void NdAgent::announce(const wire::IpAddr& addr, TimePoint now) {
  if (is_shared(addr)) return;
  announce_once(addr, now);
  again_.add(addr, now + kNaInterval);
}

/// The address that this node shares with the other routers of the subnet of `own`; empty if it
/// routes no packets there.
std::optional<wire::IpAddr> NdAgent::anycast_of(const wire::IpPrefix& own) const {
  if (!place_.config.routing || wire::is_link_local6(own.addr)) return std::nullopt;
  return wire::subnet_router_anycast(own);
}

bool NdAgent::is_router_anycast(const wire::IpAddr& addr) const {
  const auto ready = addresses_.ready();
  return std::any_of(ready.begin(), ready.end(),
                     [&](const wire::IpPrefix& own) { return anycast_of(own) == addr; });
}

/// Each router answers at a time of its own, so that the host takes the first one (RFC 4861 §7.2.7).
void NdAgent::answer_later(const Message& question, TimePoint now) {
  const bool waits =
      std::any_of(anycast_questions_.begin(), anycast_questions_.end(), [&](const auto& other) {
        return other.second.src == question.src && other.second.target == question.target;
      });
  if (waits) return;
  if (anycast_questions_.size() >= kMaxAnycastQuestions) {
    ++counters_.unsent;
    return;
  }
  std::uniform_int_distribution<Duration::rep> delay{0, kAnycastDelay.count()};
  anycast_questions_.emplace(now + Duration{delay(random_)}, question);
}

/// RFC 4861 §7.2.4; for an anycast address RFC 4861 §7.2.7.
void NdAgent::answer(const Message& question, TimePoint now) {
  const bool anonymous = wire::is_unspecified(question.src);
  const bool own = addresses_.state(question.target) == AddressState::kReady;
  Message m;
  m.type = wire::Icmp6Type::kNeighbourAdvertisement;
  m.src = own ? question.target : addresses_.source_for(question.target).value_or(question.target);
  m.dst = anonymous ? wire::all_nodes() : question.src;
  m.target = question.target;
  m.router = place_.config.routing;
  m.solicited = !anonymous;
  // All hosts hear an answer to duplicate address detection: they keep to their member.
  m.override_it = own && !(anonymous && is_shared(question.target));
  m.target_hw = medium_.own_hw();
  if (anonymous) {
    to_group(m, now);
    return;
  }
  const auto to = question.source_hw ? question.source_hw : cache_.hw_of(question.src);
  if (!to) {
    ++counters_.unsent;
    return;
  }
  m.target_hw = medium_.own_hw_for(*to);
  unicast(*to, wire::build_nd(m, medium_.format()), now);
}

/// RFC 4861 §6.2.3. Lifetime 0: not a default router, or no longer.
void NdAgent::advertise_router(std::uint16_t lifetime_s, TimePoint now) {
  const auto source = addresses_.link_local();
  if (!source) {
    ++counters_.unsent;
    return;
  }
  Message m;
  m.type = wire::Icmp6Type::kRouterAdvertisement;
  m.src = *source;
  m.dst = wire::all_nodes();
  m.hop_limit = kHopLimit;
  m.lifetime_s = lifetime_s;
  // Without it hosts solicit the address, and get their own: "load sharing" in RFC 4861 §6.2.3.
  if (!medium_.has_several_addresses()) m.source_hw = medium_.own_hw();
  m.mtu = link_mtu_;
  const auto prefixes = own_prefixes();
  const std::size_t max =
      (link_mtu_ - wire::build_nd(m, medium_.format()).size()) / wire::kPrefixOptionLen;
  // Sends several if needed: each must fit the MTU.
  for (std::size_t at = 0; at == 0 || at < prefixes.size(); at += max) {
    const auto part = std::span{prefixes}.subspan(at).first(std::min(max, prefixes.size() - at));
    m.prefixes.assign(part.begin(), part.end());
    to_group(m, now);
  }
}

/// The prefixes of the router's own addresses, for its advertisements.
std::vector<wire::NdPrefix> NdAgent::own_prefixes() const {
  std::vector<wire::NdPrefix> prefixes;
  for (const auto& own : addresses_.ready()) {
    const wire::IpPrefix prefix{wire::network(own), own.len};
    const bool advertised = std::any_of(prefixes.begin(), prefixes.end(),
                                        [&](const auto& p) { return p.prefix == prefix; });
    if (advertised || own.len == 128 || wire::is_link_local6(own.addr)) continue;
    prefixes.push_back({prefix, true, own.len == 64, kValid, kPreferred});
  }
  return prefixes;
}

void NdAgent::solicit_routers(TimePoint now) {
  Message m;
  m.type = wire::Icmp6Type::kRouterSolicitation;
  m.dst = wire::all_routers();
  if (const auto source = addresses_.link_local()) {
    m.src = *source;
    m.source_hw = medium_.own_hw();
  }
  to_group(m, now);
}

void NdAgent::send_redirect(std::span<const std::byte> offending, const wire::IpAddr& next_hop,
                            TimePoint now) {
  const auto source = addresses_.link_local();
  const auto ip = wire::read<wire::Ipv6Hdr>(offending);
  const bool may_send = running_ && source && ip && on_link(ip->src);
  const auto to = may_send ? cache_.hw_of(ip->src) : std::nullopt;
  const auto packet = to ? wire::make_redirect(medium_.format(), *source, offending, next_hop,
                                               cache_.hw_of(next_hop))
                         : std::nullopt;
  if (!packet) {
    ++counters_.unsent;
    return;
  }
  unicast(*to, *packet, now);
}

// --- Receiving ---

std::optional<wire::HwAddr> NdAgent::on_nd(std::span<const std::byte> packet, TimePoint now) {
  ++counters_.received;
  const auto m = wire::parse_nd(medium_.format(), packet);
  if (!m) {
    ++counters_.invalid;
    ++counters_.errors[static_cast<std::size_t>(m.error())];
    return std::nullopt;
  }
  if (!running_ || !may_handle(*m, now)) return std::nullopt;
  handle(*m, now);
  return sender_of(*m);
}

void NdAgent::handle(const Message& m, TimePoint now) {
  switch (m.type) {
    case wire::Icmp6Type::kNeighbourSolicitation: return on_solicitation(m, now);
    case wire::Icmp6Type::kNeighbourAdvertisement: return on_advertisement(m, now);
    case wire::Icmp6Type::kRouterSolicitation: return on_router_solicitation(m, now);
    case wire::Icmp6Type::kRouterAdvertisement: return on_router_advertisement(m, now);
    case wire::Icmp6Type::kRedirect: return on_redirect(m, now);
    default: return;
  }
}

/// An advertisement names its sender as the target, all other messages as the source.
const std::optional<wire::HwAddr>& NdAgent::sender_of(const Message& m) {
  return m.type == wire::Icmp6Type::kNeighbourAdvertisement ? m.target_hw : m.source_hw;
}

/// Returns false for own messages that the fabric reflected, for implausible link-layer addresses,
/// and for messages from own addresses, which are conflicts.
bool NdAgent::may_handle(const Message& m, TimePoint now) {
  const auto& sender_hw = sender_of(m);
  if (sender_hw && medium_.is_own(*sender_hw)) return false;
  for (const auto& hw : {m.source_hw, m.target_hw}) {
    if (!hw || hw->is_plausible()) continue;
    ++counters_.invalid;
    ++counters_.errors[static_cast<std::size_t>(wire::NdError::kLinkAddr)];
    return false;
  }
  if (addresses_.state(m.src)) {
    on_conflict(m, m.src, now);
    return false;
  }
  return proxy_ == nullptr || !proxy_ignores(m, now);
}

/// RFC 4861 §7.2.3; for a tentative address RFC 4862 §5.4.3.
void NdAgent::on_solicitation(const Message& m, TimePoint now) {
  const auto state = addresses_.state(m.target);
  const bool anonymous = wire::is_unspecified(m.src);
  if (state == AddressState::kTentative && anonymous) return on_conflict(m, m.target, now);
  const bool own = state == AddressState::kReady;
  const bool anycast = !state && is_router_anycast(m.target);
  const bool for_us = own || anycast;
  if (!anonymous && m.source_hw) learn(m.src, *m.source_hw, for_us && on_link(m.src), now);
  // Solicitations to this node alone may lack the option.
  const auto hw = m.source_hw || anonymous ? m.source_hw : cache_.hw_of(m.src);
  if (own && (!is_shared(m.target) || shared_->answers(m.target, m.src, hw, now))) answer(m, now);
  if (anycast) answer_later(m, now);
  if (proxy_ != nullptr && !state && !anycast) proxy_asked(m, now);
}

/// RFC 4861 §7.2.5.
void NdAgent::on_advertisement(const Message& m, TimePoint now) {
  if (addresses_.state(m.target)) return on_conflict(m, m.target, now);
  const bool shared = proxy_ != nullptr && proxy_->shares(*side_, m.target);
  if (shared && m.target_hw && (m.solicited || m.override_it) && proxy_->wants(*side_, m.target)) {
    const auto evidence = m.solicited ? Evidence::kReply : Evidence::kOther;
    static_cast<void>(cache_.learn(m.target, *m.target_hw, evidence, true, now));
  }
  const bool first = medium_.has_several_addresses() && !cache_.hw_of(m.target);
  if (!cache_.advertised(m.target, m.target_hw, m.solicited, m.override_it, now))
    on_contradiction(m.target, m.target_hw, now);
  else if (shared)
    proxy_->heard(*side_, m.target, now);
  if (!m.router) discovery_.lost(m.target);
  // The solicitation of its group named the interface's first address; this one names that for it.
  if (first && m.solicited && cache_.hw_of(m.target)) probe(m.target, *m.target_hw, now);
}

void NdAgent::on_router_solicitation(const Message& m, TimePoint now) {
  if (!place_.config.routing) return;
  if (m.source_hw) learn(m.src, *m.source_hw, on_link(m.src), now);
  advertiser_.on_solicitation(now);
}

/// Each change updates every neighbour on the workers, so the rate of changes is limited.
bool NdAgent::is_better_mtu(std::uint32_t mtu, TimePoint now) const {
  const bool fits = mtu >= wire::kMinIpv6Mtu && mtu <= link_mtu_ && mtu != mtu_;
  return fits && (!mtu_taken_ || now - *mtu_taken_ >= kMtuInterval);
}

void NdAgent::on_router_advertisement(const Message& m, TimePoint now) {
  constexpr std::uint8_t kProxyFlag = 0x04;  // RFC 4389 §4.1.3.3
  if (proxy_ != nullptr && (m.flags & kProxyFlag) != 0) proxy_->on_other_proxy(*side_, now);
  if (m.source_hw) learn(m.src, *m.source_hw, place_.config.accept_ra, now);
  discovery_.on_advertisement(m.src, m.lifetime_s, now);
  if (m.mtu) on_router_mtu(*m.mtu, m.src, now);
}

/// Takes the MTU of a default router for as long as it is one (RFC 4861 §6.3.4). A node that accepts
/// no advertisements only reports that another router has another MTU (RFC 4861 §6.2.7).
void NdAgent::on_router_mtu(std::uint32_t mtu, const wire::IpAddr& router, TimePoint now) {
  if (mtu == mtu_) {
    if (mtu_from_ && discovery_.knows(router)) mtu_from_ = router;  // The latest one counts.
    return;
  }
  if (discovery_.knows(router) && is_better_mtu(mtu, now)) {
    mtu_taken_ = now;
    mtu_from_ = router;
    apply_mtu(static_cast<std::uint16_t>(mtu));
    log(LogArea::kLink, LogLevel::kInfo, "{}: IPv6 MTU set to {} by {}", place_.name, mtu_,
        wire::to_string(router));
    return;
  }
  ++counters_.mtus_ignored;
  if (const auto suppressed = mtu_ignored_log_.allow(now))
    log(LogArea::kLink, LogLevel::kNotice,
        "{}: ignored MTU {} of router {}, the IPv6 MTU is {} ({} more ignored before)", place_.name,
        mtu, wire::to_string(router), mtu_, *suppressed);
}

void NdAgent::on_default_router(const wire::IpAddr& router, bool usable) {
  if (!usable && mtu_from_ == router) {
    mtu_from_.reset();
    apply_mtu(link_mtu_);
    log(LogArea::kLink, LogLevel::kInfo, "{}: IPv6 MTU back to {}: router {} is gone", place_.name,
        mtu_, wire::to_string(router));
  }
  place_.receiver.default_router(place_.id, router, usable);
}

/// Accepted from the router in use only (RFC 4861 §8.1): a default router, or a gateway of a route.
void NdAgent::on_redirect(const Message& m, TimePoint now) {
  const bool from_router = discovery_.knows(m.src) || cache_.is_gateway(m.src);
  const bool own = addresses_.state(m.destination) || addresses_.state(m.target);
  if (!place_.config.accept_ra || !from_router || own || !redirects_.allow(now)) {
    ++counters_.redirects_ignored;
    return;
  }
  ++counters_.redirects;
  if (m.target_hw) learn(m.target, *m.target_hw, true, now);
  place_.receiver.redirect(place_.id, m.destination, m.target);
}

bool NdAgent::on_link(const wire::IpAddr& addr) const {
  return wire::is_link_local6(addr) || is_on_link(addresses_.prefixes(), addr);
}

void NdAgent::learn(const wire::IpAddr& addr, const wire::HwAddr& hw, bool create, TimePoint now) {
  if (wire::is_unspecified(addr)) return;
  const bool shared = proxy_ != nullptr && proxy_->shares(*side_, addr);
  const bool wanted = shared && proxy_->wants(*side_, addr);
  if (!cache_.learn(addr, hw, Evidence::kOther, create || wanted, now))
    on_contradiction(addr, hw, now);
  else if (shared)
    proxy_->heard(*side_, addr, now);
}

// --- Hosts of other interfaces ---

/// True for messages that came back on another side, and for claims of hosts or of own addresses that
/// are on other sides. An advertisement with a source option is one of another gateway for a host.
bool NdAgent::proxy_ignores(const Message& m, TimePoint now) {
  const auto& hw = sender_of(m);
  if (hw && proxy_->is_loop(*side_, *hw, now)) return true;
  if (m.type != wire::Icmp6Type::kNeighbourAdvertisement)
    return m.source_hw && proxy_ignores_claim(m.src, hw, now);
  if (m.source_hw && proxy_->shares(*side_, m.target)) {
    proxy_->on_marked();
    return true;
  }
  return proxy_ignores_claim(m.target, hw, now);
}

bool NdAgent::proxy_ignores_claim(const wire::IpAddr& addr, const std::optional<wire::HwAddr>& hw,
                                  TimePoint now) {
  if (proxy_->is_own_elsewhere(*side_, addr)) {
    ++counters_.conflicts;
    if (conflicts_.on_conflict(addr, hw, now)) announce_for(addr, now);
    return true;
  }
  if (!proxy_->shares(*side_, addr) || proxy_->may_claim(*side_, addr, now)) return false;
  on_contradiction(addr, hw, now);
  return true;
}

/// A solicitation for an address that is not this node's here.
void NdAgent::proxy_asked(const Message& m, TimePoint now) {
  if (!proxy_->shares(*side_, m.target) && !proxy_->is_own_elsewhere(*side_, m.target)) return;
  if (m.target_hw) return proxy_->on_marked();
  const bool anonymous = wire::is_unspecified(m.src);
  auto hw = m.source_hw;
  if (!hw && !anonymous) hw = cache_.hw_of(m.src);
  // All hosts hear the answer of duplicate address detection.
  if (!hw && anonymous) hw = wire::HwAddr::zero(medium_.own_hw().kind());
  if (!hw) {
    ++counters_.unsent;
    return;
  }
  proxy_->on_question(*side_, m.target, {*hw, m.src, m.nonce}, now);
}

void NdAgent::ask_if_used(const wire::IpAddr& addr, const std::optional<wire::NdNonce>& nonce,
                          TimePoint now) {
  Message m;
  m.dst = wire::solicited_node(addr);
  m.target = addr;
  m.target_hw = medium_.own_hw();
  m.nonce = nonce;
  to_group(m, now);
}

/// The host may be no router, and its own advertisements go before those of a proxy
/// (RFC 4861 §7.2.8).
NdAgent::Message NdAgent::advertisement_for(const wire::IpAddr& addr) const {
  Message m;
  m.type = wire::Icmp6Type::kNeighbourAdvertisement;
  m.dst = wire::all_nodes();
  m.target = addr;
  m.source_hw = m.target_hw = medium_.own_hw();
  return m;
}

void NdAgent::answer_for(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now) {
  const auto source = addresses_.link_local();
  if (!source) {
    ++counters_.unsent;
    return;
  }
  Message m = advertisement_for(addr);
  m.src = *source;
  if (asker.detects_duplicates()) {
    to_group(m, now);
    return;
  }
  m.dst = asker.addr;
  m.solicited = true;
  m.source_hw = m.target_hw = medium_.own_hw_for(asker.hw);
  unicast(asker.hw, wire::build_nd(m, medium_.format()), now);
}

/// The host has moved, so what hosts know is wrong (as RFC 6275 §10.4.1 does).
void NdAgent::announce_for(const wire::IpAddr& addr, TimePoint now) {
  const auto source = addresses_.link_local();
  if (!source) {
    ++counters_.unsent;
    return;
  }
  Message m = advertisement_for(addr);
  m.src = *source;
  m.override_it = true;
  to_group(m, now);
}

/// Another host claims an own address. A tentative address is given up, one in use is defended.
void NdAgent::on_conflict(const Message& m, const wire::IpAddr& addr, TimePoint now) {
  const bool by_target = m.type == wire::Icmp6Type::kNeighbourAdvertisement;
  const auto& hw = by_target ? m.target_hw : m.source_hw;
  if (addresses_.state(addr) == AddressState::kTentative) {
    const auto who = hw ? wire::to_string(*hw) : std::string{"another node"};
    if (addresses_.on_claim(addr, m.nonce, who, now)) ++counters_.conflicts;
    return;
  }
  const bool shared = is_shared(addr);
  if (shared && shared_->claimed(addr, hw, now)) return;
  ++counters_.conflicts;
  if (conflicts_.on_conflict(addr, hw, now) && !shared) announce_once(addr, now);
}

void NdAgent::on_contradiction(const wire::IpAddr& addr, const std::optional<wire::HwAddr>& hw,
                               TimePoint now) {
  ++counters_.contradictions;
  conflicts_.on_contradiction(addr, hw, now);
}

void NdAgent::set_default_router(bool on, TimePoint now) {
  if (std::exchange(default_router_, on) == on) return;
  if (advertiser_.running()) advertiser_.start(now);  // hosts must learn it (RFC 4861 §6.2.4)
}

// --- Time ---

void NdAgent::tick(TimePoint now) {
  if (!running_) return;
  addresses_.tick(now);
  for (const wire::IpAddr& own : again_.take(now)) announce_once(own, now);
  while (!anycast_questions_.empty() && anycast_questions_.begin()->first <= now) {
    const auto question = anycast_questions_.extract(anycast_questions_.begin());
    if (is_router_anycast(question.mapped().target)) answer(question.mapped(), now);
  }
  if (advertiser_.tick(now)) {
    const auto lifetime = default_router_
                              ? std::chrono::floor<std::chrono::seconds>(place_.config.ra_lifetime)
                              : std::chrono::seconds::zero();
    advertise_router(static_cast<std::uint16_t>(
                         std::clamp<std::chrono::seconds::rep>(lifetime.count(), 0, 9000)),
                     now);
  }
  if (discovery_.tick(now)) solicit_routers(now);
}

std::optional<TimePoint> NdAgent::next_deadline() const {
  if (!running_) return std::nullopt;
  std::optional<TimePoint> deadline;
  if (!anycast_questions_.empty()) deadline = anycast_questions_.begin()->first;
  deadline = earlier(deadline, earlier(addresses_.next_deadline(), again_.next_deadline()));
  return earlier(deadline, earlier(advertiser_.next_deadline(), discovery_.next_deadline()));
}

}  // namespace ipoib::link
