// SPDX-License-Identifier: BSD-3-Clause
// The policy of connected mode and its communication manager, with an honest peer and a dishonest
// one. Every message of the latter may be changed, repeated or invented, field by field. For every
// input, the honest peer's connection stays, state is bounded, and every queue pair is returned at
// the end.
// Input: one octet of options, then steps of one octet each with their arguments; see Step.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/support/sim_connections.h"

namespace ipoib::link {
namespace {

using test::require;

constexpr std::size_t kMaxConnections = 6;
/// LIDs of the port, of its honest peer and of the dishonest one.
constexpr std::uint16_t kPort = 1, kHonest = 2, kOther = 3;

/// The low 3 bits of a step's octet.
enum class Step : unsigned {
  kTime,     ///< Time passes: power of two, ms.
  kChange,   ///< Changes the next message from or to the dishonest peer: offset, octet to add.
  kWord,     ///< Writes a meaningful number into that message: offset, number, length.
  kAgain,    ///< Sends a former message again: index.
  kTalk,     ///< Starts or stops packets in both directions.
  kFlood,    ///< Requests like the last one with other IDs, QPNs and ports: count.
  kEvent,    ///< An event of the port's queue pairs: row, kind.
  kRestart,  ///< The dishonest peer or its link restarts, or an operator closes.
};

class Harness {
 public:
  explicit Harness(std::span<const std::byte> octets) : rest_{octets} {
    const unsigned options = octet();
    ConnectionConfig config = rc();
    config.uc = (options & 1) != 0;
    config.pairs = (options & 2) != 0 ? PairPolicy::kPerDirection : PairPolicy::kOne;
    config.service_id = (options & 4) != 0 ? wire::ServiceIdForm::kLinux : config.service_id;
    config.open = (options & 8) != 0 ? OpenPolicy::kAlways : OpenPolicy::kTraffic;
    config.max_connections = kMaxConnections;
    config.idle = std::chrono::hours{1'000'000};
    for (int i = 0; i < 3; ++i) sim_.add(config);
    port().meet(side(kHonest));
    side(kHonest).meet(port());
    port().talk(side(kHonest));
    sim_.run_for(5s);
    require(port().way_to(side(kHonest)).queue != nullptr);
    standing_ = port().way_to(side(kHonest)).queue->qpn();
    side(kOther).meet(port());
    port().meet(side(kOther));
    sim_.meddle = [this](std::uint16_t from, std::uint16_t to, wire::CmMad& mad) {
      if (from == kOther || to == kOther) change(from, to, mad);
      return true;
    };
  }

  void run() {
    for (unsigned steps = 0; !rest_.empty() && steps < 200; ++steps) {
      step();
      check();
    }
    for (const auto& s : sim_.sides) s->connections->stop(sim_.now);
    sim_.run_for(300s);
    for (const auto& s : sim_.sides)
      require(s->queues() == 0 && s->manager->size() == 0 && s->manager->half_open() == 0);
  }

 private:
  struct Message {
    std::uint16_t from, to;
    wire::CmMad mad;
  };
  struct Edit {
    unsigned at;
    std::array<std::byte, 8> add;
    std::size_t len;
  };

  SimSide& side(std::uint16_t lid) { return *sim_.sides.at(lid - 1U); }
  SimSide& port() { return side(kPort); }
  unsigned octet() {
    if (rest_.empty()) return 0;
    const auto value = std::to_integer<unsigned>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }

  void change(std::uint16_t from, std::uint16_t to, wire::CmMad& mad) {
    if (kept_.size() < 64) kept_.push_back({from, to, mad});
    auto* const octets = reinterpret_cast<std::byte*>(&mad);
    for (const Edit& e : std::exchange(edits_, {}))
      for (std::size_t i = 0; i < e.len; ++i) {
        std::byte& o = octets[(e.at + i) % sizeof(mad)];
        o = static_cast<std::byte>(std::to_integer<unsigned>(o) +
                                   std::to_integer<unsigned>(e.add[i]));
      }
  }
  void send(const Message& m) { sim_.send(m.from, {.lid = m.to}, wire::bytes_of(m.mad)); }

  /// Numbers that belong to an object of this node or a peer. In another place they are wrong. They
  /// replace a field, instead of being added to it.
  [[nodiscard]] std::uint64_t meaning(unsigned which) {
    const auto& all = port().manager->connections().all();
    const auto nth = all.begin();
    switch (which % 8) {
      case 0: return side(kHonest).address().gid.guid();
      case 1: return side(kHonest).address().qpn.host();
      case 2: return port().address().qpn.host();
      case 3: return standing_;
      case 4: return all.empty() ? 0 : nth->second.remote_guid;
      case 5: return all.empty() ? 0 : nth->second.remote_qpn;
      case 6: return all.empty() ? 0 : all.rbegin()->second.id;
      default: return ~std::uint64_t{0};
    }
  }

  void step() {
    const unsigned code = octet();
    switch (static_cast<Step>(code & 7)) {
      case Step::kTime: sim_.run_for(std::chrono::milliseconds{1U << (octet() & 15)}); return;
      case Step::kChange: edits_.push_back({octet(), {static_cast<std::byte>(octet())}, 1}); return;
      case Step::kWord: return lie();
      case Step::kAgain:
        if (!kept_.empty()) send(kept_[octet() % kept_.size()]);
        return;
      case Step::kTalk:
        if (side(kOther).alive()) side(kOther).talk(port(), (code & 8) != 0);
        port().talk(side(kOther), (code & 16) != 0);
        return;
      case Step::kFlood: return flood(octet() & 31);
      case Step::kEvent: {
        const auto rows = port().connections->list(sim_.now);
        const auto& row = rows.at(octet() % rows.size());
        using Kind = fabric::QueueEvent::Kind;
        if (row.qpn == standing_) return;
        port().connections->on_queue_event(
            {row.qpn, (code & 8) != 0 ? Kind::kError : Kind::kEstablished}, sim_.now);
        return;
      }
      case Step::kRestart: return restart(code >> 3);
    }
  }

  /// Puts such a number into the next message, by an addition to the octets there.
  void lie() {
    const unsigned at = octet();
    std::uint64_t value = meaning(octet());
    const std::size_t len = std::array<std::size_t, 4>{3, 4, 8, 2}[octet() & 3];
    // Computed from the last kept message; wrong for a field that changes with each message.
    Edit e{at, {}, len};
    for (std::size_t i = len; i-- > 0; value >>= 8) {
      const auto was = kept_.empty()
                           ? std::byte{}
                           : reinterpret_cast<const std::byte*>(&kept_.back().mad)[(at + i) % 256];
      e.add[i] = static_cast<std::byte>((value & 0xff) - std::to_integer<unsigned>(was));
    }
    edits_.push_back(e);
  }

  void flood(unsigned n) {
    const auto last = std::find_if(kept_.rbegin(), kept_.rend(), [](const Message& m) {
      return m.mad.attr() == wire::CmAttr::kReq && m.to == kPort;
    });
    if (last == kept_.rend()) return;
    Message m = *last;
    auto req = wire::cm_message<wire::CmReq>(m.mad);
    for (unsigned i = 0; i < n; ++i) {
      const std::uint32_t number = 0x10'0000 + ++flooded_;
      req.local_id.set(number);
      req.local_qpn.set(number);
      req.local_ca_guid.set(number);
      req.primary.local_gid = wire::Gid::of(wire::kDefaultGidPrefix, number);
      m.mad = wire::make_cm_mad(number, req);
      send(m);
      sim_.run_for(50us);
      check();
    }
  }

  void restart(unsigned what) {
    SimSide& other = side(kOther);
    if (what % 4 == 0) {
      if (other.alive()) other.kill();
      other.start();
      other.meet(port());
    } else if (what % 4 == 1) {
      other.connections->stop(sim_.now);
    } else if (what % 4 == 2) {
      fabric::PortAttr attr;
      attr.guid = other.address().gid.guid();
      attr.lid = kOther;
      (void)other.connections->start({other.address()}, attr, sim_.now);
    } else {
      for (const auto& row : port().connections->list(sim_.now))
        if (row.qpn != standing_) (void)port().connections->close(row.handle, sim_.now);
    }
  }

  void check() {
    const auto way = port().way_to(side(kHonest));
    require(way.mode == table::NeighbourMode::kRc && way.queue != nullptr);
    require(way.queue->qpn() == standing_);
    require(port().connections->size() <= kMaxConnections);
    require(port().queues() <= 2 * kMaxConnections);
    require(port().connections->queues() == port().queues());
    require(port().manager->size() <= 4096);
  }

  std::span<const std::byte> rest_;
  SimConnections sim_;
  std::uint32_t standing_ = 0;
  std::uint32_t flooded_ = 0;
  std::vector<Message> kept_;
  std::vector<Edit> edits_;
};

}  // namespace
}  // namespace ipoib::link

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ipoib::link::Harness{ipoib::test::input(data, size)}.run();
  return 0;
}
