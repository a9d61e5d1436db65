// SPDX-License-Identifier: BSD-3-Clause
// A stand-in for libibverbs, linked in place of the library by tests and benchmarks. Its devices,
// ports and the fabric between them exist in memory only. The stand-in is strict: it refuses what a
// kernel or a device would refuse, with the same errno or completion status. Actions with undefined
// results on a real device (changing or unregistering memory that the device uses, destroying an
// address handle before its sends are complete) are violations, which the test sees.
// Time does not pass by itself: time_passes() counts the retries of RC. All calls take one lock,
// except the data calls of a fast device, which belong to one thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/wire/gid.h"

namespace ipoib::fake_verbs {

struct Port {
  ibv_port_attr attr{};
  std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};
  std::vector<wire::Gid> gids;
  /// Packets that the port discarded, as its counters have them (IBA vol 1 §14.2.5.6).
  std::uint64_t pkey_violations = 0;
  std::uint64_t qkey_violations = 0;
};

/// Properties and features of a device. Tests may change them at any time, and raise the matching
/// events themselves.
struct DeviceSetup {
  std::string name;
  std::vector<Port> ports;
  ibv_device_attr_ex attr{};
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  bool extended_qp = true;  ///< Has the ibv_wr_* interface.
  bool thread_domains = true;
  bool single_threaded_cqs = true;
  std::uint32_t max_inline = 512;
  std::size_t memlock = SIZE_MAX;  ///< Octets that may be registered.
  bool controlled_qkeys = true;    ///< The process may set Q_Keys with the high bit.
  bool cleans_cq = true;           ///< Resetting or destroying a QP removes its completions.
  /// True: a failed send of a UD or UC queue pair leads to SQE, where receiving continues. False:
  /// to ERR.
  bool ud_errors_stop_sends = true;
  /// True for measurements: the device does next to nothing. A send is complete when it is posted,
  /// a receive as soon as its buffer is posted. A message has `fast_len` octets (UD: 40 more).
  bool fast = false;
  std::uint32_t fast_len = 64;
};

/// One port, active, with a LID, a GUID, one P_Key and one GID. The device has all features.
[[nodiscard]] DeviceSetup make_setup(std::string name, std::uint16_t lid, std::uint64_t guid);

struct Device : DeviceSetup {
  explicit Device(DeviceSetup setup) : DeviceSetup{std::move(setup)} {}

  [[nodiscard]] const Port* port(unsigned number) const {
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
  }

  bool present = true;
  bool holds_sends = false;  ///< Sends wait in their queues; see Fabric::hold_sends().
  std::size_t registered = 0;
  std::vector<std::unique_ptr<ibv_device>> handles;  ///< The last one is the current one.
};

/// Calls that a test can make fail.
enum class Call : std::uint8_t {
  kGetDeviceList,
  kOpenDevice,
  kQueryDevice,
  kQueryPort,
  kQueryPkey,
  kQueryGid,
  kAllocPd,
  kAllocTd,
  kAllocParentDomain,
  kRegMr,
  kCreateCq,
  kCreateSrq,
  kModifySrq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kCreateAh,
  kAttachMcast,
  kDetachMcast,
  kDestroy,   ///< Any of dealloc, dereg, destroy.
  kPostSend,  ///< This and the next two count work requests, not calls.
  kPostRecv,
  kPostSrqRecv,
  kPollCq,
  kCount
};

/// Reasons for which packets do not arrive.
enum class Lost : std::uint8_t {
  kPortDown,
  kNoPort,  ///< No port with a queue pair has the LID.
  /// No queue pair has the QPN, or it has another transport or is not ready to receive.
  kNoQp,
  kNotAttached,  ///< No queue pair is attached to the group.
  kPkey,
  kQkey,
  kNoBuffer,
  kTooLong,
  kCount
};

/// A packet (RC, UC: a whole message) between two ports.
struct Message {
  ibv_qp_type type = IBV_QPT_UD;
  std::uint16_t slid = 0;
  std::uint16_t dlid = 0;
  std::uint8_t sl = 0;
  std::uint8_t static_rate = 0;
  bool global = false;
  wire::Gid sgid{};
  wire::Gid dgid{};
  std::uint8_t hop_limit = 0;
  std::uint8_t tclass = 0;
  std::uint32_t flow_label = 0;
  std::uint16_t pkey = wire::kDefaultPkey;
  std::uint32_t qkey = 0;
  std::uint32_t src_qpn = 0;
  std::uint32_t dest_qpn = 0;
  std::vector<std::byte> bytes;              ///< Without GRH.
  std::optional<std::uint32_t> immediate{};  ///< Only packets of inject() have it.
};

/// Numbers of existing objects.
struct Live {
  unsigned contexts = 0;
  unsigned pds = 0;
  unsigned tds = 0;
  unsigned mrs = 0;
  unsigned cqs = 0;
  unsigned srqs = 0;
  unsigned qps = 0;
  unsigned ahs = 0;
  unsigned attachments = 0;

  friend bool operator==(const Live&, const Live&) = default;
};

/// Counts of sends since reset().
struct SendCounts {
  std::uint64_t batches = 0;  ///< Calls of ibv_post_send and of ibv_wr_complete.
  std::uint64_t requests = 0;
  std::uint64_t signaled = 0;
  std::uint64_t inlined = 0;
};

/// Behaviour of a device that was removed while a context was open. In each case, control calls
/// fail with EIO and polls find no completion.
struct Removal {
  bool fatal_event = true;
  bool path_gone = true;   ///< The folder of the device in sysfs is removed.
  bool posts_fail = true;  ///< False: posts are accepted and never complete.
};

/// All devices and the network between them. The functions of libibverbs name no fabric, so there
/// is only one.
class Fabric {
 public:
  static constexpr unsigned kAlways = ~0U;

  static Fabric& get();

  /// Resets all devices, objects and counters. Throws if a device is still open.
  void reset();
  Device& add_device(DeviceSetup setup);
  [[nodiscard]] Device& device(const std::string& name);

  void remove(Device& device, const Removal& how = {});
  void restore(Device& device);

  /// Lets the call succeed `skip` times and then fail `times` times with `error`. A post call then
  /// refuses the work request.
  void fail(Call call, int error, unsigned times = 1, unsigned skip = 0);
  void clear_failures();
  /// After `skip` more of its kind, the next send that is carried out, or the next message that is
  /// received, completes with this status. Its queue pair enters the state that follows.
  void fail_send(ibv_wc_status status, unsigned skip = 0);
  void fail_receive(ibv_wc_status status, unsigned skip = 0);

  /// Sends the event to each context of the device. Only for events of ports and of the device.
  void raise(Device& device, ibv_event_type type, int port = 1);
  /// The queue pair fails by itself: it enters ERR, its work requests are flushed, and the event is
  /// raised.
  void break_qp(std::uint32_t qpn, ibv_event_type type = IBV_EVENT_QP_FATAL);
  /// Breaks the completion queue of the queue pair's receives.
  void break_cq(std::uint32_t qpn);

  /// Calls `action` once, before the next queue pair is destroyed.
  void before_destroy_qp(std::function<void()> action);

  /// While `hold` is true, sends of the device stay in their queues. False carries them out.
  void hold_sends(Device& device, bool hold);
  /// Counts `n` failed tries for the oldest unfinished send of each queue pair.
  void time_passes(unsigned n = 1);
  /// Packets to this LID are lost from now on, or no longer.
  void cut(std::uint16_t dlid, bool broken = true);
  /// Delivers a UD packet from outside to all ports that its DLID leads to.
  void inject(const Message& message);

  /// Returns and removes the messages that were sent while the tap was on.
  std::vector<Message> take_sent();
  void tap(bool on);

  [[nodiscard]] Live live();
  [[nodiscard]] std::uint64_t lost(Lost reason);
  [[nodiscard]] ibv_qp_state state_of(std::uint32_t qpn);
  /// Receive buffers left in the queue pair or in its shared receive queue.
  [[nodiscard]] std::size_t posted_receives(std::uint32_t qpn);
  /// Sends that occupy a place in the queue pair's send queue.
  [[nodiscard]] std::size_t outstanding_sends(std::uint32_t qpn);
  [[nodiscard]] ibv_qp_attr attr_of(std::uint32_t qpn);
  /// True if the provider may omit its locks: the queue pair and its shared receive queue belong to
  /// a thread domain, and its completion queues are single-threaded.
  [[nodiscard]] bool lockless(std::uint32_t qpn);
  /// Thread domain of a queue pair; null: none.
  [[nodiscard]] static const void* thread_of(std::uint32_t qpn);
  [[nodiscard]] std::vector<std::uint32_t> qpns(ibv_qp_type type);
  /// Returns and removes the violations, one sentence each.
  std::vector<std::string> take_violations();
  [[nodiscard]] SendCounts send_counts();

 private:
  Fabric() = default;
};

}  // namespace ipoib::fake_verbs
