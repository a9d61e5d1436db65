#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two OpenSMs run. The master is killed, and the standby takes over at another LID, without the groups and subscriptions
# of the master. Nodes learn of the new subnet manager from their ports' SM LID, repeat all joins and subscriptions, and
# lose no packet of established flows. The same happens when the first OpenSM comes back.
# The nodes have no IsSM here, so that the simulator delivers no Reports to them. With IsSM, OpenSM would take them for
# subnet managers and query them at once, and libumad2sim crashes a process that gets a query before it has registered
# for it.
# shows: U-20, U-35
set -euo pipefail
source "$(dirname "$0")/lib.sh"

NODE_ISSM=

lab_begin labfailover
subnet_begin
sm_start first H1 -p 10
subnet_up first

# joining NAME CA PRIORITY: starts an OpenSM while its port is unplugged, then plugs the port in. At an ordinary start
# it would set IsSM before it can answer the master's SMInfo query, and the master might wait forever.
joining() {
  unlink_ca "$2"
  sm_start "$1" "$2" -p "$3"
  wait_for 10 "OpenSM $1 to wait for its port" sm_said 'SM port is down' "$1"
  relink_ca "$2"
}
joining second H6 5
wait_for 10 "the second OpenSM to stand by" sm_said 'Entering STANDBY' second
nodes_up a b
ping_all a "$(host_address b)" >/dev/null
agreed_within 10 a b
before=$HELD

sm_lid() { cli "$1" "show hca json" | json 'd[0]["sm_lid"]'; }
lid_of() { ask smpquery -G portinfo "$(port_guid "$1")" 1 | sed -n 's/^Lid:\.*//p'; }
first=$(sm_lid a) second=$(lid_of H6)
flow_begin at-b b watch eth0 "$(host_address b)"
flow_begin at-a a watch eth0 "$(host_address a)"
flow_begin from-a a send eth0 5 "$(host_address b)"
flow_begin from-b b send eth0 5 "$(host_address a)"
for name in at-a at-b; do wait_for 5 "flow $name to arrive" grep -q arrived "$LAB_DIR/$name.error"; done

moved() { [[ $(sm_lid a) == "$wanted" && $(sm_lid b) == "$wanted" ]]; }
# taken_over TEXT LID BEGIN: waits until the nodes know the new subnet manager and it has all their memberships and
# subscriptions.
taken_over() {
  wanted=$2
  wait_for 20 "$1: nodes to know SM LID $2" moved
  say "$1: SM LID $2 at both nodes after $(took "$3")"
  held_again 20 "$1" "$before" "$3"
  for node in a b; do
    expect "$1: subscriptions of node $node" "$(subscriptions "$node")" "66 67"
    links_up "$node" || fail "$1: links of node $node are not up"
  done
}
begin=$(now_ms)
sm_kill first
wait_for 10 "the second OpenSM to take over" sm_said 'Entering MASTER' second
subnet_up second
say "OpenSM needs $(took "$begin") to take over"
taken_over "first OpenSM killed" "$second" "$begin"
begin=$(now_ms)
joining first H1 10
subnet_up first
taken_over "first OpenSM back" "$first" "$begin"

for name in from-a from-b; do flow_end "$name"; done
drained() { in_host a ping -q -c 1 -W 1 "$(host_address b)"; }
wait_for 5 "the last packets" drained
for name in at-a at-b; do
  flow_end "$name"
  expect "$name: lost" "$(flow "$name" 'd["lost"]')" 0
  say "$name: $(flow "$name" 'd["packets"]') packets meanwhile, none lost, longest gap $(flow "$name" 'd["longest_gap_ms"]') ms"
done
