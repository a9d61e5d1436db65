#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# BGP of FRR on the mirrors of two nodes, whose daemons are killed and started again under traffic: no packet is lost
# meanwhile, because the routes stay in Linux and the neighbour waits (RFC 4724), and those that BGP does not learn
# again are removed.
# shows: P-11, P-17
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

lab_begin frr-restart
NODES=()
for node in a b; do
  n=$(number_of "$node") peer=$((3 - n))
  linux_mirrors "$node"
  cat >"$LAB_DIR/$node.frr" <<END
hostname $node
router bgp 6500$n
 bgp router-id 10.0.0.$n
 no bgp ebgp-requires-policy
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 bgp graceful-restart restart-time 120
 neighbor 10.0.0.$peer remote-as 6500$peer
 neighbor 10.0.0.$peer timers connect 1
 address-family ipv4 unicast
  network 192.168.$n.0/24
END
done
scenario_up a b

# Zebra removes routes of an earlier one that no daemon has announced after so many seconds.
SWEEP=10
start_frr() {
  frr_start "$1" zebra -K "$SWEEP"
  frr_start "$1" bgpd
}
for node in a b; do start_frr "$node"; done
both_routes() { route_is a 192.168.2.0/24 kind kernel && route_is b 192.168.1.0/24 kind kernel; }
wait_for 60 "the routes by BGP" both_routes
ping_each_other a b

flow_begin there b watch eth0 "$(host_address b)"
flow_begin back a watch eth0 "$(host_address a)"
flow_begin to-b a send eth0 5 "$(host_address b)"
flow_begin to-a b send eth0 5 "$(host_address a)"
wait_for 10 "the flow to host b" grep -q arrived "$LAB_DIR/there.error"
wait_for 10 "the flow to host a" grep -q arrived "$LAB_DIR/back.error"

# A route that an earlier daemon has left, and that none knows any more.
in_linux a ip route add 172.20.0.0/16 via 10.0.0.2 proto bgp metric 20
wait_for 10 "the left route" route_is a 172.20.0.0/16 kind kernel
daemon_kill a bgpd
daemon_kill a zebra
established() { frr a "show bgp summary json" | json 'd["ipv4Unicast"]["peers"]["10.0.0.2"]["state"]' | grep -q Established; }
start_frr a
wait_for 60 "BGP to be back" established
swept() { [[ -z $(route_of a 172.20.0.0/16 kind) ]]; }
wait_for $((3 * SWEEP)) "the left route to be removed" swept
both_routes || fail "a route went with the daemons"

for flow in to-b to-a; do flow_end "$flow"; done
ping_all a "$(host_address b)"  # behind the last packets, in both directions
for flow in there back; do flow_end "$flow"; done
for pair in "to-b there" "to-a back"; do
  read -r sent seen <<<"$pair"
  row "$sent: sent, arrived" printf '%s %s\n' "$(flow "$sent" 'sum(d.values())')" "$(flow "$seen" 'd["packets"]')"
  expect "lost packets $sent" "$(($(flow "$sent" 'sum(d.values())') - $(flow "$seen" 'd["packets"]')))" 0
done
