// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/device/eth_device.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lib/base/log.h"
#include "lib/fabric/ethdev_mtu.h"

namespace ipoib::mgmt {
namespace {

std::string device_names() {
  std::string names;
  for (auto p = rte_eth_find_next(0); p < RTE_MAX_ETHPORTS;
       p = rte_eth_find_next(static_cast<std::uint16_t>(p + 1))) {
    std::array<char, RTE_ETH_NAME_MAX_LEN> name{};
    if (rte_eth_dev_get_name_by_port(static_cast<std::uint16_t>(p), name.data()) != 0) continue;
    if (!names.empty()) names += ", ";
    names += name.data();
  }
  return names.empty() ? "none; add a device with the EAL option --vdev or -a" : names;
}

struct Found {
  std::uint16_t port = 0;
  rte_eth_dev_info info{};
};

Result<Found> find(const std::string& device) {
  Found found;
  if (rte_eth_dev_get_port_by_name(device.c_str(), &found.port) != 0)
    return fail(Errc::kNotFound, "no device {}; available: {}", device, device_names());
  if (const int r = rte_eth_dev_info_get(found.port, &found.info); r != 0)
    return fail(Errc::kRefused, "device {}: {}", device, std::strerror(-r));
  return found;
}

bool tells_of_removal(const rte_eth_dev_info& info) {
  return (*info.dev_flags & RTE_ETH_DEV_INTR_RMV) != 0;
}

/// Properties of drivers that their rte_eth_dev_info does not state.
struct DriverTraits {
  std::string_view driver;
  /// False: it cannot start a device again after a stop, so EthDevice::stop() leaves it running.
  bool restarts = true;
  /// Packets arrive at all queues that the device was created with, and must be taken there.
  bool receives_on_all = false;
  /// It has as many transmit as receive queues: the driver asks for that, the peer of the device must
  /// have as many, or the device receives on as many as it sends.
  bool paired = false;
};

DriverTraits traits_of(std::string_view driver) {
  static constexpr std::array<DriverTraits, 12> kTraits{{
      {.driver = "net_af_packet", .restarts = false, .receives_on_all = true},
      {.driver = "net_af_xdp", .paired = true},
      {.driver = "net_bnx2x", .paired = true},
      {.driver = "net_bnx2xvf", .paired = true},
      {.driver = "net_mana", .paired = true},
      {.driver = "net_memif", .paired = true},
      {.driver = "net_pcap", .receives_on_all = true},
      {.driver = "net_ring", .receives_on_all = true},
      {.driver = "net_tap", .paired = true},
      {.driver = "net_vhost", .paired = true},
      {.driver = "net_virtio", .paired = true},
      {.driver = "net_virtio_user", .paired = true},
  }};
  const auto it = std::find_if(kTraits.begin(), kTraits.end(),
                               [driver](const DriverTraits& t) { return t.driver == driver; });
  return it != kTraits.end() ? *it : DriverTraits{};
}

/// Key of the Toeplitz hash, of any length: with a period of 16 bits, both directions of a flow have
/// one hash. Drivers read it at each start, and change it only on request.
std::uint8_t* symmetric_key() {
  static std::array<std::uint8_t, UINT8_MAX> key = [] {
    std::array<std::uint8_t, UINT8_MAX> made;
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = i % 2 == 0 ? 0x6d : 0x5a;
    return made;
  }();
  return key.data();
}

Status set_up_queues(std::uint16_t port, const rte_eth_dev_info& info,
                     const EthDeviceConfig& config, const EthQueueNumbers& queues) {
  const auto step = [&](int result, const char* what) -> Status {
    if (result == 0) return {};
    return fail(Errc::kRefused, "device {} with {} receive and {} transmit queues: {}: {}",
                config.device, queues.rx, queues.tx, what, std::strerror(-result));
  };
  // The MTU is set separately, because some drivers refuse here an MTU that they support.
  rte_eth_conf conf{};
  // Packets from connected links are mbuf chains.
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  conf.intr_conf.rmv = tells_of_removal(info) ? 1 : 0;
  conf.rxmode.mtu = std::clamp<std::uint32_t>(RTE_ETHER_MTU, info.min_mtu, info.max_mtu);
  if (queues.rx > 1 && info.flow_type_rss_offloads != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf = {
        .rss_key = info.hash_key_size == 0 ? nullptr : symmetric_key(),
        .rss_key_len = info.hash_key_size,
        .rss_hf = info.flow_type_rss_offloads &
                  (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_SCTP)};
  }
  if (auto s =
          step(rte_eth_dev_configure(port, queues.rx, queues.tx, &conf), "cannot be configured");
      !s)
    return s;

  auto rxd = static_cast<std::uint16_t>(config.rxd);
  auto txd = static_cast<std::uint16_t>(config.txd);
  if (auto s = step(rte_eth_dev_adjust_nb_rx_tx_desc(port, &rxd, &txd), "descriptors"); !s)
    return s;
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(port));
  for (std::uint16_t q = 0; q < queues.rx; ++q) {
    rte_mempool* const pool = config.rx_pools[q % config.rx_pools.size()];
    if (auto s = step(rte_eth_rx_queue_setup(port, q, rxd, socket, nullptr, pool), "receive queue");
        !s)
      return s;
  }
  for (std::uint16_t q = 0; q < queues.tx; ++q)
    if (auto s = step(rte_eth_tx_queue_setup(port, q, txd, socket, nullptr), "transmit queue"); !s)
      return s;
  return {};
}

}  // namespace

fabric::Capabilities capabilities_of(const rte_eth_dev_info& info) {
  fabric::Capabilities able;
  if ((info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0) {
    // A limit of 0 means that the driver states none.
    const auto stated = [](std::uint16_t n) { return n == 0 ? fabric::kAnySegments : n; };
    able.max_segments =
        std::min(stated(info.tx_desc_lim.nb_seg_max), stated(info.tx_desc_lim.nb_mtu_seg_max));
  }
  able.receives_chains = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
  able.removal_events = tells_of_removal(info);
  return able;
}

Result<EthQueueNumbers> queues_for(const rte_eth_dev_info& info, unsigned receivers,
                                   unsigned senders) {
  if (receivers > info.max_rx_queues)
    return fail(Errc::kUnavailable, "the device has {} receive queues, and {} workers receive",
                info.max_rx_queues, receivers);
  const DriverTraits traits = traits_of(info.driver_name);
  const unsigned rx = traits.receives_on_all ? info.max_rx_queues : receivers;
  const unsigned tx = std::min<unsigned>(traits.paired ? rx : senders, info.max_tx_queues);
  return EthQueueNumbers{static_cast<std::uint16_t>(rx), static_cast<std::uint16_t>(tx)};
}

EthSpread spread_of(const std::string& device) {
  const auto found = find(device);
  if (!found) return {};
  const auto& [port, info] = *found;
  const DriverTraits traits = traits_of(info.driver_name);
  const bool spreads = (info.flow_type_rss_offloads & RTE_ETH_RSS_IP) != 0 && !traits.paired &&
                       !traits.receives_on_all;
  return {.queues = spreads ? info.max_rx_queues : 1U, .socket = rte_eth_dev_socket_id(port)};
}

Result<EthDevice> EthDevice::open(const EthDeviceConfig& config) {
  const auto found = find(config.device);
  if (!found) return tl::make_unexpected(found.error());
  const auto& [port, info] = *found;
  const auto queues =
      queues_for(info, static_cast<unsigned>(config.rx_pools.size()), config.senders);
  if (!queues) return fail(queues.error().code, "{}: {}", config.device, queues.error().what);
  if (auto s = set_up_queues(port, info, config, *queues); !s)
    return tl::make_unexpected(s.error());
  EthDevice device{port, config.device, info.driver_name};
  device.queues_ = *queues;
  device.capabilities_ = capabilities_of(info);
  device.mtu_ = config.mtu;
  if (auto s = fabric::require_ethdev_mtu(port, config.mtu); !s)
    return tl::make_unexpected(s.error());
  if (const int r = rte_eth_dev_start(port); r != 0)
    return fail(Errc::kRefused, "cannot start device {}: {}", config.device, std::strerror(-r));
  device.share_hashes();
  const bool promiscuous = config.promiscuous && rte_eth_promiscuous_enable(port) == 0;
  if (config.promiscuous && !promiscuous)
    log(LogArea::kFabric, LogLevel::kInfo, "device {} does not support promiscuous mode",
        config.device);
  device.groups_.open(promiscuous);
  device.watch_ = std::make_unique<RemovalWatch>(port);
  rte_ether_addr mac{};
  if (rte_eth_macaddr_get(port, &mac) == 0)
    std::memcpy(device.mac_.data(), mac.addr_bytes, device.mac_.size());
  return device;
}

EthDevice::EthDevice(std::uint16_t port, std::string device, std::string driver)
    : port_{port}, name_{device}, driver_{std::move(driver)}, groups_{port, std::move(device)} {}

EthDevice::EthDevice(EthDevice&& other) noexcept
    : port_{std::exchange(other.port_, kNoPort)},
      name_{std::move(other.name_)},
      driver_{std::move(other.driver_)},
      queues_{other.queues_},
      capabilities_{other.capabilities_},
      groups_{std::move(other.groups_)},
      watch_{std::move(other.watch_)},
      mac_{other.mac_},
      mtu_{other.mtu_},
      started_{other.started_} {}

EthDevice::~EthDevice() {
  close();
}

void EthDevice::close() {
  if (closed()) return;
  started_ = false;
  watch_.reset();
  groups_.close();
  if (const int r = rte_eth_dev_stop(port_); r != 0)
    log(LogArea::kFabric, LogLevel::kWarning, "cannot stop device {}: {}", name_,
        std::strerror(-r));
  rte_eth_dev_close(port_);
  port_ = kNoPort;
}

Status EthDevice::present() const {
  if (!closed()) return {};
  return fail(Errc::kUnavailable, "device {} was removed; restart the node to use it again", name_);
}

fabric::Capabilities EthDevice::capabilities() const {
  fabric::Capabilities able = capabilities_;
  able.multicast = groups_.filter();
  return able;
}

/// Gives each receive queue an equal share of the hashes. Drivers do so too, except when the number
/// of queues is no power of two, or after another program has used the device.
void EthDevice::share_hashes() const {
  rte_eth_dev_info info{};
  if (queues_.rx == 1 || rte_eth_dev_info_get(port_, &info) != 0 || info.reta_size == 0) return;
  std::vector<rte_eth_rss_reta_entry64> table((info.reta_size + RTE_ETH_RETA_GROUP_SIZE - 1) /
                                              RTE_ETH_RETA_GROUP_SIZE);
  for (std::size_t i = 0; i < info.reta_size; ++i) {
    rte_eth_rss_reta_entry64& group = table[i / RTE_ETH_RETA_GROUP_SIZE];
    group.mask |= std::uint64_t{1} << i % RTE_ETH_RETA_GROUP_SIZE;
    group.reta[i % RTE_ETH_RETA_GROUP_SIZE] = static_cast<std::uint16_t>(i % queues_.rx);
  }
  if (const int r = rte_eth_dev_rss_reta_update(port_, table.data(), info.reta_size); r != 0)
    log(LogArea::kFabric, LogLevel::kWarning,
        "device {}: cannot spread flows evenly over {} receive queues: {}", name_, queues_.rx,
        std::strerror(-r));
}

Status EthDevice::stop(DropCounters& drops) {
  if (!started_) return {};
  drain(drops);
  if (const int r = traits_of(driver_).restarts ? rte_eth_dev_stop(port_) : 0; r != 0)
    return fail(Errc::kRefused, "cannot stop the device: {}", std::strerror(-r));
  started_ = false;
  return {};
}

Status EthDevice::start(DropCounters& drops) {
  if (started_) return {};
  if (auto there = present(); !there) return there;
  const bool restarts = traits_of(driver_).restarts;
  if (const int r = restarts ? rte_eth_dev_start(port_) : 0; r != 0)
    return fail(Errc::kRefused, "cannot start the device: {}", std::strerror(-r));
  if (!restarts) drain(drops);
  share_hashes();
  groups_.restore();
  started_ = true;
  return {};
}

void EthDevice::drain(DropCounters& drops) {
  constexpr unsigned kMaxBursts = 1024;  // more than any ring holds
  std::array<rte_mbuf*, 64> pkts;
  for (std::uint16_t q = 0; q < queues_.rx; ++q) {
    for (unsigned i = 0; i < kMaxBursts; ++i) {
      const std::uint16_t n = rte_eth_rx_burst(port_, q, pkts.data(), pkts.size());
      if (n == 0) break;
      rte_pktmbuf_free_bulk(pkts.data(), n);
      drops.add(Drop::kLinkDown, n);
      drained_ += n;
    }
  }
}

Status EthDevice::set_mtu(std::uint16_t mtu) {
  if (auto there = present(); !there) return there;
  auto carried = fabric::require_ethdev_mtu(port_, mtu);
  if (carried) mtu_ = mtu;
  return carried;
}

Status EthDevice::set_promiscuous(bool on) {
  if (auto there = present(); !there) return there;
  if (!on && groups_.filter() == fabric::MulticastFilter::kPromiscuous)
    return fail(Errc::kRefused,
                "cannot disable promiscuous mode: device {} requires it to receive multicast",
                name_);
  const int r = on ? rte_eth_promiscuous_enable(port_) : rte_eth_promiscuous_disable(port_);
  if (r == 0) return {};
  return fail(Errc::kRefused, "promiscuous mode: {}", std::strerror(-r));
}

bool EthDevice::promiscuous() const {
  return !closed() && rte_eth_promiscuous_get(port_) == 1;
}

int EthDevice::socket() const {
  return closed() ? -1 : rte_eth_dev_socket_id(port_);
}

}  // namespace ipoib::mgmt
