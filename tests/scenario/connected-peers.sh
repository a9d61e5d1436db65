#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Connects to two hundred peers at once. Node p has a link for each of them on one HCA. Node a, with two links of a
# hundred networks each, opens a connection to every peer within seconds and sends over all of them. Then all peers
# are killed and come back.
# shows: C-12 C-16
set -euo pipefail
source "$(dirname "$0")/lib.sh"
NODES=(a)
PEERS=200
HALF=$((PEERS / 2))

networks() {
  local from=$1 to=$2 i
  for ((i = from; i <= to; ++i)); do printf '"10.2.%d.%s", ' "$i" "$3"; done
}

lab_begin peers
lab_fabric "$CABLE_MTU"
LINK_LINES[a]=$'mode = "connected-rc"\nipv6 = false'
LINK_ADDRESSES[a]=$(networks 1 "$HALF" 1/24)
NODE_TABLES[a]="
[link.ib1]
hca = \"soft0\"
mode = \"connected-rc\"
ipv6 = false
address = [$(networks $((HALF + 1)) "$PEERS" 1/24)]
"
scenario_host a
lab_space p
lab_cable p "$CABLE_MTU"
{
  cat <<END
[hca.soft0]
wire = "net_af_packet1"
guid = "0x0002c90300000055"
lid = 55
END
  for ((i = 1; i <= PEERS; ++i)); do
    printf '\n[link.p%d]\nhca = "soft0"\nmode = "connected-rc"\nconnect = "accept"\nipv6 = false\naddress = ["10.2.%d.2/24"]\n' "$i" "$i"
  done
  # The route to the host behind node a.
  printf '\n[[route]]\nto = "192.168.1.0/24"\nvia = ["10.2.1.1"]\n\n[neighbour-cache]\nmax-entries = 64\n'
} >"$LAB_DIR/p.toml"

peers_start() {
  local device
  read -r -d '' -a device < <(cable_device p) || true
  node_start p "$LAB_DIR/p.toml" "${device[@]}"
  node_ready p
}
connections() { cli "$1" "show connection json" | json "$2"; }
established() { [[ $(connections "$1" "sum(r['state'] == 'established' for r in d)") == "$2" ]]; }
all_up() { [[ $(cli p "show link json" | json "sum(l['state'] == 'up' for l in d)") == "$PEERS" ]]; }
sent() { connections a "min(r['tx_packets'] for r in d)"; }
busy() { (($(sent) > $1)); }

scenario_node a
wait_for 20 "the link of node a to come up" link_up a
peers_start
wait_for 30 "the links of all peers to come up" all_up

addresses=()
for ((i = 1; i <= PEERS; ++i)); do addresses+=("10.2.$i.2"); done
begin=$(date +%s%N)
flow_begin traffic a send eth0 50 "${addresses[@]}"
wait_for 20 "a connection to every peer" established a "$PEERS"
say "$PEERS connections after $((($(date +%s%N) - begin) / 1000000)) ms"
wait_for 5 "every peer to know" established p "$PEERS"
expect "at once, so many were asked for" "$(cli a "show link json" | json "sum(l['counters']['connections_asked'] for l in d)")" "$PEERS"
wait_for 20 "packets on every connection" busy "$(($(sent) + 20))"
# No packet may be lost, except those beyond the hold queues and the share of one sender while two hundred neighbours
# are resolved, announcements of peers in other networks than those of the link, and reports of IGMP, which no router of
# the link hears. After a late acknowledgement a packet is sent twice, and the second one is a duplicate. Slow programs do
# not answer so many requests in time.
known="'neighbour_pending', 'punt_rate_limited', 'arp_for_others', 'group_absent', 'ib_duplicate'"
((LAB_PATIENCE == 1)) || known+=", 'neighbour_failed', 'neighbour_held_too_long', 'punt_ring_full'"
reasons=$(cli a "show drops json" | json "' '.join(sorted({x['reason'] for x in d} - {$known}))")
[[ -z $reasons ]] || fail "packets were lost: $(cli a "show drops")"

node_kill p
wait_for 10 "node a to give every connection up" established a 0
peers_start
begin=$(date +%s%N)
wait_for 30 "the links of all peers to come up" all_up
wait_for 60 "a connection to every peer again" established a "$PEERS"
say "again $((($(date +%s%N) - begin) / 1000000)) ms after the restart"
wait_for 20 "packets on every connection again" busy "$(($(sent) + 20))"
flow_end traffic

cli p "connection close p7 all"
node_stop p || fail "node p ended with status $?"
wait_for 5 "node a to be told" established a 0
node_stop a || fail "node a ended with status $?"
