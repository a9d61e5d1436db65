#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures a pair of gateways, nodes a and b, that share virtual addresses by keepalived on the fabric and on Ethernet:
# the time without packets and those lost, in both directions between host a on the segment and host c behind the
# fabric, when node a drains, loses its link, hangs or is killed, and when there is no subnet manager. The takeovers
# must not flood the subnet administrator.
# shows: P-18
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/../scenario/linux-lib.sh"

lab_begin labpair
NODES=()
route() { printf '\n[[route]]\nto = "%s"\nvia = ["%s"]\n' "$@"; }
subnet_begin
sm_start
subnet_up
for node in a b; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:1::$n/64\""
  linux_mirrors "$node"
  NODE_TABLES[$node]+=$(route 192.168.3.0/24 10.0.0.3)
  virtual_addresses "$node" $((200 - 50 * n))
done
LINK_ADDRESSES[c]='"fd00::3/64"'
NODE_TABLES[c]=$(route 192.168.1.0/24 10.0.0.100)
for node in a b c; do scenario_host "$node"; done
sed -i 's|192\.168\.1\.1/24|192.168.1.3/24|' "$LAB_DIR/a.toml"
sed -i 's|192\.168\.2\.1/24|192.168.1.4/24|' "$LAB_DIR/b.toml"
one_segment a b
ip -n "$LAB-a" address add 192.168.1.2/24 dev br0
ip -n "$LAB-a" route add 192.168.3.0/24 via 192.168.1.254
for node in a b c; do scenario_node "$node"; done
for node in a b c; do wait_for 30 "the link of node $node to come up" link_up "$node"; done
for node in a b; do keepalived_start "$node"; done
wait_for 30 "node a to have the virtual addresses" has_addresses a
reached() { in_host c ping -q -c 1 -W 1 192.168.1.2; }
wait_for 20 "host c to reach host a" reached

sent() { cli "$1" "show sa json" | json 'd[0]["client"]["sent"]'; }
# measure WHAT NODE COMMAND...: runs the command, after which the virtual addresses are those of NODE, under traffic.
measure() {
  local what=$1 node=$2 before
  shift 2
  before=$(sent "$node")
  flow_begin there a watch br0 192.168.1.2
  flow_begin back c watch eth0 192.168.3.2
  flow_begin to-a c send eth0 5 192.168.1.2
  flow_begin to-c a send br0 5 192.168.3.2
  wait_for 10 "the flow to host a" grep -q arrived "$LAB_DIR/there.error"
  wait_for 10 "the flow to host c" grep -q arrived "$LAB_DIR/back.error"
  "$@"
  wait_for 30 "$what: node $node to have the virtual addresses" has_addresses "$node"
  wait_for 30 "$what: host c to reach host a" reached
  flow_end to-a
  flow_end to-c
  reached >/dev/null
  flow_end there
  flow_end back
  for flow in there back; do
    row "$what, $flow" printf '%s\n' "$(flow "$flow" '"%d lost of %d, longest gap %d ms" % (d["lost"], d["lost"] + d["packets"], d["longest_gap_ms"])')"
  done
  local asked=$(($(sent "$node") - before))
  row "$what, requests" printf '%s of node %s to the subnet administrator\n' "$asked" "$node"
  ((asked <= 60)) || fail "$what: $asked requests of node $node to the subnet administrator"
}
lost_none() { for flow in there back; do expect "$1: lost packets, $flow" "$(flow "$flow" 'd["lost"]')" 0; done; }

measure "drained" b cli a "set node drain"
lost_none "drained"
measure "returned" a cli a "set node undrain"
lost_none "returned"
measure "link lost" b unlink_ca "$(ca_of a)"
measure "link back" a relink_ca "$(ca_of a)"
measure "hung" b kill -STOP "${NODE_PID[a]}"
kill -CONT "${NODE_PID[a]}"
wait_for 30 "node a to have the virtual addresses after the pause" has_addresses a
wait_for 30 "host c to reach host a" reached
measure "no subnet manager" a sm_kill
lost_none "no subnet manager"
measure "killed without it" b node_kill a
