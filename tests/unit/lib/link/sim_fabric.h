// SPDX-License-Identifier: BSD-3-Clause
// A simulated fabric in virtual time. Nodes consist of the real SA client and IpoibLink; there is
// the embedded administrator; and the wire between them loses, repeats, delays and so reorders MADs
// and packets, and can be cut into islands. The seed determines everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lib/link/ipoib/ipoib_link.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/administrator.h"
#include "tests/support/link_fakes.h"
#include "tests/support/sim_time.h"

namespace ipoib::link {

struct SimFaults {
  double loss = 0;
  double duplication = 0;
  Duration min_delay = std::chrono::microseconds(5);
  Duration max_delay = std::chrono::microseconds(50);
  // Shares of the administrator's answers:
  double late = 0;               ///< Delayed by up to five seconds.
  double wrong_transaction = 0;  ///< With another transaction ID.
  double wrong_record = 0;       ///< With the record of an earlier answer.
};

class SimFabric;

/// Habits of hosts of other makes.
struct SimHabits {
  /// It does not answer ARP requests without a sender address.
  bool answers_senders_only = false;
  /// It takes packets of a host only from the queue pair in the host's address.
  bool checks_source_qpn = false;
};

/// A host with one port and one link. Its "workers" send numbered IP packets, each by a queue pair of
/// its own.
class SimNode {
 public:
  SimNode(SimFabric& fabric, std::uint16_t lid, std::uint64_t guid, std::string_view address);

  void start();
  /// Ends the process like SIGKILL: it releases nothing and notifies no other process.
  void crash();
  /// Starts a new process, with another QPN and no memory of the old one.
  void restart();
  void crash_and_restart();
  [[nodiscard]] bool alive() const { return alive_; }
  void set_lid(std::uint16_t lid);
  /// The subnet manager adds or removes the partition, and the link is notified.
  void set_pkey(bool has);
  void set_port(bool active);
  void port_event(fabric::PortEvent event);
  [[nodiscard]] bool on_fabric() const;
  [[nodiscard]] bool has_pkey() const { return !attr_.pkeys.empty(); }

  /// Sends one IP packet to the address as the datapath would.
  void send_ip(const wire::IpAddr& to);
  [[nodiscard]] const wire::IpAddr& address() const { return address_; }
  /// Returns the IPv6 link-local address when it is ready.
  [[nodiscard]] std::optional<wire::IpAddr> local6() const;
  [[nodiscard]] bool owns(const wire::IpAddr& addr) const;
  [[nodiscard]] std::uint16_t lid() const { return attr_.lid; }
  [[nodiscard]] bool nothing_left() const;
  /// Returns the age of the oldest held packet.
  [[nodiscard]] Duration oldest_held() const;

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void tick();

  SimHabits habits;
  std::unique_ptr<FakeAddressSink> addresses;
  std::unique_ptr<FakeNeighbourSink> sink;
  std::unique_ptr<FakeLinkActions> actions;
  std::unique_ptr<sa::Client> client;
  std::unique_ptr<IpoibLink> link;
  std::map<wire::IpAddr, std::uint64_t> sent;      ///< Packets sent, by destination.
  std::map<wire::IpAddr, std::uint64_t> received;  ///< Different packets received, by sender.
  std::map<wire::IpAddr, TimePoint> last_received;
  std::map<wire::IpAddr, std::uint64_t>
      group_received;  ///< Packets to each group, by listener or router.
  std::map<wire::IpAddr, std::uint64_t> group_heard;    ///< Packets to each group, by listener.
  std::map<wire::IpAddr, std::uint64_t> group_refused;  ///< Packets to an absent group.
  int island = 0;                                       ///< The administrator is on island 0.
  TimePoint crashed{};
  std::uint64_t mads = 0;  ///< To the administrator.
  /// Requests to the administrator within the second of the latest request.
  std::uint64_t requests = 0;
  std::uint64_t max_requests = 0;  ///< The maximum in one second.
  std::uint64_t max_objects = 0;   ///< The maximum of IpoibLink::sa_objects() at a request.

 private:
  friend class SimFabric;
  struct Waiting {
    wire::IpAddr to;
    TimePoint since;
  };
  void make();
  void put_on_wire(const wire::IpAddr& to, const table::Neighbour& n);
  [[nodiscard]] bool is_ignored(std::span<const std::byte> arp) const;
  [[nodiscard]] bool is_foreign(const wire::IpAddr& from, std::uint32_t src_qpn) const;
  void take(std::span<const std::byte> bytes, std::uint16_t slid, std::uint32_t src_qpn);
  void count_request();

  SimFabric& fabric_;
  const std::size_t number_;
  const bool one_queue_pair_;
  LinkConfig config_;
  bool alive_ = true;
  std::optional<TimePoint> due_;  ///< Place in the fabric's order of timers.
  std::chrono::seconds request_second_{};
  wire::IpAddr address_;
  wire::IpPrefix prefix_;
  fabric::PortAttr attr_;
  std::map<HeldPacket, Waiting> waiting_;
  unsigned worker_ = 0;  ///< It sends the next packet.
  std::unordered_set<std::uint64_t> seen_;
};

class SimFabric : public test::SimTime {
 public:
  /// `lmc`: that of all ports.
  explicit SimFabric(std::uint64_t seed, SimFaults faults = {}, std::uint8_t lmc = 0);

  SimNode& add_node(std::string_view address);
  void run_until(TimePoint end);
  void run_for(Duration d) { run_until(now + d); }
  /// Runs until `done` returns true or the limit is over. Returns true if it was done.
  bool run_until(const std::function<bool()>& done, Duration limit);

  /// Replaces the administrator by one without memory.
  void restart_administrator();
  [[nodiscard]] std::size_t broadcast_members() const;
  [[nodiscard]] std::size_t members() const;  ///< Members of all groups together.
  [[nodiscard]] const sa::Administrator& administrator() const { return *administrator_; }
  /// Returns true if a join of the port arrived after a leave that was sent later. A node cannot
  /// know of the membership that this restored.
  [[nodiscard]] bool overtaken(const wire::Gid& port, const wire::Gid& mgid) const;
  /// Returns the same about a subscription and its end, by the port's LID.
  [[nodiscard]] bool subscribed_late(std::uint16_t lid) const { return late_.count(lid) != 0; }
  /// Returns the administrator's record of an IP group of the link, or null.
  [[nodiscard]] const sa::McGroup* group(std::string_view addr) const;
  /// Returns the JoinState of the node in the group.
  [[nodiscard]] unsigned join_state(std::string_view addr, const SimNode& node) const;
  [[nodiscard]] bool all_up() const;
  [[nodiscard]] std::uint16_t administrator_lid() const;

  const std::uint8_t lmc;
  SimFaults faults;
  bool administrator_silent = false;
  /// Multicast packets reach only ports that are members at the administrator, as with switches
  /// that obey the subnet manager; otherwise they reach every port.
  bool switches_by_membership = false;
  bool reports = true;  ///< Links receive the reports of the administrator.
  std::vector<std::unique_ptr<SimNode>> nodes;
  LinkConfig config;            ///< Configuration of nodes added later, except the address.
  bool one_queue_pair = false;  ///< Nodes added later have one; otherwise they have up to three.
  std::uint64_t mads = 0;       ///< Requests to the administrator.
  std::uint64_t broadcasts = 0;
  std::set<std::uint16_t> broken_lids;        ///< Unicast packets to these LIDs are lost.
  std::map<std::string, std::uint64_t> lost;  ///< Packets without a receiver, by reason.

 private:
  friend class SimNode;
  struct Packet {
    std::uint16_t slid;
    wire::Gid sgid;
    std::uint32_t src_qpn;
    std::uint32_t qkey;
    std::uint16_t pkey;
    fabric::AhAttr to;
    std::uint32_t qpn;
    std::vector<std::byte> bytes;
  };
  /// Carries out `what` never, once or twice, after a random delay of the wire.
  void transmit(const std::function<void()>& what, Duration later = {});
  void to_administrator(SimNode& from, const fabric::MadAddress& to, const wire::SaMad& mad);
  void send(const SimNode& from, Packet&& packet);
  void deliver(const Packet& packet, SimNode& node);
  void make_administrator();
  void from_administrator(SimNode& to, const wire::SaMad& mad);
  void tick_administrator();
  void note_order(const wire::SaMad& mad, std::uint16_t lid, std::uint64_t sent);
  void schedule(SimNode& node);
  [[nodiscard]] std::optional<TimePoint> next_node();

  [[nodiscard]] const std::optional<TimePoint>& administrator_due();

  std::optional<sa::Administrator> administrator_;
  std::optional<TimePoint> administrator_due_;
  bool administrator_due_known_ = false;
  /// Last answers, by attribute and method.
  std::map<std::pair<std::uint16_t, std::uint8_t>, wire::SaMad> earlier_answers_;
  std::uint64_t mad_order_ = 0;
  using Membership = std::tuple<wire::Gid, wire::Gid, unsigned>;  ///< Port, group, JoinState.
  std::map<Membership, std::uint64_t> left_;  ///< Number of the MAD of the latest leave.
  std::set<Membership> overtaken_;
  std::map<std::uint16_t, std::uint64_t> unsubscribed_;  ///< Number of the latest such MAD, by LID.
  std::set<std::uint16_t> late_;
  using Due = std::pair<TimePoint, std::size_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t packet_id_ = 0;
};

}  // namespace ipoib::link
