// SPDX-License-Identifier: BSD-3-Clause
// libibverbs as tests and measurements want it: linked in its place, with devices, ports and a
// fabric between them that are all in memory. It is strict: what a kernel or a device would refuse
// is refused with the same errno or completion status; what would be undefined on a real device
// (memory changed or unregistered under the device's hands, an address handle destroyed before its
// sends are done) is a violation that the test sees.
//
// Time does not pass by itself: retries of RC are counted by time_passes(). All calls take one
// lock, except the data calls of a fast device, which belong to one thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/wire/gid.h"

namespace ipoib::fake_verbs {

struct Port {
  ibv_port_attr attr{};
  std::vector<std::uint16_t> pkeys{wire::kDefaultPkey};
  std::vector<wire::Gid> gids;
};

/// What a device is and offers. Tests change it whenever they like; its events they raise
/// themselves.
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
  bool cleans_cq = true;  ///< Completions of a queue pair go when it is destroyed or reset.
  bool ud_errors_stop_sends = true;  ///< A failed UD send: SQE state, receiving goes on; else ERR.
  /// Does next to nothing, for measurements: sends are complete when they are posted, receives of
  /// fast_len octets (UD: 40 more) as soon as a buffer is.
  bool fast = false;
  std::uint32_t fast_len = 64;
};

/// A device with one port, cabled and set up: LID, GUID, one P_Key, one GID. With every feature.
[[nodiscard]] DeviceSetup make_setup(std::string name, std::uint16_t lid, std::uint64_t guid);

struct Device : DeviceSetup {
  explicit Device(DeviceSetup setup) : DeviceSetup{std::move(setup)} {}

  [[nodiscard]] const Port* port(unsigned number) const {
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
  }

  bool present = true;
  bool holds_sends = false;  ///< Sends stay in their queues; see Fabric::hold_sends().
  std::size_t registered = 0;
  std::vector<std::unique_ptr<ibv_device>> handles;  ///< The last one is the present one.
};

/// Calls that can be told to fail.
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

/// Packets that did not arrive, by reason.
enum class Lost : std::uint8_t {
  kPortDown,
  kNoPort,       ///< Nobody has the LID.
  kNoQp,         ///< Nobody has the QPN, or it is of another transport or not ready to receive.
  kNotAttached,  ///< Nobody is attached to the group.
  kPkey,
  kQkey,
  kNoBuffer,
  kTooLong,
  kCount
};

/// A packet (RC, UC: a message) as it goes from port to port.
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
  std::vector<std::byte> bytes;  ///< Without GRH.
};

/// Objects that are.
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

/// Of all sends since reset().
struct SendCounts {
  std::uint64_t batches = 0;  ///< Calls of ibv_post_send, and ibv_wr_complete.
  std::uint64_t requests = 0;
  std::uint64_t signaled = 0;
  std::uint64_t inlined = 0;
};

/// What is left of a device that was pulled out while somebody had it open. Control calls fail with
/// EIO and polls find nothing either way.
struct Removal {
  bool fatal_event = true;
  bool path_gone = true;   ///< Its folder in sysfs is not there any more.
  bool posts_fail = true;  ///< Else they are taken, and nothing ever comes of them.
};

/// All devices and what connects them. There is one, as libibverbs' functions name none.
class Fabric {
 public:
  static constexpr unsigned kAlways = ~0U;

  static Fabric& get();

  /// Forgets everything. Nobody may have anything open.
  void reset();
  Device& add_device(DeviceSetup setup);
  [[nodiscard]] Device& device(const std::string& name);

  void remove(Device& device, const Removal& how = {});
  void restore(Device& device);

  /// The call fails with `error` (of post calls: the work request is refused) `times` times, after
  /// it was let through `skip` times.
  void fail(Call call, int error, unsigned times = 1, unsigned skip = 0);
  void clear_failures();
  /// The next send that is carried out, or the next message received, after `skip` more of its
  /// kind, completes with this status, and its queue pair goes to the state that follows.
  void fail_send(ibv_wc_status status, unsigned skip = 0);
  void fail_receive(ibv_wc_status status, unsigned skip = 0);

  /// To everybody who has the device open. Events of ports only, and of the device.
  void raise(Device& device, ibv_event_type type, int port = 1);
  /// The queue pair fails by itself: ERR, all flushed, and the event.
  void break_qp(std::uint32_t qpn, ibv_event_type type = IBV_EVENT_QP_FATAL);
  /// Of the completion queue that the queue pair receives with.
  void break_cq(std::uint32_t qpn);

  /// While true, sends of the device stay where they are; on false they are carried out.
  void hold_sends(Device& device, bool hold);
  /// Whatever RC waits for did not happen in time, `n` times over.
  void time_passes(unsigned n = 1);
  /// A UD packet from outside arrives at all ports its DLID leads to.
  void inject(const Message& message);

  /// Messages sent since, when there was a tap before.
  std::vector<Message> take_sent();
  void tap(bool on);

  [[nodiscard]] Live live();
  [[nodiscard]] std::uint64_t lost(Lost reason);
  [[nodiscard]] ibv_qp_state state_of(std::uint32_t qpn);
  /// Receive buffers that a queue pair, or its shared receive queue, has left.
  [[nodiscard]] std::size_t posted_receives(std::uint32_t qpn);
  /// Sends that hold a place in the queue pair's send queue.
  [[nodiscard]] std::size_t outstanding_sends(std::uint32_t qpn);
  [[nodiscard]] ibv_qp_attr attr_of(std::uint32_t qpn);
  /// Whether the provider may leave out its locks: the queue pair and its shared receive queue are
  /// of a thread domain, its completion queues for one thread.
  [[nodiscard]] bool lockless(std::uint32_t qpn);
  [[nodiscard]] std::vector<std::uint32_t> qpns(ibv_qp_type type);
  /// What nobody may do to a device, as sentences; taken.
  std::vector<std::string> take_violations();
  [[nodiscard]] SendCounts send_counts();

 private:
  Fabric() = default;
};

}  // namespace ipoib::fake_verbs
