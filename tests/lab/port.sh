#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The cable of a node's port is unplugged and plugged in again; then the port gets another LID. The node takes its link
# down with the reason, and up, and joins again; the others find it. Two other nodes lose nothing. A running OpenSM
# would restore the LID, so the simulator changes it while OpenSM does not run. The operator of the node cannot change
# what the subnet manager configures.
# shows: U-20, U-26
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Neighbours learn another LID after reachable 4 s + 50 %, probe-delay 1 s, then six probes 1 s apart.
PROBE_TIME=14
NEW_LID=77

lab_begin labport
lab_up a b c
for node in b c; do ping_all a "$(host_address "$node")" >/dev/null; done
agreed_within 10 a b c

flow_begin at-c c watch eth0 "$(host_address c)"
flow_begin from-a a send eth0 5 "$(host_address c)"
wait_for 5 "flow at-c to arrive" grep -q arrived "$LAB_DIR/at-c.error"
reaches() { in_host a ping -q -c 1 -W 0.3 "$(host_address b)"; }
names() { [[ $(link_field b state) != up && $(link_field b reason) == *"$1"* ]]; }

unlink_ca H3
timed 5 "cable pulled, until link ib0 of node b is down" names 'not active'
say "  reason: $(link_field b reason)"
agreed_within 10 a c
! reaches >/dev/null || fail "host b answers though its node has no link"
begin=$(now_ms)
relink_ca H3
wait_for 10 "the link of node b to come up" links_up b
say "cable back, until link ib0 of node b is up: $(took "$begin")"
wait_for "$PROBE_TIME" "traffic with node b" reaches
say "cable back, until host b answers: $(took "$begin")"
agreed_within 10 a b c
expect "subscriptions of node b" "$(subscriptions b)" "66 67"

lid() { link_field "$1" lid; }
old=$(lid b)
for change in "lid $NEW_LID" "sm-lid 1" "pkeys 0x8001" "gid-prefix 0xfec0000000000001" "state down" reregister; do
  expect "set hca $change" "$(cli b "set hca $HCA $change")" \
    "error: cannot set $HCA: its subnet manager or its device configures the port"
done
expect "LID of node b" "$(lid b)" "$old"
links_up b || fail "the link of node b is not up"
sm_kill
simulator "Baselid \"H3\"[1] $NEW_LID"
sm_start
subnet_up
begin=$(now_ms)
changed() { [[ $(lid b) == "$NEW_LID" ]]; }
timed 5 "LID changed from $old to $NEW_LID, until node b knows" changed
wait_for "$PROBE_TIME" "traffic with node b" reaches
say "LID changed, until host b answers: $(took "$begin")"
agreed_within 15 a b c
row "a to b" ping_all a "$(host_address b)"

flow_end from-a
drained() { in_host a ping -q -c 1 -W 1 "$(host_address c)"; }
wait_for 5 "the last packets" drained
flow_end at-c
expect "flow from a to c: lost" "$(flow at-c 'd["lost"]')" 0
say "a to c: $(flow at-c 'd["packets"]') packets meanwhile, none lost"
