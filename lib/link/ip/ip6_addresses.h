// SPDX-License-Identifier: BSD-3-Clause
// IPv6 addresses of one interface. Each is used only after duplicate address detection, unless its
// owner wants it at once, as one that moves between routers. Source:
// RFC 4862 §5.4 (duplicate address detection), RFC 7527 (nonce that identifies own solicitations
// that came back).
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/link/interface_config.h"
#include "lib/link/link_info.h"

namespace ipoib::link {

/// Owner of the addresses.
class AddressOwner {
 public:
  virtual ~AddressOwner() = default;
  /// begin() precedes the first solicitation for the address: its solicited-node group is needed
  /// until end().
  virtual void begin(const wire::IpPrefix& address, TimePoint now) = 0;
  virtual void end(const wire::IpPrefix& address, TimePoint now) = 0;
  /// Sends a solicitation for `addr`. Returns false if it may not have reached any host yet.
  virtual bool ask(const wire::IpAddr& addr, const wire::NdNonce& nonce, TimePoint now) = 0;
  virtual void ready(const wire::IpPrefix& address, TimePoint now) = 0;
  virtual void on_address_removed(const wire::IpPrefix& address, TimePoint now) = 0;
  /// Another host has the address; end() was called before.
  virtual void duplicate(const wire::IpPrefix& address) = 0;
};

class Ip6Addresses {
 public:
  /// References are kept. `name`: name of the interface, for the log.
  Ip6Addresses(const std::string& name, const Ip6Config& config, AddressOwner& owner,
               std::uint64_t seed);

  /// All addresses are tentative from here on.
  void start(const std::vector<wire::IpPrefix>& addresses, TimePoint now);
  void stop(TimePoint now);
  /// Adds an address after start(): it is tentative from here on. Precondition: it is not there.
  void add(const wire::IpPrefix& address, TimePoint now);
  /// Ends the use of an address, and its detection; harmless if it is not there.
  void remove(const wire::IpAddr& addr, TimePoint now);
  /// Says if the address is used only after detection, from the next time it becomes tentative. All
  /// are, unless this says otherwise.
  void set_detection(const wire::IpAddr& addr, bool on);
  /// Retries duplicates now: the other hosts may be gone.
  void retry(TimePoint now);

  /// Empty: not an address of this interface, or a duplicate.
  [[nodiscard]] std::optional<AddressState> state(const wire::IpAddr& addr) const;
  /// All addresses except duplicates.
  [[nodiscard]] const std::vector<wire::IpPrefix>& prefixes() const { return prefixes_; }
  [[nodiscard]] std::vector<wire::IpPrefix> ready() const;
  /// Usable source of packets to `target`: in its prefix, else link-local, else any. Empty: none. An
  /// address without a network that is used without detection is one of several nodes: no source.
  [[nodiscard]] std::optional<wire::IpAddr> source_for(const wire::IpAddr& target) const;
  [[nodiscard]] std::optional<wire::IpAddr> link_local() const;

  /// Another host has, or solicits, the address; `nonce` of the solicitation, if any. A tentative
  /// address becomes a duplicate, unless the solicitation is this node's own. Returns true if it
  /// became one.
  bool on_claim(const wire::IpAddr& addr, const std::optional<wire::NdNonce>& nonce,
                const std::string& by, TimePoint now);

  void tick(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::vector<AddressInfo> list() const;

 private:
  struct Address {
    wire::IpPrefix prefix;
    AddressState state = AddressState::kTentative;
    unsigned probes_sent = 0;
    wire::NdNonce nonce{};
    std::string claimed_by;
    std::optional<TimePoint> due;
  };

  Address* find(const wire::IpAddr& addr);
  void begin(Address& a, TimePoint now);
  void new_nonce(Address& a);
  void step(Address& a, TimePoint now);
  [[nodiscard]] unsigned solicitations_for(const Address& a) const;
  void set_state(Address& a, AddressState state);
  void list_prefixes();
  void end(const Address& a, TimePoint now);
  Duration random_below(Duration limit);

  const std::string& name_;
  const Ip6Config& config_;
  AddressOwner& owner_;
  std::mt19937_64 random_;
  std::vector<Address> addresses_;
  std::vector<wire::IpPrefix> prefixes_;
  std::set<wire::IpAddr> undetected_;  ///< Addresses that are used without detection.
};

}  // namespace ipoib::link
