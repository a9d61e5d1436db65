// SPDX-License-Identifier: BSD-3-Clause
// A simulated fabric in virtual time: nodes made of the real SA client and IpoibLink, the embedded
// administrator, and between them a wire that loses, repeats, delays and so reorders MADs and
// packets, and that can be cut into islands. Everything follows from the seed.
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

#include "lib/link/ipoib_link.h"
#include "lib/sa/client.h"
#include "lib/sa/embedded/administrator.h"
#include "tests/unit/lib/link/fakes.h"

namespace ipoib::link {

struct SimFaults {
  double loss = 0;
  double duplication = 0;
  Duration min_delay = std::chrono::microseconds(5);
  Duration max_delay = std::chrono::microseconds(50);
  // Answers of the administrator.
  double late = 0;               ///< Come up to five seconds later.
  double wrong_transaction = 0;  ///< Bear another transaction ID.
  double wrong_record = 0;       ///< Carry the record of an earlier answer.
};

class SimFabric;

/// A host with one port and one link. Its "worker" sends numbered IP packets.
class SimNode {
 public:
  SimNode(SimFabric& fabric, std::uint16_t lid, std::uint64_t guid, std::string_view address);

  void start();
  /// SIGKILL: nothing given back, nobody told.
  void crash();
  /// A new start: another QPN, nothing remembered.
  void restart();
  void crash_and_restart();
  [[nodiscard]] bool alive() const { return alive_; }
  void set_lid(std::uint16_t lid);
  /// The subnet manager gives the partition, or takes it; the link is told.
  void set_pkey(bool has);
  void set_port(bool active);
  void port_event(fabric::PortEvent event);
  [[nodiscard]] bool on_fabric() const;
  [[nodiscard]] bool has_pkey() const { return !attr_.pkeys.empty(); }

  /// One IP packet to the address, as the datapath would handle it.
  void send_ip(const wire::IpAddr& to);
  [[nodiscard]] const wire::IpAddr& address() const { return address_; }
  /// IPv6 link-local address, once it is ready.
  [[nodiscard]] std::optional<wire::IpAddr> local6() const;
  [[nodiscard]] bool owns(const wire::IpAddr& addr) const;
  [[nodiscard]] std::uint16_t lid() const { return attr_.lid; }
  [[nodiscard]] bool nothing_left() const;
  /// How long the oldest packet waits.
  [[nodiscard]] Duration oldest_held() const;

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void tick();

  std::unique_ptr<FakeAddresses> addresses;
  std::unique_ptr<FakeSink> sink;
  std::unique_ptr<FakeLinkActions> actions;
  std::unique_ptr<sa::Client> client;
  std::unique_ptr<IpoibLink> link;
  std::map<wire::IpAddr, std::uint64_t> sent;      ///< Packets that left, by destination.
  std::map<wire::IpAddr, std::uint64_t> received;  ///< Different packets that came, by sender.
  std::map<wire::IpAddr, TimePoint> last_received;
  std::map<wire::IpAddr, std::uint64_t> group_received;  ///< By group, listened to or routed.
  std::map<wire::IpAddr, std::uint64_t> group_heard;     ///< Those of them listened to.
  std::map<wire::IpAddr, std::uint64_t> group_refused;   ///< Sends to an absent group.
  int island = 0;                                        ///< The administrator is on island 0.
  TimePoint crashed{};
  /// Requests to the administrator in the second that is or was the latest.
  std::uint64_t requests = 0;
  std::uint64_t most_requests = 0;  ///< In any second.
  std::uint64_t most_objects = 0;   ///< IpoibLink::sa_objects() when a request was made.

 private:
  friend class SimFabric;
  struct Waiting {
    wire::IpAddr to;
    TimePoint since;
  };
  void make();
  void put_on_wire(const wire::IpAddr& to, const table::Neighbour& n);
  void take(std::span<const std::byte> bytes, std::uint16_t slid, std::uint32_t src_qpn);
  void count_request();

  SimFabric& fabric_;
  const std::size_t number_;
  LinkConfig config_;
  bool alive_ = true;
  std::optional<TimePoint> due_;  ///< Place in the fabric's order of timers.
  std::chrono::seconds request_second_{};
  wire::IpAddr address_;
  wire::IpPrefix prefix_;
  fabric::PortAttr attr_;
  std::map<HeldPacket, Waiting> waiting_;
  std::unordered_set<std::uint64_t> seen_;
};

class SimFabric {
 public:
  explicit SimFabric(std::uint64_t seed, SimFaults faults = {});

  SimNode& add_node(std::string_view address);
  void run_until(TimePoint end);
  void run_for(Duration d) { run_until(now + d); }
  /// Runs until `done` or the time is over; true when done.
  bool run_until(const std::function<bool()>& done, Duration limit);

  /// The administrator forgets everything.
  void restart_administrator();
  [[nodiscard]] std::size_t broadcast_members() const;
  [[nodiscard]] std::size_t members() const;  ///< Of any group.
  [[nodiscard]] const sa::Administrator& administrator() const { return *administrator_; }
  /// Whether a join of the port arrived after the leave that was sent later. What it brought back
  /// no node can know of.
  [[nodiscard]] bool overtaken(const wire::Gid& port, const wire::Gid& mgid) const;
  /// The same of a subscription and its end, by the port's LID.
  [[nodiscard]] bool subscribed_late(std::uint16_t lid) const { return late_.count(lid) != 0; }
  /// What the administrator knows of an IP group of the link; null: there is none.
  [[nodiscard]] const sa::Group* group(std::string_view addr) const;
  /// JoinState of the node in the group.
  [[nodiscard]] unsigned join_state(std::string_view addr, const SimNode& node) const;
  [[nodiscard]] bool all_up() const;

  TimePoint now{std::chrono::seconds(100)};
  SimFaults faults;
  bool administrator_silent = false;
  /// Multicast packets reach ports that are members at the administrator, as where switches do what
  /// the subnet manager says; else every port.
  bool switches_by_membership = false;
  bool reports = true;  ///< Links are told what the administrator reports.
  std::vector<std::unique_ptr<SimNode>> nodes;
  LinkConfig config;       ///< Of nodes added from here on, but for the address.
  std::uint64_t mads = 0;  ///< Requests to the administrator.
  std::uint64_t broadcasts = 0;
  std::map<std::string, std::uint64_t> lost;  ///< Packets no one took, by why.
  std::mt19937_64 random;

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
  struct Event {
    TimePoint at;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  /// The wire: happens never, once or twice, some time later.
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
  /// By attribute and method.
  std::map<std::pair<std::uint16_t, std::uint8_t>, wire::SaMad> earlier_answers_;
  std::uint64_t mad_order_ = 0;
  using Membership = std::tuple<wire::Gid, wire::Gid, unsigned>;  ///< Port, group, JoinState.
  std::map<Membership, std::uint64_t> left_;  ///< When its latest leave was sent.
  std::set<Membership> overtaken_;
  std::map<std::uint16_t, std::uint64_t> unsubscribed_;  ///< By LID: when that was sent last.
  std::set<std::uint16_t> late_;
  using Due = std::pair<TimePoint, std::size_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::priority_queue<Event> events_;
  std::uint64_t order_ = 0;
  std::uint64_t packet_id_ = 0;
};

}  // namespace ipoib::link
