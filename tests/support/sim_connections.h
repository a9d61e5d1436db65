// SPDX-License-Identifier: BSD-3-Clause
// IPoIB interfaces with connected mode in virtual time. Their connections and communication
// managers are real, the wire between them loses and delays MADs, and queue pairs record their
// calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/link/ipoib/connected/connections.h"
#include "tests/support/link_fakes.h"
#include "tests/support/sim_time.h"

namespace ipoib::link {

using namespace std::chrono_literals;

struct FakeConnectedQueue final : fabric::ConnectedQueue {
  FakeConnectedQueue(std::uint32_t qpn, fabric::Transport transport, unsigned pair)
      : ConnectedQueue{qpn, transport,
                       [](fabric::ConnectedQueue&, rte_mbuf**, std::uint16_t) noexcept {
                         return std::uint16_t{0};
                       }},
        queue_pair{pair} {}
  const unsigned queue_pair;
  fabric::ReadyToReceive receive{};
  fabric::ReadyToSend send{};
  std::vector<fabric::AlternatePath> alternates{};  ///< Each that was loaded.
  fabric::ConnectedQueueInfo info{};
};

/// An HCA whose queue pairs are only records.
class FakeConnectionActions final : public ConnectionActions {
 public:
  Result<fabric::ConnectedQueue*> create_connected(fabric::Transport transport,
                                                   unsigned queue_pair) override;
  /// The queue pairs are those of the workers from 10 on.
  [[nodiscard]] std::uint8_t worker_of(unsigned queue_pair) const override {
    return static_cast<std::uint8_t>(10 + queue_pair);
  }
  [[nodiscard]] std::size_t connected_queues(unsigned queue_pair) const override;
  void destroy_connected(fabric::ConnectedQueue& queue, unsigned queue_pair) override;
  Status set_ready_to_receive(fabric::ConnectedQueue& queue,
                              const fabric::ReadyToReceive& attr) override;
  Status set_ready_to_send(fabric::ConnectedQueue& queue, const fabric::ReadyToSend& attr) override;
  void set_error(fabric::ConnectedQueue& queue) override;
  [[nodiscard]] bool takes_alternates() const override { return migrates; }
  [[nodiscard]] std::uint8_t ack_delay() const override { return delay; }
  Status load_alternate(fabric::ConnectedQueue& queue,
                        const fabric::AlternatePath& alternate) override;
  [[nodiscard]] fabric::ConnectedQueueInfo info(const fabric::ConnectedQueue& queue) const override;

  bool has_room = true;
  bool migrates = false;
  std::uint8_t delay = 15;                   ///< Capabilities::ack_delay
  bool loads = true;                         ///< Alternate paths.
  std::size_t attempts = 0;                  ///< Calls of create_connected().
  std::set<unsigned> without_receive_queue;  ///< Queue pairs of such workers.
  std::map<std::uint32_t, std::unique_ptr<FakeConnectedQueue>> queues;

 private:
  std::uint32_t next_qpn_ = 0x100;
};

class SimConnections;

/// An interface of the fabric; its GUID and LID follow from its number. Without LIDs on the link
/// layer, the number is only the test's name for the interface.
class SimSide final : FakeNeighbourPaths {
 public:
  SimSide(SimConnections& sim, std::uint16_t lid, ConnectionConfig config);
  ~SimSide() override;

  /// Starts the process, without any state of an earlier one.
  void start();
  /// Ends the process at once.
  void kill();
  [[nodiscard]] bool alive() const { return connections != nullptr; }
  [[nodiscard]] wire::LinkAddr address(unsigned queue_pair = 0) const;
  [[nodiscard]] wire::IpAddr ip() const { return wire::IpAddr::v4(0x0a00'0000U + lid_); }
  [[nodiscard]] std::uint16_t lid() const { return lid_; }
  /// Returns the address of the port as other ports see it.
  [[nodiscard]] fabric::MadAddress mad_address() const;

  /// Makes the other side a neighbour, at the queue pair in its `named`, with these flags in its
  /// address. A neighbour that names another queue pair than before moves.
  void meet(const SimSide& other, std::uint8_t flags);
  void meet(const SimSide& other) { meet(other, other.connections->flags()); }
  void lose(const SimSide& other);
  /// Starts packets to the other side, or stops them.
  void talk(const SimSide& other, bool on = true);
  /// Returns the neighbour entry for packets to the other side.
  [[nodiscard]] table::Neighbour way_to(const SimSide& other) const;
  [[nodiscard]] FakeConnectedQueue& queue(std::uint32_t qpn) { return *hca.queues.at(qpn); }
  /// Returns the number of queue pairs of the device.
  [[nodiscard]] std::size_t queues() const { return hca.queues.size(); }
  [[nodiscard]] std::vector<ConnectionInfo> up() const;

  ConnectionConfig config;
  unsigned queue_pairs = 1;  ///< UD queue pairs, each of another worker; from the next start() on.
  std::map<wire::Gid, unsigned> named;  ///< Queue pairs that ports know; no entry: the first.
  bool has_path = true;
  std::uint8_t path_lifetime = kUsualLifetime;  ///< In each PathRecord of the SA.
  bool sa_answers = true;                       ///< Queries for the requests of peers.
  std::size_t path_queries = 0;
  /// The SA's answer to queries for a path beside the one in use; empty function: no answer.
  std::function<std::optional<fabric::AhAttr>(const fabric::AhAttr& in_use)> second_path;
  std::uint8_t second_lifetime = kUsualLifetime;  ///< In the PathRecord of that path.
  FakeConnectionActions hca;
  std::unique_ptr<cm::Manager> manager;
  std::unique_ptr<Connections> connections;
  std::vector<wire::IpAddr> told;  ///< Calls of `changed`.
  /// The LID of its port, which may move: `lid()` at first, from the next start() on.
  std::uint16_t port_lid;
  /// From the next start() on. The LID is that of the port without its path bits.
  std::uint8_t lmc = 0;
  std::uint8_t src_path_bits = 0;  ///< In each PathRecord of the SA.

 private:
  [[nodiscard]] table::NeighbourMode mode() const override { return table::NeighbourMode::kUd; }
  void describe(const wire::HwAddr& hw, table::Neighbour& out) const override {
    out.qpn = hw.link_addr().qpn.host();
    out.mtu = 2044;
  }
  using FakeNeighbourPaths::describe;
  [[nodiscard]] bool is_answered(const wire::Gid& gid, TimePoint since);
  /// Queries the SA, which knows where each port is now.
  void refresh(const wire::HwAddr& hw, TimePoint now) override;

  SimConnections& sim_;
  std::uint16_t lid_;
  std::map<wire::IpAddr, wire::LinkAddr> neighbours_;
  std::map<wire::Gid, std::uint16_t> paths_;  ///< LIDs, as the SA said when they were queried.
  std::map<wire::Gid, TimePoint> answered_;   ///< Queries for the requests of peers.
  std::set<wire::Gid> asked_;                 ///< Open queries.
  std::set<wire::IpAddr> talks_to_;
  bool killed_ = false;
};

/// Configurations with RC only and with UC only; the other values are the defaults.
inline ConnectionConfig rc() {
  ConnectionConfig c;
  c.rc = true;
  return c;
}
inline ConnectionConfig uc() {
  ConnectionConfig c;
  c.uc = true;
  return c;
}

class SimConnections : public test::SimTime {
 public:
  explicit SimConnections(std::uint64_t seed = 1) : SimTime{TimePoint{1000s}, seed} {}

  SimSide& add(ConnectionConfig config);
  /// Adds two interfaces that are neighbours, of which the first sends to the second.
  std::pair<SimSide&, SimSide&> two(const ConnectionConfig& a, const ConnectionConfig& b);
  void run_for(Duration d);
  void send(std::uint16_t from, const fabric::MadAddress& to,
            std::span<const std::byte, wire::kMadLen> octets);

  /// The link layer has no LIDs, and GIDs distinguish the ports. Set it before sides are added.
  bool by_gid = false;
  /// Returns the side with the port at this LID; null if there is none.
  [[nodiscard]] SimSide* at_lid(std::uint16_t lid) const;
  double loss = 0;
  /// Returns the messages of this kind in `sent`.
  template <class Message>
  [[nodiscard]] std::vector<Message> all_sent() const {
    std::vector<Message> found;
    for (const wire::CmMad& mad : sent)
      if (mad.attr() == Message::kAttr) found.push_back(wire::cm_message<Message>(mad));
    return found;
  }

  Duration delay = 10us;  ///< Least delay of a MAD.
  Duration spread{};      ///< Most additional delay.
  /// All MADs sent.
  std::vector<wire::CmMad> sent;
  /// May change a MAD between two LIDs on its way. Returns false if the MAD is lost.
  std::function<bool(std::uint16_t from, std::uint16_t to, wire::CmMad& mad)> meddle;
  std::vector<std::unique_ptr<SimSide>> sides;
};

/// Gives the ports 1 << `lmc` LIDs each and starts the interfaces again. The SA's second path leads
/// from the next LID of `a` to that of `b`.
void give_lids(SimSide& a, SimSide& b, std::uint8_t lmc);

/// Changes all messages of this kind on their way, from now on.
template <class Message, class Change>
void change_each(SimConnections& sim, Change change) {
  sim.meddle = [change](std::uint16_t, std::uint16_t, wire::CmMad& mad) {
    if (mad.attr() != Message::kAttr) return true;
    auto message = wire::cm_message<Message>(mad);
    change(message);
    mad = wire::make_cm_mad(mad.hdr.tid.host(), message);
    return true;
  };
}

}  // namespace ipoib::link
