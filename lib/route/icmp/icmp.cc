// SPDX-License-Identifier: BSD-3-Clause
#include "lib/route/icmp/icmp.h"

#include "lib/route/icmp/icmp4.h"
#include "lib/route/icmp/icmp6.h"

namespace ipoib::route {
namespace {

bool is_v4(std::span<const std::byte> packet) {
  const auto ip = wire::read<wire::Ipv4Hdr>(packet);
  return ip && ip->version() == 4;
}

}  // namespace

std::optional<std::vector<std::byte>> icmp_error(std::span<const std::byte> offending,
                                                 const wire::IcmpError& error,
                                                 const wire::IpAddr& source) {
  return is_v4(offending) ? icmp4_error(offending, error, source)
                          : icmp6_error(offending, error, source);
}

bool is_echo_request(std::span<const std::byte> packet) {
  return is_v4(packet) ? is_echo_request4(packet) : is_echo_request6(packet);
}

LocalAnswer answer_local(std::span<std::byte> packet, const wire::IpAddr& own) {
  return is_v4(packet) ? answer_local4(packet, own) : answer_local6(packet, own);
}

}  // namespace ipoib::route
