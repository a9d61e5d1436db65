// SPDX-License-Identifier: BSD-3-Clause
// Addresses as text: an address that parses is written in one form, which parses to the same
// address.
#include <string>
#include <string_view>

#include "lib/wire/ip.h"
#include "lib/wire/ipoib.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace ipoib::wire;
using ipoib::test::require;

template <class T>
void check(std::optional<T> (*parse)(std::string_view), std::string_view text) {
  const auto value = parse(text);
  if (!value) return;
  const std::string written = to_string(*value);
  const auto again = parse(written);
  require(again.has_value() && *again == *value);
  require(to_string(*again) == written);
}

void check_prefix(std::string_view text) {
  const auto prefix = parse_prefix(text);
  if (!prefix) return;
  const IpPrefix net{network(*prefix), prefix->len};
  require(net.addr.is_v4() == prefix->addr.is_v4());
  require(network(net) == net.addr);
  require(contains(net, prefix->addr) && contains(*prefix, net.addr));
  const auto broadcast = directed_broadcast(*prefix);
  require(!broadcast || contains(*prefix, *broadcast));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto octets = ipoib::test::input(data, size);
  const std::string_view text{reinterpret_cast<const char*>(octets.data()), octets.size()};
  check<IpAddr>(parse_ip, text);
  check<IpPrefix>(parse_prefix, text);
  check<Gid>(parse_gid, text);
  check<LinkAddr>(parse_link_addr, text);
  check<MacAddr>(parse_mac, text);
  check_prefix(text);
  return 0;
}
