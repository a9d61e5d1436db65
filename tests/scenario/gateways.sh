#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two gateways, nodes a and b, stand between the fabric and one Ethernet segment, and both route multicast. A host on
# the segment receives each packet of a group once, from the querier, and from the other gateway after the querier has
# ended.
# shows: P-06
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1

lab_begin gateways
lab_fabric "$CABLE_MTU"
for node in a b; do
  LINK_LINES[$node]="multicast-router = true"
  PORT_LINES[$node]=$'multicast-router = true\nlast-member-interval = 0.25\n'
  PORT_LINES[$node]+=$'query-interval = 2\nquery-response-interval = 1'
done
NODE_TABLES[c]=$(multicast_route "$GROUP" eth0 ib0)
for node in a b c; do scenario_host "$node"; done
# The cables of the ports of both gateways end in one bridge, which has the address of host a.
sed -i 's|192\.168\.1\.0/24|192.168.9.0/24|; s|192\.168\.2\.1/24|192.168.1.3/24|' "$LAB_DIR/b.toml"
ip -n "$LAB-a" link add to-b type veth peer name to-a netns "$LAB-b"
for node in a b; do
  other=$([[ $node == a ]] && echo b || echo a)
  ip -n "$LAB-$node" address flush dev eth0
  ip -n "$LAB-$node" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
  ip -n "$LAB-$node" link set eth0 master br0
  ip -n "$LAB-$node" link set "to-$other" master br0 up
  ip -n "$LAB-$node" link set br0 up
done
ip -n "$LAB-a" address add 192.168.1.2/24 dev br0
ip -n "$LAB-a" route add 224.0.0.0/4 dev br0
for node in a b c; do scenario_node "$node"; done
for node in a b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

# once NAME: the host joins, and receives the packets that follow once each.
once() {
  flow_begin "$1" a member br0 "$GROUP" 1 1
  flow_end "$1" wait
  say "$1: $(flow "$1" '"first packet %d ms after the join, %d received" % (d[0]["join_ms"], d[0]["packets"])')"
  expect "$1: lost" "$(flow "$1" 'd[0]["lost"]')" 0
  expect "$1: received twice" "$(flow "$1" 'd[0]["repeated"]')" 0
}
# settled NODE ROLE: the node knows the querier of both links, which is itself or the other gateway.
settled() {
  cli "$1" "show querier json" | json "all(q['role'] == '$2' and q['forwarder'] == '$2'
    for q in d if q['family'] == 'ipv4') or sys.exit(1)" >/dev/null
}
wait_for 10 "node a to be the querier of both links" settled a self
wait_for 10 "node b to hear node a on both links" settled b other
flow_begin sender c send eth0 5 "$GROUP"
once "two gateways"
node_stop a
once "one gateway"
flow_end sender
