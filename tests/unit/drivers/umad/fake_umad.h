// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for libibumad: a device that exists or not, a port with attributes, and a subnet
// manager.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drivers/umad/umad.h"
#include "lib/fabric/qp1.h"
#include "lib/wire/smp.h"

namespace ipoib::umad {

/// The arguments of one send.
struct Sent {
  Peer to;
  std::uint32_t qkey = 0;
  std::uint32_t answer_ms = 0;
  fabric::MadBytes mad{};

  [[nodiscard]] wire::MadHdr header() const { return *wire::read<wire::MadHdr>(mad); }
};

inline constexpr std::uint64_t kPortGuid = 0x0002'c903'000a'0b01;
inline constexpr std::uint64_t kSmGuid = 0x0002'c903'000a'0b77;

class FakeUmad final : public Umad {
 public:
  /// Attributes in the answers of the port's own agent.
  struct Port {
    bool answers = true;
    std::uint8_t state = 4;
    std::uint16_t lid = 4;
    std::uint16_t sm_lid = 1;
    std::uint8_t sm_sl = 0;
    std::uint64_t prefix = wire::kDefaultGidPrefix;
    std::uint8_t mtu_cap = 5;
    std::uint8_t neighbor_mtu = 4;
    std::vector<std::uint16_t> pkeys = std::vector<std::uint16_t>(64);  ///< Whole blocks.
    std::uint16_t partition_cap = 64;
    std::uint16_t pkey_violations = 7, qkey_violations = 9;
  };
  enum class SmDoes { kAnswer, kBounce, kNothing, kAnswerFromElsewhere };
  struct Sm {
    SmDoes does = SmDoes::kAnswer;
    std::uint64_t guid = kSmGuid;
    std::uint32_t act_count = 100;
  };

  FakeUmad() { port_.pkeys[0] = 0xffff; }

  Result<int> open(const std::string& device, unsigned port) override;
  void close(int fd) override;
  Result<int> register_agent(int fd, const AgentClass& agent) override;
  void unregister_agent(int fd, int agent) override;
  int send(int fd, int agent, const Peer& to, std::uint32_t qkey, std::span<const std::byte> mad,
           std::uint32_t answer_ms) override;
  void wait(int fd, int timeout_ms) override;
  Arrived receive(int fd) override;

  // Functions for the test:
  template <class Change>
  void set(Change change) {
    const std::lock_guard lock{mutex_};
    change(*this);
  }
  void arrive(Arrived arrived);
  /// True if the channel's thread has taken everything and waits.
  [[nodiscard]] bool idle();
  std::vector<Sent> take_sent();
  /// While true, calls of send block.
  void hold_sends(bool hold);
  [[nodiscard]] bool sending();
  [[nodiscard]] int open_descriptors();

  Port port_;
  Sm sm_;
  std::optional<Error> open_error_;
  std::optional<std::uint8_t> refused_class_;
  int send_error_ = 0;
  int receive_error_ = 0;  ///< Used once.
  std::map<std::uint8_t, AgentClass> registered_;

 private:
  void answer(const Peer& to, const wire::Smp& question);
  void queue(Arrived arrived);

  std::mutex mutex_;  ///< Protects all members.
  std::condition_variable changed_;
  std::deque<Arrived> arrivals_;
  std::vector<Sent> sent_;
  int next_fd_ = 7;
  int open_ = 0;
  bool waiting_ = false;
  bool held_ = false;
  bool sending_ = false;
};

/// A MAD of these octets, received from `lid`.
[[nodiscard]] Arrived arrived_from(std::uint16_t lid, std::span<const std::byte> mad,
                                   std::uint32_t qpn = 1);

}  // namespace ipoib::umad
