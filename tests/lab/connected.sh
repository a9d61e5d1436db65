#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Connected mode on a subnet that OpenSM manages: messages of the communication manager travel by umad
# through the simulator's switches, data by the cable. A connection outlives its subnet manager and ends
# in order with its node; a node killed and started again is reached by a new one.
# shows: C-02, C-16
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin labconnected
LINK_LINES[a]='mode = "connected-rc"'
LINK_LINES[b]='mode = "connected"'
LINK_LINES[c]='mode = "connected-uc"'
lab_up a b c

rows() { cli "$1" "show connection json" | json "$2"; }
# reached NODE ADDRESS MODE
reached() {
  [[ $(cli "$1" "show neigh json" | json "[r['mode'] for r in d if r['address'] == '$2'][0]") == "$3" ]]
}
for pair in "a b" "b c" "c a"; do
  read -r from to <<<"$pair"
  ping_all "$from" "$(host_address "$to")" >/dev/null
done
wait_for 10 "node a to reach b by RC" reached a 10.0.0.2 RC
wait_for 10 "node b to reach a by RC" reached b 10.0.0.1 RC
wait_for 10 "node b to reach c by UC" reached b 10.0.0.3 UC
reached a 10.0.0.3 UD || fail "nodes a and c have no transport in common, and yet: $(cli a "show neigh")"
(($(cli b "show hca json" | json "d[0]['cm']['established']") >= 2)) || fail "node b: $(cli b "show hca json")"
for pair in "a b" "b c" "c a"; do
  read -r from to <<<"$pair"
  row "$from to $to" ping_all "$from" "$(host_address "$to")"
done

before=$(rows a "d[0]['id']")
sm_kill
ping_all a "$(host_address b)" >/dev/null
expect "the connection without a subnet manager" "$(rows a "d[0]['id']")" "$before"
sm_start
subnet_up

node_kill b
gone() { [[ $(rows a "sum(r['state'] == 'established' for r in d)") == 0 ]]; }
ping_none() { ! in_host a ping -q -c 2 -i 0.2 -W 0.2 "$(host_address b)" >/dev/null; }
ping_none || fail "ping answered though node b is dead"
wait_for 10 "node a to give the connection up" gone
scenario_node b
wait_for 20 "the link of node b to come up" link_up b
ping_all a "$(host_address b)" >/dev/null
wait_for 10 "node a to reach b by RC again" reached a 10.0.0.2 RC
row "a to b, after its restart" ping_all a "$(host_address b)"

# ibping asks a class for which nodes have no agent. Without umad2sim_guard, libumad2sim ends the node that is
# asked, and a node that stops is in the same place after it has unregistered its agents.
ask ibping -c 1 -L "$(link_field b lid)" >/dev/null 2>&1
link_up b || fail "node b is gone after a MAD that it has no agent for"

for host in b c a; do node_stop "$host" || fail "node $host ended with status $?"; done
