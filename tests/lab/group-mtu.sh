#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The MTU of the broadcast group changes while links are up, because OpenSM is started again with another one. With
# 1,024 octets a link has no room for IPv6, and takes its addresses away; with 2,048 they return. IPv4 works with both,
# and its hosts get the MTU.
# shows: M-01, M-03, U-09
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# group_mtu CODE: starts OpenSM again with groups of that MTU code.
group_mtu() {
  sm_kill
  partitions
  sed -i "s/mtu=4/mtu=$1/" "$LAB_DIR/partitions.conf"
  sm_start
  subnet_up
}
have_mtu() {
  local node
  for node in a b; do
    links_up "$node" && [[ $(link_field "$node" mtu) == "$1" ]] || return 1
  done
}
ip6_ready() {
  local node
  for node in a b; do
    [[ $(cli "$node" "show link json" | json "{x['state'] for x in d[0]['ipv6']['addresses']}") == "{'ready'}" ]] || return 1
  done
}
reaches6() { in_host a ping -q -c 1 -W 1 "$other" >/dev/null; }
# ping_size HOST OCTETS: packets of that size without fragmentation reach the host behind node b.
ping_size() { ping_all a "$(host_address b)" -M "do" -s $(($1 - 28)); }

lab_begin labgroupmtu
for node in a b; do scenario_ipv6 "$node"; done
lab_up a b
for host in a b; do host_ipv6 "$host"; done
wait_for 20 "host b to make an address of an advertisement" host_address6 b
wait_for 20 "host a to make an address of an advertisement" host_address6 a
other=$(host_address6 b)
wait_for 10 "the IPv6 addresses of both links" ip6_ready
wait_for 5 "host b to answer by IPv6" reaches6
row "IPv6, 2,044 octets" ping_all a "$other" -M "do" -s 1996
row "IPv4, 2,044 octets" ping_size 2044

group_mtu 3
timed 20 "groups of 1,024 octets, until both links have their MTU" have_mtu 1020
ipv6=$(cli a "show link json" | json "d[0]['ipv6']")
expect "IPv6 of node a" "$ipv6" \
  "{'mtu': 0, 'reason': 'the MTU 1020 is less than 1280 octets, the minimum of IPv6', 'addresses': []}"
row "IPv4, 1,020 octets" ping_size 1020
! reaches6 || fail "IPv6 crosses a link without room for it"

group_mtu 4
timed 20 "groups of 2,048 octets, until both links have their MTU" have_mtu 2044
timed 10 "until the IPv6 addresses of both links are back" ip6_ready
# Node a may have given node b up meanwhile, for a second (negative = 1).
wait_for 5 "host b to answer by IPv6 again" reaches6
row "IPv6, 2,044 octets" ping_all a "$other" -M "do" -s 1996
row "IPv4, 2,044 octets" ping_size 2044
agreed_within 10 a b
