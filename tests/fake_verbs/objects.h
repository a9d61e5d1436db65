// SPDX-License-Identifier: BSD-3-Clause
// What stands behind libibverbs' structs: the fake's own view of devices, queues and what is in
// them. Objects are kept until Fabric::reset(), so that no address comes again and whoever uses a
// destroyed one is found out.
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

#include "tests/fake_verbs/fabric.h"

namespace ipoib::fake_verbs {

struct Context : verbs_context {
  Device* device;
  bool gone = false;  ///< The device was removed under it.
  Removal removal;
  int event_fd[2] = {-1, -1};  ///< [0] is async_fd; each waiting event is an octet in between.
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
  // A parent domain's:
  Pd* base = nullptr;
  Td* td = nullptr;
};

/// The protection domain proper, which memory and address handles are of.
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
  std::optional<std::uint64_t> send;  ///< Number of the send in its queue pair.
};

/// Numbers of work requests of a fast device, in the order they were posted.
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
  // Of a fast device:
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
  std::vector<std::byte> bytes;  ///< As they were when it was posted.
  Ah* ah = nullptr;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  bool started = false;
  bool done = false;
  unsigned tries = 0;  ///< Times that it could not be done.
};

struct Qp : ibv_qp_ex {
  [[nodiscard]] Context& context() const;
  [[nodiscard]] Device& device() const { return *context().device; }
  [[nodiscard]] const Port& port() const { return device().ports[attr.port_num - 1U]; }
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
  ibv_qp_state state = IBV_QPS_RESET;  ///< The true one; that of ibv_qp knows of modify alone.
  ibv_qp_attr attr{};
  ibv_qp_cap cap{};
  std::deque<Send> sends;  ///< From the oldest whose place is taken.
  std::uint64_t next_send = 0;
  ReceiveQueue own_receives;
  std::set<std::pair<wire::Gid, std::uint16_t>> groups;
  std::uint32_t next_psn = 0;      ///< Of what is sent,
  std::uint32_t expected_psn = 0;  ///< and of what is received.
  bool established = false;
  // Between wr_start and wr_complete:
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
  std::map<std::uint64_t, Context*> posted_buffers;  ///< Each by its address; those of receives.
  std::map<Call, Failure> failures;
  std::map<Side, std::deque<CompletionFailure>> failing;
  std::map<Lost, std::uint64_t> lost;
  std::vector<std::string> violations;
  std::vector<Message> sent;
  bool tap = false;
  unsigned open_lists = 0;
  std::uint32_t next_qpn = 0x48;
  std::uint32_t next_key = 0x1100;
  SendCounts send_counts;

  template <class T>
  T& make(T object) {
    auto made = std::make_shared<T>(std::move(object));
    objects.push_back(made);
    return *made;
  }
  void violation(std::string what) { violations.push_back(std::move(what)); }
  /// errno that the call is to fail with now, or 0.
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

/// errno of a call that needs the device; 0: it may go on.
inline int obstacle(const ibv_context* context, Call call) {
  if (const int error = State::get().injected(call); error != 0) return error;
  return of(const_cast<ibv_context*>(context)).gone ? EIO : 0;
}

// fabric.cc
void push_event(Context& context, ibv_event_type type, ibv_async_event event);

// device_calls.cc
/// Events that wait and speak of an object that ends go with it.
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
/// To ERR, with all that is in the queues flushed.
void enter_error(Qp& qp);
/// Nothing is in its queues any more and, where the device does that, in its completion queues.
void empty(Qp& qp);
int poll_cq(ibv_cq* cq, int n, ibv_wc* wc);
void complete(Qp& qp, Cq& cq, const Cqe& entry);
void break_cq(Cq& cq);

// posting.cc
void set_posting(Qp& qp);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
/// The octets; nothing when the memory is not registered for it.
std::optional<std::vector<std::byte>> gather(const ibv_pd* pd, std::span<const ibv_sge> sges);

// delivery.cc
/// Carries out what can be: of one queue pair, or of all.
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
