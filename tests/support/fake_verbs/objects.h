// SPDX-License-Identifier: BSD-3-Clause
// The stand-in's own state behind the structs of libibverbs: devices, queues and their contents.
// Objects are kept until Fabric::reset(), so that no address is used twice and any use of a
// destroyed object is found.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/fake_verbs/fabric.h"

namespace ipoib::fake_verbs {

struct Context : verbs_context {
  Device* device;
  bool gone = false;  ///< The device was removed under it.
  Removal removal;
  int event_fd[2] = {-1, -1};  ///< [0] is async_fd. Each waiting event is one octet in between.
  std::deque<ibv_async_event> events;
  Live live;
};

struct Td : ibv_td {
  bool live = true;
  unsigned uses = 0;
};

struct Pd : ibv_pd {
  bool live = true;
  unsigned uses = 0;
  // Members of a parent domain:
  Pd* base = nullptr;
  Td* td = nullptr;
};

/// The protection domain that owns memory and address handles.
[[nodiscard]] inline const ibv_pd* base_of(const ibv_pd* pd) {
  const Pd* const base = static_cast<const Pd*>(pd)->base;
  return base != nullptr ? base : pd;
}

struct Mr : ibv_mr {
  bool live = true;
  unsigned access;
};

struct Ah : ibv_ah {
  bool live = true;
  ibv_ah_attr attr;
};

struct Qp;

struct Cqe {
  ibv_wc wc;
  Qp* qp;
  std::optional<std::uint64_t> send;  ///< The send's number in its queue pair.
};

/// IDs of the work requests of a fast device, in the order of posting.
struct Ring {
  explicit Ring(std::uint32_t n);

  [[nodiscard]] bool empty() const { return head == tail; }
  [[nodiscard]] bool full() const { return head - tail == limit; }
  void push(std::uint64_t id) { slots[head++ & mask] = id; }
  std::uint64_t pop() { return slots[tail++ & mask]; }

  std::vector<std::uint64_t> slots;
  std::uint32_t mask;
  std::uint32_t limit;
  std::uint32_t head = 0;
  std::uint32_t tail = 0;
};

struct Cq : ibv_cq {
  bool live = true;
  bool single_threaded = false;
  unsigned uses = 0;
  unsigned unacknowledged = 0;
  bool broken = false;
  std::deque<Cqe> entries;
  // Members for a fast device:
  std::unique_ptr<Ring> sends;
  Ring* receives = nullptr;
  ibv_wc sent{};
  ibv_wc received{};
};

struct Receive {
  std::uint64_t wr_id;
  std::vector<ibv_sge> sges;

  [[nodiscard]] std::size_t capacity() const;
};

struct ReceiveQueue {
  std::deque<Receive> posted;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::unique_ptr<Ring> fast;
};

struct Srq : ibv_srq {
  bool live = true;
  unsigned uses = 0;
  unsigned unacknowledged = 0;
  ReceiveQueue queue;
  std::uint32_t limit = 0;
};

struct Send {
  std::uint64_t number = 0;
  std::uint64_t wr_id = 0;
  unsigned flags = 0;
  std::vector<ibv_sge> sges;
  std::vector<std::byte> bytes;  ///< Contents when it was posted.
  Ah* ah = nullptr;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  bool started = false;
  bool done = false;
  unsigned tries = 0;  ///< Number of failed tries.
};

struct Qp : ibv_qp_ex {
  [[nodiscard]] Context& context() const;
  [[nodiscard]] Device& device() const { return *context().device; }
  [[nodiscard]] Port& port() const { return device().ports[attr.port_num - 1U]; }
  /// The P_Key at the queue pair's index; 0: the table has become shorter.
  [[nodiscard]] std::uint16_t pkey() const {
    const auto& table = port().pkeys;
    return attr.pkey_index < table.size() ? table[attr.pkey_index] : std::uint16_t{0};
  }
  [[nodiscard]] std::uint32_t qpn() const { return qp_base.qp_num; }
  [[nodiscard]] Cq& send_cq() const { return *static_cast<Cq*>(qp_base.send_cq); }
  [[nodiscard]] Cq& recv_cq() const { return *static_cast<Cq*>(qp_base.recv_cq); }
  [[nodiscard]] Srq* srq() const { return static_cast<Srq*>(qp_base.srq); }
  [[nodiscard]] ReceiveQueue& receives() { return srq() != nullptr ? srq()->queue : own_receives; }
  [[nodiscard]] bool receiving() const {
    return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQE;
  }

  bool live = true;
  unsigned unacknowledged = 0;
  bool extended = false;
  bool signals_all = false;
  ibv_qp_state state = IBV_QPS_RESET;  ///< The true state. That of ibv_qp only follows modify.
  ibv_qp_attr attr{};
  ibv_qp_cap cap{};
  std::deque<Send> sends;  ///< Begins with the oldest that occupies a place.
  std::uint64_t next_send = 0;
  ReceiveQueue own_receives;
  std::set<std::pair<wire::Gid, std::uint16_t>> groups;
  /// The groups that the hardware knows: like mlx5, it does not see their MLIDs.
  std::set<wire::Gid> mgids;
  std::uint32_t next_psn = 0;      ///< PSN of the next message sent.
  std::uint32_t expected_psn = 0;  ///< PSN of the next message received.
  bool established = false;
  // Used between wr_start and wr_complete:
  bool building = false;
  int build_error = 0;
  std::vector<Send> built;
};

enum class Side : std::uint8_t { kSend, kReceive };

struct State {
  struct Failure {
    int error;
    unsigned skip;
    unsigned times;
  };
  struct CompletionFailure {
    ibv_wc_status status;
    unsigned skip;
  };

  static State& get();

  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::shared_ptr<void>> objects;
  std::vector<Context*> contexts;
  std::map<std::uint32_t, Qp*> qps;
  std::map<std::uint32_t, Mr*> mrs;
  std::map<std::uint64_t, Context*> posted_buffers;  ///< Buffers of posted receives, by address.
  std::map<Call, Failure> failures;
  std::map<Side, std::deque<CompletionFailure>> failing;
  std::map<Lost, std::uint64_t> lost;
  std::vector<std::string> violations;
  std::vector<Message> sent;
  bool tap = false;
  std::set<std::uint16_t> cut_lids;
  unsigned open_lists = 0;
  std::uint32_t next_qpn = 0x48;
  std::uint32_t next_key = 0x1100;
  SendCounts send_counts;
  std::function<void()> before_destroy_qp;

  template <class T>
  T& make(T object) {
    auto made = std::make_shared<T>(std::move(object));
    objects.push_back(made);
    return *made;
  }
  void violation(std::string what) { violations.push_back(std::move(what)); }
  /// Returns the errno that the call must fail with now, or 0.
  int injected(Call call);
  std::optional<ibv_wc_status> injected(Side side);
};

[[nodiscard]] inline Context& of(ibv_context* context) {
  return *static_cast<Context*>(verbs_get_ctx(context));
}
[[nodiscard]] inline Qp& of(ibv_qp* qp) {
  return *static_cast<Qp*>(reinterpret_cast<ibv_qp_ex*>(qp));
}
inline Context& Qp::context() const {
  return of(qp_base.context);
}

using Lock = std::lock_guard<std::recursive_mutex>;

inline std::nullptr_t refuse(int error) {
  errno = error;
  return nullptr;
}

/// Returns the errno of a call that needs the device, or 0 if the call may continue.
inline int obstacle(const ibv_context* context, Call call) {
  if (const int error = State::get().injected(call); error != 0) return error;
  return of(const_cast<ibv_context*>(context)).gone ? EIO : 0;
}

// fabric.cc
void push_event(Context& context, ibv_event_type type, ibv_async_event event);

// device_calls.cc
/// Removes the waiting events of an object that is being destroyed.
void forget_events(const ibv_cq& cq);
void forget_events(const ibv_srq& srq);
void forget_events(const ibv_qp& qp);

// object_calls.cc
ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);

// queue_pair.cc
int modify(Qp& qp, const ibv_qp_attr& attr, int mask);
/// The queue pair uses its alternate path from now on, and reports it. Precondition: it is armed.
void migrate(Qp& qp);
/// Two queue pairs that both have an alternate path loaded are armed by the next packet.
void arm(Qp& qp, Qp& peer);
/// Sets the state to ERR and flushes all queues.
void enter_error(Qp& qp);
/// Empties the queues of the queue pair and, if the device does that, removes its completions.
void empty(Qp& qp);
int poll_cq(ibv_cq* cq, int n, ibv_wc* wc);
void complete(Qp& qp, Cq& cq, const Cqe& entry);
void break_cq(Cq& cq);

// posting.cc
void set_posting(Qp& qp);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
/// Returns the octets, or nothing if an SGE is outside of registered memory of the domain.
std::optional<std::vector<std::byte>> gather(const ibv_pd* pd, std::span<const ibv_sge> sges);

// delivery.cc
/// Carries out the possible sends of one queue pair, or of all.
void progress(Qp& qp);
void progress();
void flush_sends(Qp& qp);
void flush_receives(Qp& qp);
void deliver(const Message& message);

// fast.cc
void set_fast(Context& context);
void set_fast_sending(Qp& qp);

// offload.cc
void fill_checksums(std::span<std::byte> packet);
[[nodiscard]] bool checksums_good(std::span<const std::byte> packet);

}  // namespace ipoib::fake_verbs
