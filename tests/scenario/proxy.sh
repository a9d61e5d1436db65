#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# One subnet on Ethernet and on InfiniBand. A Linux host on Ethernet and a node on the fabric, with a host behind
# it, have addresses of one /24 and one /64, with a gateway between them that answers ARP and neighbour discovery for
# each on the other side. TCP passes both ways; duplicate addresses are detected across the gateway.
# shows: P-24
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin proxy
NODES=(a b)
lab_fabric "$CABLE_MTU"
lab_host a
in_host a sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0
ip -n "$LAB-a" address add 10.0.0.10/24 dev eth0
ip -n "$LAB-a" address add fd00::10/64 dev eth0
ip -n "$LAB-a" route add 192.168.2.0/24 via 10.0.0.2
ip -n "$LAB-a" route add fd00:2::/64 via fd00::2
lab_cable a "$CABLE_MTU"
cat >"$LAB_DIR/a.toml" <<END
[hca.$HCA]
$(hca_driver a net_af_packet1)
$(management a)
[link.ib0]
hca = "$HCA"
address = ["10.0.0.3/24", "fd00::3/64"]
proxy = "lab"

[port.eth0]
device = "net_af_packet0"
address = ["10.0.0.1/24", "fd00::1/64"]
mtu = 2044
proxy = "lab"

# The networks behind a router of one side: the gateway routes their packets, too.
[[route]]
to = "192.168.2.0/24"
via = ["10.0.0.2"]
interface = "ib0"

[[route]]
to = "fd00:2::/64"
via = ["fd00::2"]
interface = "ib0"

[neighbour-cache]
reachable = 4
negative = 1
END
scenario_ipv6 b
scenario_host b
for node in a b; do scenario_node "$node"; done
for node in a b; do wait_for 20 "the link of node $node to come up" link_up "$node"; done
host_ipv6 b
wait_for 20 "host b to make an address of an advertisement" host_address6 b
b6=$(host_address6 b)

reaches() { in_host "$1" ping -q -c 1 -W 0.5 "$2"; }
for to in 10.0.0.2 192.168.2.2 fd00::2 "$b6"; do wait_for 20 "host a to reach $to" reaches a "$to"; done
row "host a to node b" ping_all a 10.0.0.2
row "host a to node b, IPv6" ping_all a fd00::2
row "host a to host b, 2044 octets" ping_all a 192.168.2.2 -M "do" -s 2016
row "host b to host a" ping_all b 10.0.0.10
row "host b to host a, IPv6" ping_all b fd00::10
row "host a to the gateway's address on the link" ping_all a 10.0.0.3

# The gateway's own link-layer address stands for the node, and it counts as a router.
gateway=$(cli a "show port json" | json 'd[0]["mac"]')
lladdr() { ip -n "$LAB-a" -j neighbour show "$1" | json 'd[0].get("lladdr", "")'; }
for to in 10.0.0.2 fd00::2; do expect "host a's neighbour $to" "$(lladdr "$to")" "$gateway"; done
expect_text "hops from host a to host b" "$(in_host a ping -c 1 192.168.2.2)" 'ttl=62'

# iface_of ADDRESS: prints the interface on which the gateway knows the host.
iface_of() {
  cli a "show proxy json" | json "[h['iface'] for h in d[0]['hosts'] if h['address'] == '$1'][0]"
}
for to in 10.0.0.2 fd00::2; do expect "side of $to" "$(iface_of "$to")" ib0; done
for to in 10.0.0.10 fd00::10; do expect "side of $to" "$(iface_of "$to")" eth0; done
expect_text "routes of node a" "$(cli a 'show route')" '10.0.0.2/32.*proxied'
expect "messages that came back" "$(cli a 'show proxy json' | json 'd[0]["loops"]')" 0

# A host that takes the node's address learns that it is in use.
duplicate() { ip -n "$LAB-a" -6 address show dadfailed | grep -q 'fd00::2/64'; }
ip -n "$LAB-a" address add fd00::2/64 dev eth0
wait_for 10 "host a to find fd00::2 taken" duplicate
ip -n "$LAB-a" address del fd00::2/64 dev eth0
expect_text "the answer to a probe" "$(in_host a arping -0 -c 3 -W 0.5 -i eth0 10.0.0.2 2>&1 || true)" "from $gateway"

iperf_server b
row "iperf3 TCP, host a to host b" tcp_rate a 192.168.2.2 2
row "iperf3 TCP, host a to host b, IPv6" tcp_rate a "$b6" 2
cli a "show proxy"
