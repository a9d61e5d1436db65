// SPDX-License-Identifier: BSD-3-Clause
// The nodes that share addresses of one IP family on a link, all of them active. Each hears the
// requests of all hosts, and answers those of the hosts that rendezvous hashing gives to it
// (rendezvous.h). Packets that come to another member than that are forwarded all the same, because
// forwarding has no state.
//
// down --up()--> listening --lifetime without a gap--> member --leave(), down()--> down
//
// * A member advertises itself in each interval by VRRPv3 (RFC 5798), all with the same priority: none
//   is a master. It counts as long as it was heard within its lifetime, three and a half intervals. An
//   advertisement with priority 0, or the subnet manager's report that its port is out of service
//   (trap 65), ends that at once. After priority 0 it may come back a lifetime later, which a node that
//   follows these rules never precedes.
// * A node that comes only listens for a lifetime, so that it knows the others when it begins to
//   answer. Its first advertisement is repeated twice within a quarter of an interval, because a
//   member that misses it answers the same hosts as the new node.
// * If a member goes, the hosts that it served, and only these, move. They are informed by unicast ARP
//   replies or unsolicited neighbour advertisements, and again after a second, because a host that
//   misses them sends into the void.
// * If a member comes, the hosts that it wins, and only these, move. They are informed once: a host that
//   misses it is served as before until it asks the next time. It then gets no answer to its unicast
//   probes, asks all, and the new member answers.
// * One node informs a host, with the link-layer address of its new server: the one that served it
//   before, if that lives, and else the first by the hash of the nodes that know the host. These are the
//   nodes that were members when it last asked all: a node that came later may serve it and not know it.
//   If the one that served it turns out to have been dead already when a new member came, the next of
//   those that know the host informs it.
// * Messages to hosts are paced, at most kInformRate in a second, because each may cost a question to
//   the subnet administrator.
// * A fabric that falls apart has a group in each part, each of which serves all hosts there. When it
//   heals, each group hears the other as new members.
//
// The source GID and QPN of an advertisement are those that the HCA of the sender wrote: a process on a
// host cannot forge them on hardware. A port of the partition may join with correct advertisements,
// unless SharedConfig::members excludes it, and then gets its part of the hosts, no more. Advertisements
// of strangers displace no member.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/ipoib/shared/host_table.h"
#include "lib/link/jitter.h"
#include "lib/link/log_limit.h"
#include "lib/link/shared_info.h"
#include "lib/wire/hw_addr.h"
#include "lib/wire/vrrp.h"

namespace ipoib::link {

/// The interface of the group.
class SharedGroupActions {
 public:
  virtual ~SharedGroupActions() = default;
  /// GID of the port.
  [[nodiscard]] virtual wire::Gid gid() const = 0;
  /// True if advertisements of others arrive.
  [[nodiscard]] virtual bool hears() const = 0;
  /// Sends an advertisement. Returns false if no source address is ready.
  virtual bool advertise(std::uint8_t priority, TimePoint now) = 0;
  /// Sends the host a message that `server` has the shared address; null: this node.
  virtual void inform(const SharedHost& host, const wire::LinkAddr* server, TimePoint now) = 0;
};

/// Management lcore only.
class SharedGroup {
 public:
  /// Messages to hosts in a second.
  static constexpr unsigned kInformRate = 1000;
  static constexpr std::size_t kMaxHosts = 65'536;
  static constexpr std::uint8_t kPriority = 100;

  /// References are kept. `addresses`: those of `config` of one family. `seed`: of the jitter.
  SharedGroup(const std::string& name, const SharedConfig& config,
              std::vector<wire::IpAddr> addresses, SharedGroupActions& actions, std::uint64_t seed,
              std::size_t max_hosts = kMaxHosts);

  /// The interface carries packets. Harmless while it does.
  void up(TimePoint now);
  /// It carries none any more.
  void down();
  /// This node ends its part in an orderly way: the others serve its hosts at once.
  void leave(TimePoint now);

  /// False: while another member lives, this node is none, and its hosts learn of the others from it.
  /// It forwards all the same.
  void set_serving(bool serving, TimePoint now);

  /// See SharedAddresses. `source`: see HostTable::heard().
  [[nodiscard]] bool answers(const wire::IpAddr& shared, const wire::IpAddr& host,
                             const std::optional<wire::HwAddr>& hw, std::uint32_t source,
                             TimePoint now);
  bool claimed(const std::optional<wire::HwAddr>& hw, TimePoint now);
  void announce(TimePoint now);

  /// `from`, `qpn`: the sender of the packet as the fabric knows it.
  void on_advertisement(const wire::VrrpAdvertisement& advertisement, const wire::Gid& from,
                        std::uint32_t qpn, TimePoint now);
  void refuse(SharedRefusal reason) { ++counters_.refused[static_cast<std::size_t>(reason)]; }
  /// The subnet manager says that the GID is out of service.
  void on_out_of_service(const wire::Gid& gid, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const std::vector<wire::IpAddr>& addresses() const { return addresses_; }
  /// GUIDs of the members, this node included, if it is one.
  [[nodiscard]] const std::vector<std::uint64_t>& members() const { return alive_; }
  [[nodiscard]] bool is_member() const { return state_ == State::kMember; }
  [[nodiscard]] SharedGroupInfo info(TimePoint now) const;
  /// Time after which a member that is not heard is gone.
  [[nodiscard]] Duration lifetime() const { return config_.interval * 7 / 2; }

 private:
  enum class State : std::uint8_t { kDown, kListening, kMember };
  struct Member {
    wire::Gid gid;
    std::uint32_t qpn = 0;
    bool left = false;  ///< It sent priority 0, and `until` has not come.
    TimePoint since{};  ///< Time of its first advertisement.
    TimePoint heard{};
    TimePoint until{};
  };

  [[nodiscard]] std::optional<std::uint64_t> server_of(const wire::Gid& host) const;
  [[nodiscard]] bool retires() const;
  void retire(TimePoint now);
  void leave_group(TimePoint now);
  void listen_on(TimePoint now);
  void advertise(TimePoint now);
  void expire(TimePoint now);
  void changed(TimePoint now);
  void lose(const Member& member, TimePoint now);
  void review(TimePoint now);
  [[nodiscard]] bool is_alive(std::uint64_t guid) const;
  [[nodiscard]] bool knows(std::uint64_t member, const SharedHost& host) const;
  [[nodiscard]] std::uint64_t informer_of(const SharedHost& host) const;
  void follow(SharedHost& host, const std::vector<Member>& lost, TimePoint now);
  void enqueue(SharedHost& host, InformReason reason);
  void enqueue_own();
  void inform_some(TimePoint now);
  bool send_to(const SharedHost& host, TimePoint now);
  void inform(const SharedHostKey& key, TimePoint now);
  void log_member(const wire::Gid& gid, std::string_view event, TimePoint now);

  const std::string& name_;
  const SharedConfig& config_;
  std::vector<wire::IpAddr> addresses_;  ///< In order.
  SharedGroupActions& actions_;
  Jitter jitter_;
  LogLimit log_limit_{std::chrono::seconds(6), 16};
  State state_ = State::kDown;
  bool serving_ = true;
  wire::Gid own_;  ///< The GID that the others know.
  std::optional<TimePoint> member_from_;
  TimePoint due_{};                         ///< Next advertisement, or look if others are heard.
  unsigned repetitions_ = 0;                ///< Times that the first advertisement is repeated.
  std::map<std::uint64_t, Member> others_;  ///< Keyed by GUID.
  std::vector<std::uint64_t> alive_;  ///< GUIDs of the members, this node included, if it is one.
  HostTable hosts_;
  std::vector<Member> lost_;  ///< Members that are gone since the last review().
  std::optional<TimePoint> review_due_;
  TimePoint reviewed_{Duration::min() / 2};
  std::optional<TimePoint> reminded_;
  std::deque<SharedHostKey> to_inform_;
  std::deque<std::pair<TimePoint, SharedHostKey>> again_;
  std::deque<SharedHostKey> reminders_;  ///< Informed when no other host waits.
  TimePoint inform_due_{};
  SharedCounters counters_;
};

}  // namespace ipoib::link
