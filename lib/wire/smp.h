// SPDX-License-Identifier: BSD-3-Clause
// Subnet management MADs that query the attributes of a port and the state of a subnet manager.
// Source: IBA vol 1 §14.2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/wire/be.h"
#include "lib/wire/mad.h"

namespace ipoib::wire {

inline constexpr std::uint8_t kSmpClassVersion = 1;
inline constexpr std::uint16_t kPermissiveLid = 0xffff;
/// Virtual lane of SMPs, and of nothing else.
inline constexpr std::uint8_t kManagementVl = 15;
/// Direction bit in the status of a directed-route SMP: the SMP returns to the requester.
inline constexpr std::uint16_t kSmpReturning = 0x8000;

enum class SmpAttr : std::uint16_t {
  kNodeInfo = 0x11,
  kPortInfo = 0x15,
  kPkeyTable = 0x16,
  kSmInfo = 0x20,
};

/// Complete SMP. Without a directed route, m_key is the last valid field before the data. With one,
/// the class-specific field of the header is HopPointer:8, HopCount:8.
struct Smp {
  MadHdr mad;
  Be64 m_key;
  Be16 dr_slid;
  Be16 dr_dlid;
  std::array<std::byte, 28> reserved;
  std::array<std::byte, 64> data;
  std::array<std::byte, 64> initial_path;
  std::array<std::byte, 64> return_path;
};
static_assert(WireRecord<Smp> && sizeof(Smp) == kMadLen && offsetof(Smp, dr_slid) == 32 &&
              offsetof(Smp, data) == 64);

/// Builds a query to a port's subnet management agent.
[[nodiscard]] inline Smp smp_get(MgmtClass mgmt_class, SmpAttr attr, std::uint32_t modifier,
                                 std::uint64_t tid) noexcept {
  Smp smp{};
  smp.mad.base_version = kMadBaseVersion;
  smp.mad.mgmt_class = static_cast<std::uint8_t>(mgmt_class);
  smp.mad.class_version = kSmpClassVersion;
  smp.mad.method = static_cast<std::uint8_t>(Method::kGet);
  smp.mad.tid.set(tid);
  smp.mad.attr_id.set(static_cast<std::uint16_t>(attr));
  smp.mad.attr_mod.set(modifier);
  return smp;
}

/// NodeInfo. Source: IBA vol 1 §14.2.5.3.
struct NodeInfo {
  std::uint8_t base_version;
  std::uint8_t class_version;
  std::uint8_t node_type;
  std::uint8_t ports;
  Be64 system_guid;
  Be64 node_guid;
  Be64 port_guid;
  Be16 partition_cap;  ///< Entries of the port's P_Key table.
  Be16 device_id;
  Be32 revision;
  std::uint8_t local_port;
  std::array<std::uint8_t, 3> vendor_id;
};
static_assert(WireRecord<NodeInfo> && sizeof(NodeInfo) == 40 &&
              offsetof(NodeInfo, partition_cap) == 28);

/// Bit of PortInfo.CapabilityMask: the port takes requests for client reregistration.
inline constexpr std::uint32_t kReregistrationSupported = 1U << 25;

/// PortInfo. Source: IBA vol 1 §14.2.5.6.
struct PortInfo {
  Be64 m_key;
  Be64 gid_prefix;
  Be16 lid;
  Be16 sm_lid;
  Be32 capability_mask;
  Be16 diag_code;
  Be16 m_key_lease;
  std::uint8_t local_port;
  std::uint8_t width_enabled;
  std::uint8_t width_supported;
  std::uint8_t width_active;  ///< 1 1x, 2 4x, 4 8x, 8 12x, 16 2x.
  std::uint8_t speed_state;   ///< LinkSpeedSupported:4, PortState:4.
  std::uint8_t phys_down;
  std::uint8_t protect_lmc;        ///< M_KeyProtect:2, reserved:3, LMC:3.
  std::uint8_t speed_active;       ///< LinkSpeedActive:4, LinkSpeedEnabled:4.
  std::uint8_t mtu_sm_sl;          ///< NeighborMTU:4, MasterSMSL:4.
  std::array<std::uint8_t, 4> vl;  ///< VLCap, InitType, VLHighLimit, VLArbitrationHighCap …
  std::uint8_t init_mtu_cap;       ///< InitTypeReply:4, MTUCap:4.
  std::array<std::uint8_t, 2> vl_limits;  ///< VLStallCount, HOQLife; OperationalVLs …
  Be16 mkey_violations;
  Be16 pkey_violations;
  Be16 qkey_violations;
  std::uint8_t guid_cap;
  std::uint8_t reregister_timeout;  ///< ClientReregister:1, MulticastPKeyTrapSuppression:2,
                                    ///< SubnetTimeOut:5.
  std::array<std::uint8_t, 10> more;
  std::uint8_t speed_ext_active;  ///< LinkSpeedExtActive:4, LinkSpeedExtSupported:4.
  std::uint8_t speed_ext_enabled;

  [[nodiscard]] constexpr std::uint8_t state() const noexcept { return speed_state & 0x0f; }
  [[nodiscard]] constexpr std::uint8_t lmc() const noexcept { return protect_lmc & 0x07; }
  [[nodiscard]] constexpr std::uint8_t sm_sl() const noexcept { return mtu_sm_sl & 0x0f; }
  [[nodiscard]] constexpr std::uint8_t mtu_cap() const noexcept { return init_mtu_cap & 0x0f; }
  /// Code of the MTU that the subnet manager has set for the link, at most the MTUCap of both ends.
  [[nodiscard]] constexpr std::uint8_t neighbor_mtu() const noexcept { return mtu_sm_sl >> 4; }
  /// In a Set: clients of the port must register at the subnet administrator again.
  [[nodiscard]] constexpr bool client_reregister() const noexcept {
    return (reregister_timeout & 0x80) != 0;
  }
  constexpr void set_client_reregister() noexcept { reregister_timeout |= 0x80; }
};
static_assert(WireRecord<PortInfo> && sizeof(PortInfo) == 64 && offsetof(PortInfo, lid) == 16 &&
              offsetof(PortInfo, width_active) == 31 && offsetof(PortInfo, mtu_sm_sl) == 36 &&
              offsetof(PortInfo, init_mtu_cap) == 41 && offsetof(PortInfo, pkey_violations) == 46 &&
              offsetof(PortInfo, reregister_timeout) == 51 &&
              offsetof(PortInfo, speed_ext_active) == 62);

/// One block of the P_Key table; 0 is an empty entry. The attribute modifier is the block number.
struct PkeyBlock {
  static constexpr std::size_t kEntries = 32;
  std::array<Be16, kEntries> pkeys;
};
static_assert(WireRecord<PkeyBlock> && sizeof(PkeyBlock) == 64);

/// SMInfo. Source: IBA vol 1 §14.2.5.13.
struct SmInfo {
  Be64 guid;
  Be64 sm_key;
  Be32 act_count;  ///< Grows while the manager works.
  std::uint8_t priority_state;
};
static_assert(WireRecord<SmInfo> && sizeof(SmInfo) == 21);

/// Rate code of a port from its active width and speed; 0 for a rate that has no code.
[[nodiscard]] std::uint8_t port_rate(const PortInfo& port) noexcept;

}  // namespace ipoib::wire
