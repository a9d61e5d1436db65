#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two links have IPv6 only. OpenSM gives the port of one another LID. The other node learns it from neighbour discovery,
# since there is no ARP, and sends to it at once instead of after its probes have failed.
# shows: U-18, U-20
set -euo pipefail
source "$(dirname "$0")/lib.sh"

NEW_LID=77
# Without neighbour discovery the path is asked for again after a minute or more.
LEARN_TIME=15

lab_begin labipv6only
for node in a b; do scenario_ipv6 "$node"; done
NODES=()  # no routes of IPv4
subnet_begin
sm_start
subnet_up
for node in a b; do
  scenario_host "$node"
  sed -i 's|"10\.0\.0\.[0-9]*/24", ||' "$LAB_DIR/$node.toml"
  scenario_start "$node"
done
for node in a b; do node_ready "$node"; done
for node in a b; do wait_for 20 "the link of node $node to come up" links_up "$node"; done
for host in a b; do
  host_ipv6 "$host"
  wait_for 20 "host $host to make an address of an advertisement" host_address6 "$host"
done
other=$(host_address6 b)
reaches() { in_host a ping -q -c 1 -W 1 "$other" >/dev/null; }
wait_for 10 "host b to answer" reaches
row "a to b" ping_all a "$other"
expect "ARP of node a" "$(link_field a counters | tr "'" '"' | json "d['arp_sent'] + d['arp_received']")" 0

lid_to_b() { cli a "show neigh json" | json "[x['lid'] for x in d if x['address'] == 'fd00::2'][0]"; }
sends_to() { [[ $(lid_to_b) == "$1" ]]; }
old=$(link_field b lid)
expect "LID to which node a sends" "$(lid_to_b)" "$old"
sm_kill
simulator "Baselid \"H3\"[1] $NEW_LID"
sm_start
subnet_up
begin=$(now_ms)
wait_for "$LEARN_TIME" "node a to send to LID $NEW_LID" sends_to "$NEW_LID"
say "LID changed from $old to $NEW_LID, until node a sends to it: $(took "$begin")"
wait_for 5 "host b to answer" reaches
row "a to b" ping_all a "$other"
