// SPDX-License-Identifier: BSD-3-Clause
#include "lib/mgmt/linux/joined_groups.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "lib/linux/network_namespace.h"
#include "tests/support/addresses.h"
#include "tests/support/test_namespace.h"

namespace ipoib::mgmt {
namespace {

using ipoib::test::ip;

constexpr std::string_view kIgmp =
    "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
    "1\tlo        :     1      V3\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
    "7\tib0       :     3      V3\n"
    "\t\t\t\t050000E0     1 0:00000000\t\t0\n"
    "\t\t\t\t060000E0     1 0:00000000\t\t0\n"
    "\t\t\t\t010000E0     1 0:00000000\t\t0\n";
constexpr std::string_view kIgmp6 =
    "1    lo              ff020000000000000000000000000001     1 0000000C 0\n"
    "7    ib0             ff0200000000000000000001ff0a0b01     1 00000004 0\n"
    "7    ib0             ff020000000000000000000000000005     1 00000004 0\n"
    "7    ib0             ff020000000000000000000000000001     1 0000000C 0\n"
    "7    ib0             ff010000000000000000000000000001     1 00000008 0\n";

TEST(JoinedGroups, P17_GroupsOfEachInterfaceAreRead) {
  GroupsByInterface groups;
  add_igmp(kIgmp, groups);
  add_igmp6(kIgmp6, groups);
  const GroupsByInterface wanted = {{7, {ip("224.0.0.5"), ip("224.0.0.6"), ip("ff02::5")}}};
  EXPECT_EQ(groups, wanted) << "the node joins the groups of every host itself";
}

TEST(JoinedGroups, P17_DamagedLinesAreIgnored) {
  GroupsByInterface groups;
  add_igmp("\t\t\t\t050000E0 1\n", groups);  // of no interface
  add_igmp("x\tib0 :\n\t\t\t\t050000E0 1\n", groups);
  add_igmp("7\tib0 :\n\t\t\t\t0500zzE0 1\n\t\n\n\t\t\t\t0100000A 1\n", groups);
  add_igmp6("7\n7 ib0\n7 ib0 ff02\nx ib0 ff020000000000000000000000000005\n", groups);
  add_igmp6("7 ib0 ff02000000000000000000000000000g 1", groups);
  add_igmp6("7 ib0 fe800000000000000000000000000005 1", groups);
  EXPECT_EQ(groups, GroupsByInterface{});
  add_igmp("7\tib0 :\n\t\t\t\t050000E0", groups);
  EXPECT_EQ(groups.at(7), std::set{ip("224.0.0.5")}) << "the last line needs no end";
}

TEST(JoinedGroups, P17_ProgramsJoinAndLeave) {
  const test::NetworkNamespace here;
  if (!here.made()) GTEST_SKIP() << "this process may not make network namespaces";
  int fd = -1;
  std::int32_t ifindex = 0;
  ip_mreqn membership{};
  membership.imr_multiaddr.s_addr = inet_addr("224.0.0.5");
  ASSERT_TRUE(kernel::in_network_namespace(here.path(), [&] {
    ASSERT_EQ(std::system("ip link set lo up multicast on"), 0);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifindex = static_cast<std::int32_t>(if_nametoindex("lo"));
  }));
  auto joined = JoinedGroups::open(here.path());
  ASSERT_TRUE(joined) << joined.error().what;
  EXPECT_EQ(joined->read().value(), GroupsByInterface{});
  membership.imr_ifindex = ifindex;
  ASSERT_EQ(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership), 0);
  EXPECT_EQ(joined->read().value().at(ifindex), std::set{ip("224.0.0.5")});
  close(fd);
  EXPECT_EQ(joined->read().value(), GroupsByInterface{}) << "the files are read again";
}

}  // namespace
}  // namespace ipoib::mgmt
