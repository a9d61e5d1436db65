#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# OpenSM is killed and started again under traffic, and forgets groups and subscriptions. No packet of established flows
# is lost; the nodes notice the restart and repeat all joins and subscriptions. Then OpenSM is silent for a while
# (SIGSTOP): nothing is lost either, and requests of that time succeed afterwards. The simulator has no
# ClientReregister, so nodes learn of the restart from the subnet manager's SMInfo. port-events.sh tests a
# reregistration with the embedded administrator.
# shows: U-20, U-30, U-35
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1
OTHER_GROUP=239.2.2.2
SILENT_S=5

lab_begin labsmrestart
NODE_TABLES[b]=$(multicast_route "$GROUP" eth0 ib0)
NODE_TABLES[c]=$(multicast_route "$GROUP" ib0 eth0)
LINK_LINES[c]="groups = [\"$GROUP\"]"
lab_up a b c
ping_all b "$(host_address c)" >/dev/null

# traffic_begin, traffic_end WHAT: unicast in both directions between nodes b and c, and multicast from b to c.
traffic_begin() {
  flow_begin at-c c watch eth0 "$(host_address c)"
  flow_begin at-b b watch eth0 "$(host_address b)"
  flow_begin group c watch eth0 "$GROUP"
  flow_begin from-b b send eth0 5 "$(host_address c)" "$GROUP"
  flow_begin from-c c send eth0 5 "$(host_address b)"
  for name in at-b at-c group; do
    wait_for 10 "flow $name to arrive" grep -q arrived "$LAB_DIR/$name.error"
  done
}
drained() { in_host b ping -q -c 1 -W 1 "$(host_address c)"; }
traffic_end() {
  for name in from-b from-c; do flow_end "$name"; done
  wait_for 5 "the last packets" drained
  for name in at-b at-c group; do flow_end "$name"; done
  for name in at-b at-c; do
    expect "$1, $name: lost" "$(flow "$name" 'd["lost"]')" 0
    say "$1, $name: $(flow "$name" 'd["packets"]') packets, none lost, longest gap $(flow "$name" 'd["longest_gap_ms"]') ms"
  done
  say "$1, multicast: $(flow group 'd["packets"]') packets, $(flow group 'd["lost"]') lost," \
    "longest gap $(flow group 'd["longest_gap_ms"]') ms"
}

traffic_begin
agreed_within 10 a b c
before=$HELD
# Node b sends only. Node c listens to the group as a FullMember, and routes it as a NonMember (1 and 2).
for member in "$(port_gid H3) 4" "$(port_gid H4) 3"; do
  expect_text "memberships" "$before" "ff12:401b:ffff::f01:101 $member"
done
sm_kill
sleep 2  # Traffic flows without a subnet manager.
sm_start
subnet_up
begin=$(now_ms)
subscribed() { [[ $(for node in a b c; do subscriptions "$node"; done) == $'66 67\n66 67\n66 67' ]]; }
held_again 20 "OpenSM restarted" "$before" "$begin"
wait_for 10 "all subscriptions to be back" subscribed
say "OpenSM restarted: all subscriptions back after $(took "$begin")"
flow_begin again c watch eth0 "$GROUP"
wait_for 5 "multicast to go on" grep -q arrived "$LAB_DIR/again.error"
sleep 1
flow_end again
expect "multicast lost afterwards" "$(flow again 'd["lost"]')" 0
traffic_end "restart"
row "a to c" ping_all a "$(host_address c)"

# A node joins a group while OpenSM does not answer.
state() { cli a "show group ib0 json" | json "[g['state'] for g in d if g['group'] == '$OTHER_GROUP'][0]"; }
member() { [[ $(state) == member ]]; }
traffic_begin
sm_signal STOP
begin=$(now_ms)
expect "group join" "$(cli a "group join ib0 $OTHER_GROUP")" ""
while (($(now_ms) - begin < SILENT_S * 1000)); do
  ! member || fail "node a is a member though nobody answered"
done
sm_signal CONT
timed 10 "OpenSM silent for $SILENT_S s, then what was asked meanwhile is done" member
row "a to b" ping_all a "$(host_address b)"
agreed_within 10 a b c
for node in a b c; do expect "links of node $node are up" "$(links_up "$node" && echo yes)" yes; done
traffic_end "silence"
