#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node behind a switch that snoops IGMP and MLD: the Linux bridge, which passes a group only to ports that have
# reported it and queries for members itself. The node must receive neighbour solicitations for its IPv6 addresses and
# the group of its multicast route, by IGMPv3 and MLDv2 first, and then by IGMPv2 and MLDv1.
# shows: P-06
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1
MEMBERSHIP_S=5  # After this time the bridge forgets a port that does not answer its queries.

lab_begin snooping
lab_fabric "$CABLE_MTU"
PORT_ADDRESSES[a]='"fd00:1::1/64"'
NODE_TABLES[a]=$(multicast_route "$GROUP" eth0 ib0)
scenario_host a
# The host of node a is the switch; the host h is behind it.
lab_space h
ip -n "$LAB-a" address flush dev eth0
ip -n "$LAB-a" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 1 mcast_querier 1 \
  mcast_igmp_version 3 mcast_mld_version 2 mcast_query_interval 200 mcast_startup_query_interval 200 \
  mcast_query_response_interval 100 mcast_membership_interval $((100 * MEMBERSHIP_S))
in_host a sysctl -qw net.ipv6.conf.br0.disable_ipv6=0
ip -n "$LAB-a" link add to-h type veth peer name eth0 netns "$LAB-h"
ip -n "$LAB-a" link set to-h master br0 up
ip -n "$LAB-a" link set eth0 master br0
ip -n "$LAB-a" link set br0 up
in_host h sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0
ip -n "$LAB-h" link set eth0 up
ip -n "$LAB-h" address add 192.168.1.2/24 dev eth0
ip -n "$LAB-h" address add fd00:1::2/64 dev eth0 nodad
ip -n "$LAB-h" route add 224.0.0.0/4 dev eth0
scenario_node a
wait_for 20 "the link of node a to come up" link_up a

# passes GROUP: succeeds if the bridge passes the group to the node.
passes() {
  ip netns exec "$LAB-a" bridge -j mdb show dev br0 |
    json "[1 for m in d[0]['mdb'] if m['port'] == 'eth0' and m['grp'] == '$1'][0]" >/dev/null 2>&1
}
# received: prints the frames that have reached the node's port.
received() { ip -n "$LAB-a" -s -j link show eth0 | json 'd[0]["stats64"]["tx"]["packets"]'; }
solicits() {
  ip -n "$LAB-h" -6 neigh flush dev eth0
  in_host h ping -q -c 1 -W 1 fd00:1::1 >/dev/null
}
# judge VERSIONS: the bridge passes what the node needs, and nothing else.
judge() {
  local group before
  for group in "$GROUP" ff02::1:ff00:1; do
    wait_for 10 "the bridge to pass $group ($1)" passes "$group"
  done
  wait_for 10 "an answer from fd00:1::1 ($1)" solicits
  before=$(received)
  in_host h ping -q -c 50 -i 0.002 "$GROUP" >/dev/null || true
  (($(received) - before >= 50)) || fail "$1: the packets to $GROUP do not reach the node"
  before=$(received)
  in_host h ping -q -c 50 -i 0.002 239.9.9.9 >/dev/null || true
  (($(received) - before < 40)) || fail "$1: the bridge does not snoop"
  say "$1: $(cli a "show group eth0" | wc -l) lines of groups"
}
judge "IGMPv3, MLDv2"
# Only answers to the bridge's queries keep the groups beyond this time.
ip -n "$LAB-a" link set br0 type bridge mcast_igmp_version 2 mcast_mld_version 1
sleep $((MEMBERSHIP_S + 1))
judge "IGMPv2, MLDv1"
