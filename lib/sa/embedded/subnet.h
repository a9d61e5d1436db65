// SPDX-License-Identifier: BSD-3-Clause
// Configuration and state of the embedded administrator, shared by the handlers of the different
// attributes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/sa/embedded/groups.h"
#include "lib/sa/embedded/ports.h"
#include "lib/sa/embedded/reporter.h"
#include "lib/sa/embedded/smp_requester.h"
#include "lib/sa/embedded/subscriptions.h"
#include "lib/sa/embedded/table_sender.h"
#include "lib/wire/gid.h"
#include "lib/wire/sa_records.h"

namespace ipoib::sa {

struct Partition {
  std::uint16_t pkey = wire::kDefaultPkey;  ///< With or without the membership bit.
  /// True: the IPv4 broadcast group exists from the start and for ever. False: the first port that
  /// may create it does.
  bool broadcast_group = true;
};

/// MTU, rate and packet lifetime are codes (lib/wire/iba.h).
struct AdministratorConfig {
  wire::Gid gid;          ///< GID of the administrator's port; its prefix is the subnet's.
  std::uint16_t lid = 0;  ///< Base LID of the administrator's port.
  std::uint8_t lmc = 0;   ///< LMC of every port of the subnet.
  /// Not 0: ports are addressed by GID, and every other port has its own administrator. Any GID is
  /// then assumed to be a port that paths reach through this LID and a GRH, and any IPoIB group of
  /// a partition is assumed to exist, with the attributes of the partition's broadcast group.
  std::uint16_t elsewhere_lid = 0;
  std::vector<Partition> partitions = std::vector<Partition>(1);
  std::uint8_t scope = 2;  ///< Scope of the configured broadcast groups.
  std::uint8_t mtu = 4;    ///< MTU of broadcast groups and paths; the largest of a group.
  std::uint8_t rate = 3;   ///< Rate of broadcast groups and paths; the fastest of a group.
  std::uint32_t qkey = 0x8001'0b1b;
  std::uint8_t sl = 0;
  std::uint8_t lifetime = 18;  ///< Packet lifetime of groups and paths.
  std::uint64_t sm_key = 0;    ///< Requests with it are trusted with all memberships; 0: none is.
  std::size_t max_ports = 0xbfff;
  std::size_t max_groups = 0x3fff;
  std::size_t max_members = 1U << 20;  ///< Sum over all groups.
  /// A member without requests for this long may lose its LID to another port
  /// (PortTable::may_claim). Must be longer than links take to confirm their memberships.
  Duration port_silence = std::chrono::seconds(90);
  std::size_t max_subscriptions = 65536;
  std::size_t max_subscriptions_per_port = 32;
  std::size_t max_answer_octets = 16U << 20;  ///< Octets of records in one table.
  TableSenderConfig tables{};
  ReporterConfig reports{};
  /// Reads the PortInfo of each port that becomes known, and requests client reregistration from
  /// those in no group. The ports must be addressed by LID, and name this port as their subnet manager.
  bool manages_ports = false;
  SmpRequesterConfig smps{};
};

struct Subnet {
  explicit Subnet(const AdministratorConfig& c)
      : config{c},
        ports{c.max_ports, c.port_silence, c.lmc},
        groups{c.max_groups, c.max_members, c.elsewhere_lid != 0},
        subscriptions{c.max_subscriptions, c.max_subscriptions_per_port} {}

  AdministratorConfig config;
  PortTable ports;
  McGroupTable groups;
  SubscriptionTable subscriptions;

  [[nodiscard]] bool has_partition(std::uint16_t pkey) const {
    for (const Partition& p : config.partitions)
      if (partition_of(p.pkey) == partition_of(pkey)) return true;
    return false;
  }
  [[nodiscard]] bool by_gid() const { return config.elsewhere_lid != 0; }
  [[nodiscard]] bool on_subnet(const wire::Gid& gid) const {
    return gid.prefix() == config.gid.prefix() && gid.guid() != 0;
  }
};

/// A request with the fields of its SA header.
template <class Record>
struct Query {
  Record record;
  std::uint64_t mask = 0;
  std::uint16_t from_lid = 0;
  bool trusted = false;  ///< The request carries the SM_Key.
  TimePoint now{};

  [[nodiscard]] bool has(std::uint64_t components) const {
    return (mask & components) == components;
  }
};

template <class T>
using Answer = tl::expected<T, wire::MadStatus>;

[[nodiscard]] inline tl::unexpected<wire::MadStatus> refuse(wire::MadStatus status) {
  return tl::make_unexpected(status);
}

}  // namespace ipoib::sa
