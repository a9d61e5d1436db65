// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/joined_groups.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "lib/base/contract.h"
#include "lib/linux/network_namespace.h"

namespace ipoib::mgmt {
namespace {

constexpr std::size_t kIp6Digits = 32;

/// Takes the text up to the next blank off the line.
std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

template <class T>
std::optional<T> number(std::string_view digits, int base) {
  T value{};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// 16 octets in hex, without colons.
std::optional<wire::IpAddr> address6(std::string_view digits) {
  if (digits.size() != kIp6Digits) return std::nullopt;
  wire::IpAddr addr;
  for (std::size_t i = 0; i < addr.bytes.size(); ++i) {
    const auto octet = number<std::uint8_t>(digits.substr(2 * i, 2), 16);
    if (!octet) return std::nullopt;
    addr.bytes[i] = std::byte{*octet};
  }
  return addr;
}

bool is_of_every_host(const wire::IpAddr& group) {
  static const std::array<wire::IpAddr, 3> all_hosts = {
      *wire::parse_ip("224.0.0.1"), *wire::parse_ip("ff01::1"), *wire::parse_ip("ff02::1")};
  static const wire::IpPrefix solicited{*wire::parse_ip("ff02::1:ff00:0"), 104};
  return std::find(all_hosts.begin(), all_hosts.end(), group) != all_hosts.end() ||
         wire::contains(solicited, group);
}

void add_group(std::int32_t ifindex, const wire::IpAddr& group, GroupsByInterface& groups) {
  if (wire::is_multicast(group) && !is_of_every_host(group)) groups[ifindex].insert(group);
}

void for_each_line(std::string_view text, const std::function<void(std::string_view)>& handle) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    handle(line);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
}

std::optional<std::string> text_of(int fd) {
  std::string text;
  std::array<char, 8192> part;
  for (;;) {
    const ssize_t n = pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

/// A line of an interface begins with its index, a line of one of its groups with tabs. Groups are
/// written as numbers in the byte order of the host.
void add_igmp(std::string_view text, GroupsByInterface& groups) {
  std::optional<std::int32_t> ifindex;
  for_each_line(text, [&](std::string_view line) {
    const bool is_group = line.starts_with('\t');
    const std::string_view word = next_word(line);
    if (!is_group) {
      ifindex = number<std::int32_t>(word, 10);
      return;
    }
    const auto group = number<std::uint32_t>(word, 16);
    if (!ifindex || !group) return;
    add_group(*ifindex, wire::IpAddr::v4(ntohl(*group)), groups);
  });
}

void add_igmp6(std::string_view text, GroupsByInterface& groups) {
  for_each_line(text, [&](std::string_view line) {
    const auto ifindex = number<std::int32_t>(next_word(line), 10);
    next_word(line);  // the name
    const auto group = address6(next_word(line));
    if (ifindex && group) add_group(*ifindex, *group, groups);
  });
}

Result<JoinedGroups> JoinedGroups::open(const std::string& network_namespace) {
  int igmp = -1, igmp6 = -1, error = 0;
  const Status entered = kernel::in_network_namespace(network_namespace, [&] {
    igmp = ::open("/proc/thread-self/net/igmp", O_RDONLY | O_CLOEXEC);
    error = errno;
    igmp6 = ::open("/proc/thread-self/net/igmp6", O_RDONLY | O_CLOEXEC);
  });
  if (!entered) return tl::make_unexpected(entered.error());
  if (igmp < 0) return fail(Errc::kUnavailable, "/proc/net/igmp: {}", std::strerror(error));
  return JoinedGroups{igmp, igmp6};
}

JoinedGroups::~JoinedGroups() {
  if (igmp_ >= 0) close(igmp_);
  if (igmp6_ >= 0) close(igmp6_);
}

JoinedGroups::JoinedGroups(JoinedGroups&& other) noexcept
    : igmp_{std::exchange(other.igmp_, -1)}, igmp6_{std::exchange(other.igmp6_, -1)} {}

std::optional<GroupsByInterface> JoinedGroups::read() const {
  expects_management();
  const auto igmp = text_of(igmp_);
  const auto igmp6 = igmp6_ >= 0 ? text_of(igmp6_) : std::string{};
  if (!igmp || !igmp6) return std::nullopt;
  GroupsByInterface groups;
  add_igmp(*igmp, groups);
  add_igmp6(*igmp6, groups);
  return groups;
}

}  // namespace ipoib::mgmt
