// SPDX-License-Identifier: BSD-3-Clause
// A port that a real subnet manager configures, on a real HCA or the fabric simulator. Its
// management datagrams go through libibumad.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "drivers/umad/channel.h"
#include "drivers/umad/device_events.h"
#include "drivers/umad/port_watch.h"
#include "drivers/umad/sm_watch.h"
#include "drivers/umad/umad.h"
#include "lib/base/clock.h"
#include "lib/base/doorbell.h"
#include "lib/fabric/port_manager.h"

namespace ipoib::umad {

struct UmadConfig {
  std::string device;            ///< "mlx5_0", "ibsim0".
  unsigned port = 0;             ///< 0: the first.
  Doorbell* doorbell = nullptr;  ///< Rung on arrivals and changes. Null: the caller polls.
  Duration first_retry = std::chrono::milliseconds(500);  ///< Retry of opening the device; doubles
  Duration max_retry = std::chrono::seconds(5);           ///< up to this.
  std::size_t max_queued = 4096;                          ///< Limit of received MADs not taken yet.
  std::function<TimePoint()> now;                         ///< Empty: the steady clock.
};

struct UmadCounters {
  std::uint64_t sent = 0, send_failed = 0, received = 0;
  std::uint64_t undeliverable = 0;  ///< Sent MADs that were returned: timed out or no such LID.
  std::uint64_t malformed = 0;      ///< MADs of invalid length.
  std::uint64_t unasked = 0;        ///< Responses of subnet management without an open question.
  std::uint64_t unserved = 0;       ///< Requests that this node does not serve; refused.
  std::uint64_t unread = 0;         ///< Messages about connections for which there was no room.
  std::uint64_t reregistered = 0;   ///< Times the subnet manager was replaced or away.
};

/// Management lcore only.
class UmadPort final : public fabric::PortManager, public fabric::MadPort {
 public:
  /// Never fails because of a device: a missing device is retried. `library` null: libibumad;
  /// `events` null: libibverbs.
  [[nodiscard]] static std::unique_ptr<UmadPort> create(
      UmadConfig config, std::unique_ptr<Umad> library = nullptr,
      std::unique_ptr<DeviceEvents> events = nullptr);

  [[nodiscard]] fabric::MadPort& mad_port() override { return *this; }
  [[nodiscard]] const fabric::PortAttr& attr() const override { return port_.attr(); }
  std::optional<fabric::PortEvent> next_event() override;
  [[nodiscard]] std::string problem() const override;
  [[nodiscard]] fabric::KeyViolations key_violations() const override {
    return port_.key_violations();
  }

  /// kUnavailable while the device is not open or the port not active, or if the device rejects the
  /// MAD. kInvalidArgument for an invalid address, or a P_Key that the port does not have.
  Status send(const fabric::MadAddress& to, std::span<const std::byte, wire::kMadLen> mad) override;
  /// MADs for other objects: answers and Reports of the subnet administrator, and messages of
  /// communication managers.
  std::optional<fabric::ReceivedMad> receive() override;
  [[nodiscard]] bool polled() const override { return config_.doorbell == nullptr; }
  [[nodiscard]] bool pending() const override { return !received_.empty() || channel_.pending(); }
  [[nodiscard]] fabric::NamedCounters counters() const override;

 private:
  UmadPort(UmadConfig config, std::unique_ptr<Umad> library, std::unique_ptr<DeviceEvents> events);
  void check_session();
  void take_events();
  void sort();
  void take(const Arrived& arrived);
  void hand_over(const Arrived& arrived);
  void on_undeliverable(const wire::MadHdr& header);
  void on_smp(const Peer& from, const wire::Smp& smp);
  void refuse(const Peer& from, const Arrived& request, const wire::MadHdr& header);
  Status post(const Peer& to, std::span<const std::byte> mad, std::uint32_t answer_ms);
  [[nodiscard]] SmpSender smp_sender();

  UmadConfig config_;
  std::unique_ptr<Umad> library_;
  std::unique_ptr<DeviceEvents> device_events_;
  PortWatch port_;
  SmWatch sm_;
  UmadCounters counters_;
  std::uint64_t session_ = 0;
  std::deque<fabric::ReceivedMad> received_;
  Channel channel_;
};

}  // namespace ipoib::umad
