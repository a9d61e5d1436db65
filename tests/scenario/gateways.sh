#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two gateways, nodes a and b, stand between the fabric and one Ethernet segment, and both route multicast. Node a is the
# querier of the fabric, node b that of the segment. A host on the segment and one behind the fabric receive each packet
# of a group once, before and after node b has ended and has come back.
# shows: P-06
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1 BACK=239.1.1.2

lab_begin gateways
lab_fabric "$CABLE_MTU"
for node in a b; do
  LINK_LINES[$node]="multicast-router = true"
  PORT_LINES[$node]=$'multicast-router = true\nlast-member-interval = 0.25\n'
  PORT_LINES[$node]+=$'query-interval = 2\nquery-response-interval = 1'
done
NODE_TABLES[c]=$(multicast_route "$GROUP" eth0 ib0; multicast_route "$BACK" ib0 eth0)
for node in a b c; do scenario_host "$node"; done
# The cables of the ports of both gateways end in one bridge, which has the address of host a.
sed -i 's|192\.168\.1\.1/24|192.168.1.3/24|' "$LAB_DIR/a.toml"
sed -i 's|192\.168\.1\.0/24|192.168.9.0/24|; s|192\.168\.2\.1/24|192.168.1.1/24|' "$LAB_DIR/b.toml"
one_segment a b
ip -n "$LAB-a" address add 192.168.1.2/24 dev br0
ip -n "$LAB-a" route add 224.0.0.0/4 dev br0
for node in a b c; do scenario_node "$node"; done
for node in a b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

# once NAME: host a joins its group, and receives the packets that follow once each. Host c receives those to its own.
once() {
  flow_begin "$1 back" c watch eth0 "$BACK"
  flow_begin "$1" a member br0 "$GROUP" 1 3
  flow_end "$1" wait
  flow_end "$1 back"
  say "$1: $(flow "$1" '"first packet %d ms after the join, %d received" % (d[0]["join_ms"], d[0]["packets"])'),$(
    flow "$1 back" '" and %d from the segment" % d["packets"]')"
  expect "$1: lost" "$(flow "$1" 'd[0]["lost"]')" 0
  expect "$1: received twice" "$(flow "$1" 'd[0]["repeated"]')" 0
  expect "$1: received twice from the segment" "$(flow "$1 back" 'd["repeated"]')" 0
  [[ $(flow "$1 back" 'd["packets"]') -gt 0 ]] || fail "$1: nothing received from the segment"
}
# settled NODE FABRIC SEGMENT: the node knows that itself or the other gateway is the querier of each link.
settled() {
  cli "$1" "show querier json" | json "all(q['role'] == q['forwarder'] == ('$2' if q['iface'] == 'ib0' else '$3')
    for q in d if q['family'] == 'ipv4') or sys.exit(1)" >/dev/null
}
# forwards NODE GROUP: the node forwards the group.
forwards() {
  cli "$1" "show mroute json" | json "any(r['group'] == '$2' and r['out'] for r in d) or sys.exit(1)" >/dev/null
}
wait_for 10 "node a to be the querier of the fabric" settled a self other
wait_for 10 "node b to be the querier of the segment" settled b other self
flow_begin sender c send eth0 5 "$GROUP"
flow_begin back a send br0 5 "$BACK"
once "two gateways"
forwards a "$BACK" || fail "node a does not forward to the fabric"
forwards b "$BACK" && fail "node b forwards to the fabric, too"

# Host a stays a member, so that the gateway that is left has to notice by the packets.
flow_begin stays a member br0 "$GROUP" 1 8
wait_for 10 "node b to forward" forwards b "$GROUP"
forwards a "$GROUP" && fail "node a forwards to the segment, too"
node_stop b
wait_for 10 "node a to take over" forwards a "$GROUP"
flow_end stays wait
say "node b ends: $(flow stays '"%d packets lost, %d received" % (d[0]["lost"], d[0]["packets"])')"
expect "node b ends: received twice" "$(flow stays 'd[0]["repeated"]')" 0
wait_for 15 "node a to be the querier of the segment" settled a self self
once "one gateway"

scenario_node b
wait_for 20 "the link of node b to come up" link_up b
wait_for 15 "node b to be the querier of the segment" settled b other self
once "two gateways again"
flow_end sender
flow_end back
