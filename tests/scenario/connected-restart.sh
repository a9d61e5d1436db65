#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node in connected mode is killed with SIGKILL under traffic and started again. The other one closes its connection;
# packets flow by datagrams at once and over a new connection soon after. The HCA also has a link of another partition,
# in datagram mode; both links carry IPv4 and IPv6. A link that goes down closes its connections in order.
# shows: C-07 C-15 C-16
set -euo pipefail
source "$(dirname "$0")/lib.sh"
NODES=(a b)

lab_begin crestart
for node in a b; do
  n=$(number_of "$node")
  scenario_ipv6 "$node"
  HCA_LINES[$node]="pkeys = [0xffff, 0x8001]"
  LINK_LINES[$node]='mode = "connected-rc"'
  NODE_TABLES[$node]+="
[link.ib1]
hca = \"soft0\"
pkey = 0x8001
address = [\"10.1.0.$n/24\", \"fd01::$n/64\"]
"
done
lab_fabric "$CABLE_MTU"
for node in a b; do
  scenario_host "$node"
  scenario_node "$node"
done
for node in a b; do wait_for 20 "the links of node $node to come up" link_up "$node"; done

connections() { cli "$1" "show connection json" | json "$2"; }
connected() { [[ $(connections "$1" "sum(r['state'] == 'established' and r['sending'] for r in d)") == "$2" ]]; }
queue_of() { connections "$1" "[r['peer_qpn'] for r in d if r['sending']][0]"; }

for node in a b; do host_ipv6 "$node"; done
for node in a b; do wait_for 20 "the address of host $node" host_address6 "$node"; done
wait_for 15 "IPv6 between the hosts" in_host a ping -q -c 1 -W 0.3 "$(host_address6 b)"
ping_all a "$(host_address b)"
ping_all a "$(host_address6 b)"
ping_all a 10.1.0.2
for node in a b; do wait_for 10 "node $node to send by its connection" connected "$node" 1; done
expect "connections of the datagram link" "$(connections a "sum(r['iface'] == 'ib1' for r in d)")" 0
expect_text "neighbours of the connection" "$(connections a "' '.join(d[0]['neighbours'])")" "10.0.0.2"

for victim in b a; do
  other=$([[ $victim == a ]] && echo b || echo a)
  before=$(queue_of "$other")
  flow_begin traffic "$other" send eth0 10 "$(host_address "$victim")"
  node_kill "$victim"
  wait_for 5 "node $other to give the connection up" connected "$other" 0
  scenario_node "$victim"
  begin=$(date +%s%N)
  wait_for 5 "traffic after the restart" in_host "$other" ping -q -c 1 -W 0.2 "$(host_address "$victim")"
  say "node $victim restarted: traffic after $((($(date +%s%N) - begin) / 1000000)) ms"
  for node in a b; do wait_for 10 "a connection of node $node again" connected "$node" 1; done
  say "and by a connection after $((($(date +%s%N) - begin) / 1000000)) ms"
  [[ $(queue_of "$other") != "$before" ]] || fail "the queue pair is the old one"
  flow_end traffic
  ping_all a "$(host_address b)"
done

cli a "link down ib0" >/dev/null
wait_for 5 "node b to be told" connected b 0
expect_text "how it ended" "$(cli b "show link ib0 json")" '"connections_ended_closed_by_the_peer":[1-9]'
cli a "link up ib0" >/dev/null
wait_for 10 "the link to come up" link_up a
ping_all b "$(host_address a)"
wait_for 10 "a connection" connected b 1
for node in b a; do node_stop "$node" || fail "node $node ended with status $?"; done
