#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two gateways between the fabric and one Ethernet segment share virtual addresses by VRRP of keepalived on their
# mirrors, IPv4 and IPv6. When the node that has them drains or is killed, the other takes them over on both sides, and
# a host behind the fabric and one on the segment talk on through the same addresses. A drain and its end lose no packet.
# shows: P-17, P-18
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

lab_begin keepalived
lab_fabric "$CABLE_MTU"
NODES=()
route() { printf '\n[[route]]\nto = "%s"\nvia = ["%s"]\n' "$@"; }
for node in a b; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:1::$n/64\""
  linux_mirrors "$node"
  NODE_TABLES[$node]+=$(route 192.168.3.0/24 10.0.0.3; route fd00:3::/64 fd00::3)
  virtual_addresses "$node" $((200 - 50 * n))
done
LINK_ADDRESSES[c]='"fd00::3/64"'
PORT_ADDRESSES[c]='"fd00:3::1/64"'
NODE_TABLES[c]=$(route 192.168.1.0/24 10.0.0.100; route fd00:1::/64 fd00::100)
for node in a b c; do scenario_host "$node"; done
# The cables of the ports of both gateways end in one bridge, which has the address of host a.
sed -i 's|192\.168\.1\.1/24|192.168.1.3/24|' "$LAB_DIR/a.toml"
sed -i 's|192\.168\.2\.1/24|192.168.1.4/24|' "$LAB_DIR/b.toml"
one_segment a b
for host in a:br0 c:eth0; do
  in_host "${host%:*}" sysctl -qw "net.ipv6.conf.${host#*:}.disable_ipv6=0"
done
ip -n "$LAB-a" address add 192.168.1.2/24 dev br0
ip -n "$LAB-a" address add fd00:1::8/64 dev br0 nodad
ip -n "$LAB-a" route add 192.168.3.0/24 via 192.168.1.254
ip -n "$LAB-a" route add fd00:3::/64 via fd00:1::254
ip -n "$LAB-c" address add fd00:3::2/64 dev eth0 nodad
ip -n "$LAB-c" route add fd00:1::/64 via fd00:3::1
for node in a b c; do scenario_node "$node"; done
for node in a b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

keepalived_start a
wait_for 20 "node a to have the virtual addresses" has_addresses a
keepalived_start b
reached() { in_host c ping -q -c 1 -W 1 "$1"; }
for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host c to reach $address" reached "$address"; done
expect "the virtual addresses of node b" "$(cli b "show route json" | json 'sum(r["to"] == "10.0.0.100/32" and r["kind"] == "local" for r in d)')" 0

flows_begin() {
  flow_begin there a watch br0 192.168.1.2
  flow_begin back c watch eth0 192.168.3.2
  flow_begin to-a c send eth0 5 192.168.1.2
  flow_begin to-c a send br0 5 192.168.3.2
  wait_for 10 "the flow to host a" grep -q arrived "$LAB_DIR/there.error"
  wait_for 10 "the flow to host c" grep -q arrived "$LAB_DIR/back.error"
}
flows_end() {
  flow_end to-a
  flow_end to-c
  for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host c to reach $address again" reached "$address"; done
  flow_end there
  flow_end back
  for flow in there back; do
    row "$1, flow $flow" printf '%s\n' "$(flow "$flow" '"longest gap %d ms, %d lost of %d" % (d["longest_gap_ms"], d["lost"], d["lost"] + d["packets"])')"
  done
}
flows_begin
cli a "set node drain"
wait_for 20 "node b to have the virtual addresses" has_addresses b
cli a "set node undrain"
wait_for 20 "node a to have the virtual addresses again" has_addresses a
flows_end "node a drained and returned"
for flow in there back; do expect "lost packets, flow $flow" "$(flow "$flow" 'd["lost"]')" 0; done

# Node b defended its addresses on the fabric until it gave them back: node c may use it until it asks again.
uses_a() { cli c "show neigh json" | json '[n["lladdr"] for n in d if n["address"] == "10.0.0.100"]' | grep -q '00:00:00:01'; }
wait_for 60 "node c to use node a again" uses_a
flows_begin
node_kill a
wait_for 20 "node b to have the virtual addresses" has_addresses b
for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host c to reach $address again" reached "$address"; done
flows_end "node a was killed"
for flow in there back; do
  [[ $(flow "$flow" 'd["lost"]') -gt 0 ]] || fail "flow $flow: nothing was lost, though its gateway was killed"
done
