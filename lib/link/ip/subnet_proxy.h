// SPDX-License-Identifier: BSD-3-Clause
// Interfaces that share their IP subnets: the node answers ARP and neighbour solicitations of the
// hosts of one side for those of the others, with its own link-layer address, and routes their
// packets. Source: RFC 1027; RFC 4861 §7.2.8; RFC 4389 in part.
//
// A host is on the side where its link-layer address is known, so it ages as neighbours do. The
// proxy asks the other sides for a host that it does not know, when a host or a packet wants it. Its
// requests to all hosts have a mark that hosts ignore and other gateways of this program know: they
// never answer them for a host, and never pass them on. Several gateways may therefore connect the
// same two links: each learns from hosts only, and never from another gateway.
//
// The mark: a request of ARP names its sender's link-layer address as the target's, which RFC 826
// leaves undefined; a solicitation has a target option, and an advertisement a source option, which
// receivers must ignore (RFC 4861 §7.1.1, §7.1.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/keyed_hash.h"
#include "lib/base/rate_limiter.h"
#include "lib/link/interface.h"
#include "lib/link/ip/neighbour_cache.h"
#include "lib/link/log_limit.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/nd.h"

namespace ipoib::link {

/// A host that asks for another one.
struct ProxyAsker {
  wire::HwAddr hw;
  /// Zero or unspecified: it asks whether another host has the address that it is about to use
  /// (RFC 5227 §2.1.1, RFC 4862 §5.4).
  wire::IpAddr addr;
  std::optional<wire::NdNonce> nonce{};

  [[nodiscard]] bool detects_duplicates() const {
    return addr == wire::IpAddr::v4(0) || wire::is_unspecified(addr);
  }
};

/// One of the interfaces that share their subnets.
class ProxySide {
 public:
  virtual ~ProxySide() = default;
  [[nodiscard]] virtual table::InterfaceId side_id() const = 0;
  [[nodiscard]] virtual const std::string& side_name() const = 0;
  /// Its addresses of the family of `addr`.
  [[nodiscard]] virtual const std::vector<wire::IpPrefix>& own_addresses(
      const wire::IpAddr& addr) const = 0;
  [[nodiscard]] virtual bool is_own_hw(const wire::HwAddr& hw) const = 0;
  [[nodiscard]] virtual NeighbourCache& neighbours() = 0;
  [[nodiscard]] virtual bool can_ask(const wire::IpAddr& addr) const = 0;
  /// Sends a marked request for the address to all hosts. `detects`: in the form of one that detects
  /// duplicates, with this nonce.
  virtual void ask(const wire::IpAddr& addr, bool detects,
                   const std::optional<wire::NdNonce>& nonce, TimePoint now) = 0;
  /// Tells the asker that `addr` is at this node.
  virtual void answer(const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now) = 0;
  /// Tells all hosts, with the mark, that `addr` is at this node.
  virtual void announce_for(const wire::IpAddr& addr, TimePoint now) = 0;
  /// Receives solicitations for the IPv6 address from here on.
  virtual void listen_for(const wire::IpAddr& addr, TimePoint now) = 0;
  virtual void unlisten_for(const wire::IpAddr& addr, TimePoint now) = 0;
  /// Reports where packets to the host go. False: there is no room for its route.
  virtual bool located(const wire::IpAddr& addr) = 0;
  virtual void lost(const wire::IpAddr& addr) = 0;
};

/// Management lcore only. The sides outlive the last call.
class SubnetProxy {
 public:
  /// Questions that wait for an answer of another side, and those of one link-layer address.
  static constexpr std::size_t kMaxQuestions = 256;
  static constexpr std::size_t kMaxQuestionsOfOne = 16;
  /// Hosts that wait for one answer; others ask again.
  static constexpr std::size_t kMaxAskers = 4;
  static constexpr Duration kQuestionLife = std::chrono::seconds(3);
  /// A question is repeated to the other sides no more often.
  static constexpr Duration kAskAgain = std::chrono::milliseconds(900);
  /// Requests to all hosts, of all questions together: 100 a second, after 50 at once.
  static constexpr Duration kAskInterval = std::chrono::milliseconds(10);
  static constexpr std::uint32_t kAskBurst = 50;
  /// A host moves between sides no more often, so that two hosts with one address do not make it flap.
  static constexpr Duration kSettled = std::chrono::seconds(1);
  /// Hosts to whose groups of solicited nodes the other sides listen; the oldest gives way. A stranger
  /// can make up hosts, and each costs a membership: 10 a second, after 64 at once.
  static constexpr std::size_t kMaxListened = 1024;
  static constexpr Duration kListenInterval = std::chrono::milliseconds(100);
  static constexpr std::uint32_t kListenBurst = 64;
  /// Time without IPv6 after an advertisement of another proxy (RFC 4389).
  static constexpr Duration kOtherProxy = std::chrono::minutes(60);

  /// The neighbour caches of the sides limit the number of hosts.
  SubnetProxy(std::string group, std::uint64_t seed)
      : group_{std::move(group)}, hosts_{0, KeyedHash{seed}} {}

  /// At most kMaxSides.
  static constexpr std::size_t kMaxSides = 64;
  void add(ProxySide& side) { sides_.push_back(&side); }

  /// True if the address can be that of a host in a subnet that the side has in common with another.
  [[nodiscard]] bool shares(const ProxySide& side, const wire::IpAddr& addr) const;
  /// True if it is an address of this node on another side, in a subnet in common.
  [[nodiscard]] bool is_own_elsewhere(const ProxySide& side, const wire::IpAddr& addr) const;
  /// True if a message with this sender came from another side of this node: the links are one.
  [[nodiscard]] bool is_loop(const ProxySide& side, const wire::HwAddr& sender, TimePoint now);
  /// A message with the mark came.
  void on_marked() { ++counters_.of_gateways; }

  /// False if a claim of the address on this side must be ignored: the host is on another side, and
  /// stays (a static entry, the gateway of a route), or has moved just now.
  [[nodiscard]] bool may_claim(const ProxySide& side, const wire::IpAddr& addr, TimePoint now);
  /// True if the side must learn the host from a message of it, because it was on another side or is
  /// being asked for.
  [[nodiscard]] bool wants(const ProxySide& side, const wire::IpAddr& addr) const;
  /// The host spoke on this side, and may_claim() was true.
  void heard(ProxySide& side, const wire::IpAddr& addr, TimePoint now);

  /// A host of the side asks for an address that is not this node's there. Precondition: shares()
  /// or is_own_elsewhere().
  void on_question(ProxySide& side, const wire::IpAddr& addr, const ProxyAsker& asker,
                   TimePoint now);
  /// The side asks for the host because of a packet: so do the others.
  void on_request(ProxySide& side, const wire::IpAddr& addr, TimePoint now);
  /// The side got a link-layer address of the host.
  void on_located(ProxySide& side, const wire::IpAddr& addr, TimePoint now);
  /// The side knows it no more.
  void on_lost(ProxySide& side, const wire::IpAddr& addr);
  /// True if the host was found on another side within the last kSettled.
  [[nodiscard]] bool has_just_left(const ProxySide& side, const wire::IpAddr& addr,
                                   TimePoint now) const;

  /// An advertisement on a side has the Proxy bit: another proxy connects this link.
  void on_other_proxy(const ProxySide& side, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const std::string& group() const { return group_; }
  [[nodiscard]] std::vector<std::string> side_names() const;
  /// All hosts in the order of their addresses.
  [[nodiscard]] std::vector<ProxiedHost> hosts(TimePoint now) const;
  [[nodiscard]] std::size_t size() const { return hosts_.size(); }
  [[nodiscard]] std::size_t questions() const { return questions_.size(); }
  [[nodiscard]] const ProxyCounters& counters() const { return counters_; }

 private:
  struct Host {
    ProxySide* side = nullptr;
    TimePoint since{};
    bool listened = false;  ///< The other sides listen to its group.
  };
  struct Waiting {
    ProxySide* side;
    ProxyAsker asker;
  };
  struct Question {
    std::vector<Waiting> askers;
    TimePoint asked = TimePoint::min();
    std::uint64_t detecting =
        0;  ///< Sides, by bit, whose hosts detect duplicates: they were asked for.
    TimePoint expires{};
  };

  [[nodiscard]] const Host* find(const wire::IpAddr& addr) const;
  [[nodiscard]] bool is_on(const ProxySide& side, const wire::IpAddr& addr) const;
  void report_move(const wire::IpAddr& addr, const ProxySide& from, const ProxySide& to,
                   TimePoint now);
  Question* question_of(const wire::IpAddr& addr, const wire::HwAddr* asker, TimePoint now);
  void ask_others(ProxySide& side, const wire::IpAddr& addr, Question& question,
                  const ProxyAsker* asker, TimePoint now);
  void answer(ProxySide& side, const wire::IpAddr& addr, const ProxyAsker& asker, TimePoint now);
  void erase_question(const wire::IpAddr& addr);
  void leave_other_sides(ProxySide& side, const wire::IpAddr& addr);
  void listen(const wire::IpAddr& addr, TimePoint now);
  void unlisten(const wire::IpAddr& addr, Host& host);
  void forget(const wire::IpAddr& addr);

  std::string group_;
  std::vector<ProxySide*> sides_;
  std::unordered_map<wire::IpAddr, Host, KeyedHash> hosts_;
  std::deque<wire::IpAddr>
      listened_;  ///< Hosts to whose groups the other sides listen, oldest first.
  RateLimiter listens_{kListenInterval, kListenBurst};
  std::map<wire::IpAddr, Question> questions_;
  std::deque<wire::IpAddr> order_;  ///< All questions, the first to expire in front.
  RateLimiter asks_{kAskInterval, kAskBurst};
  LogLimit move_log_{std::chrono::seconds(10), 3};
  LogLimit loop_log_{std::chrono::seconds(60)};
  std::optional<TimePoint> other_proxy_;  ///< No IPv6 until then.
  TimePoint now_{};
  ProxyCounters counters_;
};

}  // namespace ipoib::link
