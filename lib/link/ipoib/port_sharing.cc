// SPDX-License-Identifier: BSD-3-Clause
#include "lib/link/ipoib/port_sharing.h"

#include <algorithm>
#include <array>

#include "lib/base/keyed_hash.h"
#include "lib/wire/sa_records.h"

namespace ipoib::link {
namespace {

constexpr Duration kSharedInterval = std::chrono::seconds(5);
/// A link of many groups confirms at most this often per group and interval.
constexpr Duration kPerGroup = std::chrono::milliseconds(10);
constexpr std::uint64_t kUniversalAndGroupBits = 0x0300'0000'0000'0000;

/// The other user, as configured or as seen.
PortUser user_of(const LinkConfig& config, const LinkActions& actions) {
  if (config.shared_port == SharedPort::kAuto) return actions.port_user();
  return config.shared_port == SharedPort::kYes ? PortUser::kActive : PortUser::kNone;
}

}  // namespace

bool has_port_user(const LinkConfig& config, const LinkActions& actions) {
  return user_of(config, actions) != PortUser::kNone;
}

bool shares_port(const LinkConfig& config, const LinkActions& actions) {
  return user_of(config, actions) == PortUser::kActive;
}

bool shares_membership(const LinkConfig& config, const LinkActions& actions, std::uint8_t bit) {
  using namespace wire::join_state;
  return (bit == kFullMember || bit == kSendOnlyFullMember) && shares_port(config, actions);
}

std::optional<Duration> confirmation_interval(const LinkConfig& config, const LinkActions& actions,
                                              std::size_t groups) {
  const Duration usual = config.membership_refresh;
  const bool never = usual == Duration::zero();
  if (shares_port(config, actions)) {
    const Duration often = std::max(kSharedInterval, kPerGroup * static_cast<int>(groups));
    return never ? often : std::min(often, usual);
  }
  if (never) return std::nullopt;
  return usual;
}

/// The first octet keeps clear of the reserved identifiers (RFC 5453), the last bit of zero.
std::uint64_t interface_id_beside(const LinkConfig& config, std::uint64_t guid) {
  const KeyedHash hash{guid, std::uint64_t{config.pkey} | wire::kFullMemberBit};
  std::uint64_t id = config.name.size();
  for (const char c : config.name)
    id = hash(std::array<std::uint64_t, 2>{id, static_cast<unsigned char>(c)});
  return (id & ~kUniversalAndGroupBits) | 1;
}

void RejoinSeries::begin(TimePoint now) {
  left_ = kRepeats;
  if (!next_) next_ = now;
}

bool RejoinSeries::take(TimePoint now) {
  if (!next_ || now < *next_) return false;
  next_.reset();
  if (left_ == 0) return true;
  --left_;
  next_ = now + kInterval;
  return true;
}

}  // namespace ipoib::link
