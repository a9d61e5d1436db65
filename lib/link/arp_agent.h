// SPDX-License-Identifier: BSD-3-Clause
// ARP for the addresses of one interface: requests neighbours, answers for own addresses, learns
// from received records, announces itself and detects other hosts that claim its addresses. Source:
// RFC 826, RFC 5227 (announcements, defence); RFC 4391 §9.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/log_limit.h"
#include "lib/link/medium.h"
#include "lib/link/neighbour_cache.h"

namespace ipoib::link {

template <class Hw>
class ArpAgent final : public Solicitor<Hw> {
 public:
  /// References are kept. `name`: name of the interface, for the log.
  ArpAgent(const std::string& name, const std::vector<wire::IpPrefix>& addresses,
           ArpTransport<Hw>& transport, NeighbourCache<Hw>& cache);

  void request(const wire::IpAddr& addr, TimePoint now) override;
  void probe(const wire::IpAddr& addr, const Hw& hw, TimePoint now) override;

  /// Announces this node's IPv4 addresses to all hosts, twice.
  void announce(TimePoint now);
  void stop() { announce_again_.reset(); }

  /// Octets from the ARP header on; padding after the record is ignored.
  void on_arp(std::span<const std::byte> bytes, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return announce_again_; }

  [[nodiscard]] const ArpCounters& counters() const { return counters_; }

 private:
  void announce_once(std::uint32_t own_ip);
  void announce_all();
  void on_conflict(const wire::Arp<Hw>& arp, TimePoint now);
  void on_contradiction(const wire::Arp<Hw>& arp, TimePoint now);
  [[nodiscard]] std::uint32_t source_for(const wire::IpAddr& target) const;

  const std::string& name_;
  const std::vector<wire::IpPrefix>& addresses_;
  ArpTransport<Hw>& transport_;
  NeighbourCache<Hw>& cache_;
  std::optional<TimePoint> announce_again_;
  std::optional<TimePoint> defended_;
  LogLimit conflict_log_;
  LogLimit contradiction_log_;
  ArpCounters counters_;
};

extern template class ArpAgent<wire::LinkAddr>;
extern template class ArpAgent<wire::MacAddr>;

}  // namespace ipoib::link
