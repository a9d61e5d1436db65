// SPDX-License-Identifier: BSD-3-Clause
// Builds the CM messages that this side sends. All reserved fields are zero.
#pragma once

#include <cstdint>
#include <span>

#include "lib/cm/connection.h"
#include "lib/cm/manager_types.h"
#include "lib/wire/cm_mads.h"

namespace ipoib::cm {

[[nodiscard]] wire::CmMad req_mad(const Connection& c, const ConnectParams& params,
                                  std::uint64_t ca_guid);
[[nodiscard]] wire::CmMad rep_mad(const Connection& c, const AcceptParams& params,
                                  std::uint64_t ca_guid);
[[nodiscard]] wire::CmMad rtu_mad(const Connection& c);
[[nodiscard]] wire::CmMad mra_mad(const Connection& c, wire::CmAbout about, std::uint8_t timeout);
[[nodiscard]] wire::CmMad rej_mad(const Connection& c, wire::CmAbout about, wire::RejReason reason,
                                  std::span<const std::byte> info = {});
/// Rejects a message that belongs to no connection of this node. `local_id`: the ID that the peer
/// assumes, or 0.
[[nodiscard]] wire::CmMad rej_mad(std::uint64_t tid, std::uint32_t local_id,
                                  std::uint32_t remote_id, wire::CmAbout about,
                                  wire::RejReason reason, std::span<const std::byte> info = {},
                                  std::span<const std::byte> private_data = {});
[[nodiscard]] wire::CmMad dreq_mad(const Connection& c, std::uint64_t tid);
[[nodiscard]] wire::CmMad lap_mad(const Connection& c, std::uint64_t tid,
                                  const AlternateParams& params);
/// Answers to messages that name the connection from the peer's side.
[[nodiscard]] wire::CmMad drep_mad(std::uint64_t tid, const wire::CmDreq& dreq);
[[nodiscard]] wire::CmMad apr_mad(std::uint64_t tid, const wire::CmLap& lap, wire::ApStatus status);

}  // namespace ipoib::cm
