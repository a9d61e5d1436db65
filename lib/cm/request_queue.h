// SPDX-License-Identifier: BSD-3-Clause
// REQs that wait: for the path to their sender, or for their turn. They have no connection yet, and
// their peers repeat them until they are answered.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cm/port_name.h"
#include "lib/wire/cm_mads.h"

namespace ipoib::cm {

struct WaitingRequest {
  wire::CmMad mad{};
  fabric::MadAddress from{};
  PortName port{};
  std::uint64_t ca_guid = 0;  ///< The peer's, as the REQ says.
  std::uint32_t id = 0;       ///< The peer's communication ID.
  TimePoint since{};
  bool known = false;  ///< ARP or ND said that its sender is a neighbour.
  bool ready = false;  ///< It may be accepted, and waits for its turn only.
};

/// The requests in order: those of neighbours, then those of strangers, each as they arrived.
class RequestQueue {
 public:
  static constexpr std::size_t kPlaces = 256;
  /// The last places are for neighbours.
  static constexpr std::size_t kPlacesOfStrangers = 192;
  /// One port gets at most so many, and at most half of those that the others leave.
  static constexpr std::size_t kPlacesOfPort = 16;

  struct Key {
    bool stranger = false;
    std::uint64_t serial = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// Returns false if there is no place.
  [[nodiscard]] bool add(const WaitingRequest& request);
  void erase(const Key& key);
  void clear();

  /// The port's request with these names of the peer: CA GUID and communication ID. They are the
  /// peer's word, so that requests of other ports are not found by them. Empty: none waits.
  [[nodiscard]] std::optional<Key> find(const PortName& port, std::uint64_t ca_guid,
                                        std::uint32_t id) const;
  /// Null: it waits no more.
  [[nodiscard]] const WaitingRequest* find(const Key& key) const;
  /// Notes what is known about the request by now. That of a neighbour moves to its place among
  /// those, under another key.
  void update(const Key& key, bool known, bool ready);

  [[nodiscard]] std::vector<Key> keys() const;
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  /// True if a request waits for its turn that comes before one that arrives now.
  [[nodiscard]] bool is_before(bool known) const {
    return ready_[0] > 0 || (!known && ready_[1] > 0);
  }

 private:
  void count(const Key& key, bool ready, bool more);

  std::map<Key, WaitingRequest> all_;
  std::map<PortName, std::size_t> of_port_;
  std::size_t strangers_ = 0;
  std::array<std::size_t, 2>
      ready_{};  ///< Numbers of neighbours' and of strangers' ready requests.
  std::uint64_t next_serial_ = 1;
};

}  // namespace ipoib::cm
