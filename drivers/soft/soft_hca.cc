// SPDX-License-Identifier: BSD-3-Clause
// Setup, teardown and control calls of the software HCA.
#include "drivers/soft/soft_hca.h"

#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_random.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/contract.h"
#include "lib/base/hash_seed.h"
#include "lib/base/log.h"
#include "lib/fabric/ethdev_mtu.h"
#include "lib/fabric/packet_meta.h"

namespace ipoib::soft {
namespace {

constexpr std::uint32_t kFirstFreeQpn = 2;
constexpr std::uint32_t kLastQpn = wire::kMulticastQpn - 1;
/// Capabilities::ack_delay: 17 ms. A worker sends the ACK in the loop that reads the packet, and may
/// pause before it; ReadyToReceive::min_rnr_timer rests on the same bound.
constexpr std::uint8_t kAckDelay = 12;

Status check_mtu(const std::string& name, const fabric::PortAttr& attr) {
  if (wire::mtu_octets(attr.mtu) == 0)
    return fail(Errc::kInvalidArgument, "{}: invalid MTU code {}", name, attr.mtu);
  return {};
}

Status check_attr(const std::string& name, const fabric::PortAttr& attr) {
  if (!wire::is_unicast_lid(attr.lid))
    return fail(Errc::kInvalidArgument,
                "{}: invalid LID {:#06x}, allowed: unicast LIDs 0x0001-0xbfff", name, attr.lid);
  if (attr.lmc > 7 || attr.lid % (1U << attr.lmc) != 0)
    return fail(Errc::kInvalidArgument, "{}: LMC {} does not match base LID {:#06x}", name,
                attr.lmc, attr.lid);
  if (attr.sm_lid != 0 && !wire::is_unicast_lid(attr.sm_lid))
    return fail(Errc::kInvalidArgument, "{}: SM LID {:#06x} is not a unicast LID", name,
                attr.sm_lid);
  if (attr.sm_sl > 15)
    return fail(Errc::kInvalidArgument, "{}: invalid SM SL {}, allowed: 0-15", name, attr.sm_sl);
  for (const std::uint16_t pkey : attr.pkeys)
    if ((pkey & ~wire::kFullMemberBit) == 0)
      return fail(Errc::kInvalidArgument, "{}: invalid P_Key {:#06x}", name, pkey);
  return check_mtu(name, attr);
}

Status check_config(const SoftHcaConfig& config, bool managed) {
  Status ok = managed ? check_mtu(config.name, config.attr) : check_attr(config.name, config.attr);
  if (!ok) return ok;
  if (config.first_qpn && (*config.first_qpn < kFirstFreeQpn || *config.first_qpn > kLastQpn))
    return fail(Errc::kInvalidArgument, "{}: invalid first QPN {:#x}, allowed: {:#x}-{:#x}",
                config.name, *config.first_qpn, kFirstFreeQpn, kLastQpn);
  return {};
}

Status check_ethdev(const SoftHcaConfig& config) {
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(config.port_id, &info) != 0)
    return fail(Errc::kNotFound, "{}: no ethdev {}", config.name, config.port_id);
  const unsigned ib_mtu = wire::mtu_octets(config.attr.mtu);
  const auto eth_mtu = static_cast<std::uint16_t>(ib_mtu + kEthMtuOverhead);
  if (const Status fits = fabric::require_ethdev_mtu(config.port_id, eth_mtu); !fits)
    return fail(fits.error().code, "{}: {} for an IB MTU of {}", config.name, fits.error().what,
                ib_mtu);
  if (config.rx_queues < 1 || config.rx_queues > info.nb_rx_queues || config.workers < 1 ||
      config.workers > info.nb_tx_queues || config.readers < 1 ||
      config.readers > std::min(config.rx_queues, config.workers))
    return fail(
        Errc::kInvalidArgument,
        "{}: {} receive queues of {} workers and {} workers that send, but ethdev {} has {} "
        "receive and {} transmit queues",
        config.name, config.rx_queues, config.readers, config.workers, config.port_id,
        info.nb_rx_queues, info.nb_tx_queues);
  return {};
}

std::uint64_t read_tsc() noexcept {
  return rte_rdtsc();
}

/// Attributes of a managed port until its manager provides them.
fabric::PortAttr unmanaged_attr(const fabric::PortAttr& attr) {
  return {.mtu = attr.mtu, .state = fabric::PortState::kDown, .pkeys = {}};
}

SoftHcaConfig with_defaults(SoftHcaConfig config) {
  if (config.control_pool == nullptr) config.control_pool = config.pool;
  if (config.tsc == nullptr) config.tsc = &read_tsc;
  if (config.tsc_hz == 0) config.tsc_hz = rte_get_tsc_hz();
  return config;
}

/// Creates a ring for MADs with one producer and one consumer.
Result<fabric::RingPtr> create_mad_ring(const SoftHcaConfig& config, const char* what) {
  const std::string name = fmt::format("soft{}_{}", config.port_id, what);
  fabric::RingPtr ring{rte_ring_create(name.c_str(), SoftMadPort::kRingSize, config.socket_id,
                                       RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ)};
  if (ring != nullptr) return ring;
  if (rte_errno == EEXIST)
    return fail(Errc::kExists, "{}: ethdev {} is already the cable of another software HCA",
                config.name, config.port_id);
  return fail(Errc::kNoResources, "{}: ring {}: {}", config.name, name, rte_strerror(rte_errno));
}

void enable_promiscuous(const SoftHcaConfig& config) {
  const int error = rte_eth_promiscuous_enable(config.port_id);
  if (error != 0 && error != -ENOTSUP)
    log(LogArea::kFabric, LogLevel::kWarning,
        "{}: cannot set ethdev {} to promiscuous mode, frames to LID {:#06x} may be lost: {}",
        config.name, config.port_id, config.attr.lid, rte_strerror(-error));
}

}  // namespace

Result<std::unique_ptr<SoftHca>> SoftHca::create(const SoftHcaConfig& config,
                                                 std::unique_ptr<fabric::PortManager> manager) {
  if (Status ok = check_config(config, manager != nullptr); !ok)
    return tl::make_unexpected(ok.error());
  if (Status ok = check_ethdev(config); !ok) return tl::make_unexpected(ok.error());
  if (config.pool == nullptr)
    return fail(Errc::kInvalidArgument, "{}: no mempool given", config.name);
  if (config.control_pool != nullptr && rte_pktmbuf_data_room_size(config.control_pool) <
                                            RTE_PKTMBUF_HEADROOM + SoftMadPort::kFrameLen)
    return fail(Errc::kInvalidArgument,
                "{}: mbufs of mempool {} are too small for a MAD of {} octets", config.name,
                config.control_pool->name, SoftMadPort::kFrameLen);
  if (Status ok = fabric::register_packet_meta(); !ok) return tl::make_unexpected(ok.error());
  Result<fabric::RingPtr> mads_out = create_mad_ring(config, "mad_out");
  if (!mads_out) return tl::make_unexpected(mads_out.error());
  Result<fabric::RingPtr> mads_in = create_mad_ring(config, "mad_in");
  if (!mads_in) return tl::make_unexpected(mads_in.error());
  std::unique_ptr<WorkerRings> rings;
  if (config.workers > 1) {
    auto made = WorkerRings::create(config.workers, config.ring_places, config.socket_id);
    if (!made) return fail(made.error().code, "{}: {}", config.name, made.error().what);
    rings = std::move(*made);
  }
  Result<std::unique_ptr<AhTable>> ahs = AhTable::create(
      config.socket_id, with_defaults(config).tsc_hz,
      config.retirement != nullptr ? *config.retirement : fabric::no_workers(), config.workers);
  if (!ahs) return tl::make_unexpected(ahs.error());
  enable_promiscuous(config);
  return std::unique_ptr<SoftHca>{new SoftHca{config, std::move(manager), std::move(*ahs),
                                              std::move(*mads_out), std::move(*mads_in),
                                              std::move(rings)}};
}

SoftHca::SoftHca(const SoftHcaConfig& config, std::unique_ptr<fabric::PortManager> manager,
                 std::unique_ptr<AhTable> ahs, fabric::RingPtr mads_out, fabric::RingPtr mads_in,
                 std::unique_ptr<WorkerRings> rings)
    : Hca{config.name,
          {.connected = this,
           .capture = this,
           .setter = manager == nullptr ? this : nullptr,
           .wire = this,
           .poll = &SoftHca::poll}},
      config_{with_defaults(config)},
      manager_{std::move(manager)},
      max_mtu_code_{config.attr.mtu},
      grace_{config.qsbr},
      next_qpn_{config.first_qpn.value_or(
          kFirstFreeQpn + static_cast<std::uint32_t>(rte_rand_max(kLastQpn - kFirstFreeQpn + 1)))},
      ahs_{std::move(ahs)},
      groups_{grace_, secret_seed()},
      mads_out_{std::move(mads_out)},
      mads_in_{std::move(mads_in)},
      mad_share_{std::make_unique<MadShare>(SoftMadPort::kRingSize)},
      rings_{std::move(rings)},
      mad_port_{config_.attr, config.icrc, config.pool, config_.control_pool,
                *mads_out_,   *mads_in_,   *mad_share_, config.doorbell != nullptr},
      admin_up_{manager_ == nullptr} {
  for (std::uint16_t worker = 0; worker < config.workers; ++worker)
    datapaths_.push_back(std::make_unique<UdDatapath>(datapath_config(worker)));
  if (manager_) config_.attr = unmanaged_attr(config.attr);
  poll_link_status();
  publish();
  events_ = {};  // the initial state is not an event
}

UdDatapathConfig SoftHca::datapath_config(std::uint16_t worker) const {
  UdDatapathConfig datapath{.port_id = config_.port_id,
                            .worker = worker,
                            .rx_queues = {},
                            .icrc = config_.icrc,
                            .mtu = wire::mtu_octets(config_.attr.mtu),
                            .pool = config_.pool,
                            .control_pool = config_.control_pool,
                            .share_pool = config_.share_pool,
                            .ahs = ahs_.get(),
                            .tsc = config_.tsc,
                            .rate_burst_tsc = config_.tsc_hz * RateBucket::kBurstMs / 1000};
  datapath.doorbell = config_.doorbell;
  datapath.rings = rings_.get();
  if (worker < config_.readers)
    for (std::uint16_t q = worker; q < config_.rx_queues;
         q = static_cast<std::uint16_t>(q + config_.readers))
      datapath.rx_queues.push_back(q);
  if (worker != 0) return datapath;
  datapath.mads_out = mads_out_.get();
  datapath.mads_in = manager_ ? nullptr : mads_in_.get();
  datapath.mad_share = mad_share_.get();
  return datapath;
}

SoftHca::~SoftHca() {
  connected_.reset();
  for (const auto& queue : queues_) drain(*queue);
  fabric::free_mbufs_in(*mads_out_);
}

std::uint32_t SoftHca::poll(fabric::Hca& hca, unsigned worker, std::uint16_t burst) noexcept {
  return static_cast<SoftHca&>(hca).datapaths_[worker]->poll(burst);
}

/// Publishes a new receive table to the workers.
void SoftHca::publish(SoftUdQueue* closing) {
  const bool active = config_.attr.state == fabric::PortState::kActive;
  for (const auto& queue : queues_)
    queue->set_pkey(active ? own_entry(config_.attr, queue->partition()) : std::uint16_t{0});
  if (connected_) connected_->on_port_change();
  std::vector<SoftUdQueue*> open;
  for (const auto& queue : queues_)
    if (queue.get() != closing) open.push_back(queue.get());
  auto table = std::make_unique<const RxTable>(config_.attr, open, groups_, closing);
  for (const auto& datapath : datapaths_) datapath->publish(table.get());
  old_tables_.add(std::exchange(table_, std::move(table)), grace_);
  old_tables_.reclaim(grace_, [](std::unique_ptr<const RxTable> old) { old.reset(); });
}

Result<std::uint32_t> SoftHca::allocate_qpn() {
  if (queues_.size() + config_.kept_qpns.size() > kLastQpn - kFirstFreeQpn)
    return fail(Errc::kNoResources, "{}: all QPNs are in use", config_.name);
  for (;;) {
    const std::uint32_t qpn = next_qpn_;
    next_qpn_ = qpn == kLastQpn ? kFirstFreeQpn : qpn + 1;
    const bool kept = std::ranges::find(config_.kept_qpns, qpn) != config_.kept_qpns.end();
    if (!kept && !is_used(qpn)) return qpn;
  }
}

bool SoftHca::is_used(std::uint32_t qpn) const {
  return std::ranges::any_of(queues_, [qpn](const auto& queue) { return queue->qpn() == qpn; }) ||
         (connected_ && connected_->uses(qpn));
}

Result<std::uint32_t> SoftHca::take_qpn(std::uint32_t qpn) const {
  if (qpn < kFirstFreeQpn || qpn > kLastQpn)
    return fail(Errc::kInvalidArgument, "{}: QPN {:#x} is not in {}-{:#x}", config_.name, qpn,
                kFirstFreeQpn, kLastQpn);
  if (is_used(qpn))
    return fail(Errc::kExists, "{}: QPN {:#x} is in use by another queue pair", config_.name, qpn);
  return qpn;
}

Result<fabric::UdQueue*> SoftHca::create_ud_queue(const fabric::UdQueueConfig& config) {
  expects_management();
  // With a manager the P_Key table is not known yet, and the P_Key may be added at any time.
  if (manager_ == nullptr && own_entry(config_.attr, config.pkey) == 0)
    return fail(Errc::kInvalidArgument, "{}: P_Key {:#06x} is not in the P_Key table of the port",
                config_.name, config.pkey);
  if (config.worker >= config_.workers)
    return fail(Errc::kInvalidArgument, "{}: queue pair for worker {}, but {} have some",
                config_.name, config.worker, config_.workers);
  const Result<std::uint32_t> qpn = config.qpn ? take_qpn(*config.qpn) : allocate_qpn();
  if (!qpn) return tl::make_unexpected(qpn.error());
  queues_.push_back(std::make_unique<SoftUdQueue>(*datapaths_[config.worker], *qpn, config));
  publish();
  return queues_.back().get();
}

void SoftHca::destroy_ud_queue(fabric::UdQueue& queue) {
  expects_management();
  const auto found = std::find_if(queues_.begin(), queues_.end(),
                                  [&](const auto& q) { return q.get() == &queue; });
  if (found == queues_.end()) return;
  SoftUdQueue& closing = **found;
  groups_.detach_all(closing);
  publish(&closing);
  // After the first wait every loop uses the new table. After the second wait one whole loop has
  // used it, and so has drained the queue.
  grace_.wait();
  grace_.wait();
  std::unique_ptr<SoftUdQueue> owned = std::move(*found);
  queues_.erase(found);
  publish();
  grace_.wait();
  drain(*owned);
}

/// Drops the packets of a queue that no worker uses any more.
void SoftHca::drain(SoftUdQueue& queue) {
  rte_mbuf* m = nullptr;
  while (queue.pop(&m, 1) != 0) {
    ended_.add(Drop::kIbQpn);
    rte_pktmbuf_free(m);
  }
}

Status SoftHca::set_qkey(fabric::UdQueue& queue, std::uint32_t qkey) {
  expects_management();
  static_cast<SoftUdQueue&>(queue).set_qkey(qkey);
  return {};
}

Status SoftHca::attach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) {
  expects_management();
  if (!mgid.is_multicast() || !wire::is_multicast_lid(mlid))
    return fail(Errc::kInvalidArgument,
                "{}: cannot attach to MLID {:#06x}: not a multicast GID and LID", config_.name,
                mlid);
  const Status done = groups_.attach(mgid, mlid, static_cast<SoftUdQueue&>(queue));
  if (!done) return fail(done.error().code, "{}: {}", config_.name, done.error().what);
  return {};
}

Status SoftHca::detach(fabric::UdQueue& queue, const wire::Gid& mgid, std::uint16_t mlid) {
  expects_management();
  if (!mgid.is_multicast() || !wire::is_multicast_lid(mlid) ||
      !groups_.detach(mgid, mlid, static_cast<SoftUdQueue&>(queue)))
    return fail(Errc::kNotFound, "{}: QP {:#08x} is not attached to this group on MLID {:#06x}",
                config_.name, queue.qpn(), mlid);
  return {};
}

Result<fabric::AhIndex> SoftHca::create_ah(const fabric::AhAttr& attr) {
  expects_management();
  return ahs_->add(config_.attr, attr);
}

void SoftHca::destroy_ah(fabric::AhIndex ah) {
  expects_management();
  ahs_->remove(ah);
}

void SoftHca::set_active(bool active) {
  const auto state = active ? fabric::PortState::kActive : fabric::PortState::kDown;
  if (std::exchange(config_.attr.state, state) == state) return;
  events_.add(active ? fabric::PortEvent::kPortActive : fabric::PortEvent::kPortDown);
  publish();
}

/// Packets of several mbufs are copied, regardless of the ethdev's capabilities: frames are one
/// mbuf each.
fabric::Capabilities SoftHca::capabilities() const {
  return {.max_segments = fabric::kAnySegments,
          .receives_chains = true,
          .multicast = fabric::MulticastFilter::kGroups,
          .max_workers = config_.workers,
          .alternate_paths = true,
          .ack_delay = kAckDelay};
}

DropTotals SoftHca::drops() const {
  DropTotals sum;
  sum.add(ended_);
  for (const auto& datapath : datapaths_) sum.add(datapath->drops());
  return sum;
}

std::uint64_t SoftHca::capture_lost() const {
  std::uint64_t sum = 0;
  for (const auto& datapath : datapaths_) sum += datapath->capture_lost().get();
  return sum;
}

std::uint64_t SoftHca::tx_copies() const {
  std::uint64_t sum = 0;
  for (const auto& datapath : datapaths_) sum += datapath->tx_copies().get();
  return sum;
}

void SoftHca::on_ethdev_removed() {
  expects_management();
  ethdev_removed_ = true;
  link_up_ = false;
  set_active(false);
  for (const auto& datapath : datapaths_) datapath->stop_ethdev();
  grace_.wait();
}

void SoftHca::poll_link_status() {
  if (ethdev_removed_) return;
  const std::uint64_t now_tsc = config_.tsc();
  if (now_tsc < next_link_poll_tsc_) return;
  next_link_poll_tsc_ = now_tsc + config_.tsc_hz / 10;  // some drivers query the kernel each time
  rte_eth_link link{};
  // A device that does not report its link counts as up.
  link_up_ =
      rte_eth_link_get_nowait(config_.port_id, &link) != 0 || link.link_status == RTE_ETH_LINK_UP;
  set_active(admin_up_ && link_up_);
}

std::optional<fabric::PortEvent> SoftHca::next_event() {
  expects_management();
  poll_link_status();
  if (manager_) on_manager_events();
  if (mad_port_.agent().take_reregister(config_.tsc(), config_.tsc_hz))
    events_.add(fabric::PortEvent::kClientReregister);
  return events_.next();
}

/// Takes over the port's attributes if the manager has events.
void SoftHca::on_manager_events() {
  using fabric::PortEvent;
  bool news = false;
  while (const auto event = manager_->next_event()) {
    news = true;
    if (*event == PortEvent::kClientReregister || *event == PortEvent::kFatal) events_.add(*event);
  }
  if (!news) return;
  fabric::PortAttr next = manager_->attr();
  admin_up_ = next.state == fabric::PortState::kActive;
  if (admin_up_) {
    next.mtu = std::min(next.mtu, max_mtu_code_);
    if (Status taken = apply_attr(std::move(next)); !taken) {
      log(LogArea::kFabric, LogLevel::kErr, "{}; the port stays down", taken.error().what);
      admin_up_ = false;
    }
  }
  set_active(admin_up_ && link_up_);
}

std::string SoftHca::problem() const {
  if (ethdev_removed_) return "the Ethernet device of the cable was removed";
  if (!link_up_) return "the cable is down";
  return manager_ ? manager_->problem() : std::string{};
}

Status SoftHca::change_port(const fabric::PortChange& change) {
  expects_management();
  expects(manager_ == nullptr, "no subnet manager sets the port");
  const fabric::PortAttr& old = config_.attr;
  fabric::PortAttr next = old;
  next.lid = change.lid.value_or(old.lid);
  next.sm_lid = change.sm_lid.value_or(old.sm_lid);
  next.sm_sl = change.sm_sl.value_or(old.sm_sl);
  next.gid_prefix = change.gid_prefix.value_or(old.gid_prefix);
  if (change.pkeys) next.pkeys = *change.pkeys;
  if (Status ok = apply_attr(std::move(next)); !ok) return ok;
  if (change.reregister) events_.add(fabric::PortEvent::kClientReregister);
  admin_up_ = change.up.value_or(admin_up_);
  set_active(admin_up_ && link_up_);
  return {};
}

/// Applies `next` to the port, except its state. Nothing changes on failure.
Status SoftHca::apply_attr(fabric::PortAttr next) {
  if (Status ok = check_attr(config_.name, next); !ok) return ok;
  const fabric::PortAttr& old = config_.attr;
  next.state = old.state;
  if (next.lid != old.lid || next.lmc != old.lmc || next.gid() != old.gid() ||
      next.rate != old.rate)
    if (Status ok = ahs_->rebuild(next, grace_); !ok) return ok;
  if (old.lid != 0) events_.add_changes(old, next);  // else the port had no attributes before
  config_.attr = std::move(next);
  publish();
  return {};
}

void SoftHca::set_capture(const std::optional<fabric::CaptureTap>& tap) {
  expects_management();
  auto fresh = tap ? std::make_unique<const fabric::CaptureTap>(*tap) : nullptr;
  for (const auto& datapath : datapaths_) datapath->set_tap(fresh.get());
  grace_.wait();
  tap_ = std::move(fresh);
}

SoftUdQueue::SoftUdQueue(UdDatapath& datapath, std::uint32_t qpn,
                         const fabric::UdQueueConfig& config)
    : UdQueue{qpn, &SoftUdQueue::rx, &SoftUdQueue::tx, &kFrames},
      datapath_{datapath},
      partition_{config.pkey},
      worker_{datapath.config().worker},
      first_{config.first} {}

const fabric::UdFrames SoftUdQueue::kFrames = {.keys = &frame_keys,
                                               .head = &frame_head,
                                               .tx_burst = &tx_frames,
                                               .heads_version = &heads_version};

std::uint16_t SoftUdQueue::rx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  auto& self = static_cast<SoftUdQueue&>(queue);
  return self.datapath_.rx_burst(self, pkts, n);
}

std::uint16_t SoftUdQueue::tx(fabric::UdQueue& queue, rte_mbuf** pkts, std::uint16_t n) noexcept {
  auto& self = static_cast<SoftUdQueue&>(queue);
  return self.datapath_.tx_burst(self, pkts, n);
}

bool SoftUdQueue::frame_keys(fabric::UdQueue& queue, fabric::FrameKeys& keys) noexcept {
  auto& self = static_cast<SoftUdQueue&>(queue);
  return self.datapath_.frame_keys(self, keys);
}

bool SoftUdQueue::frame_head(const fabric::UdQueue& queue, fabric::AhIndex ah,
                             fabric::FrameHead& head) noexcept {
  return static_cast<const SoftUdQueue&>(queue).datapath_.frame_head(ah, head);
}

std::uint16_t SoftUdQueue::tx_frames(fabric::UdQueue& queue, rte_mbuf** frames,
                                     std::uint16_t n) noexcept {
  return static_cast<SoftUdQueue&>(queue).datapath_.tx_frames({frames, n});
}

const std::atomic<std::uint32_t>& SoftUdQueue::heads_version(
    const fabric::UdQueue& queue) noexcept {
  return static_cast<const SoftUdQueue&>(queue).datapath_.config().ahs->version();
}

}  // namespace ipoib::soft
