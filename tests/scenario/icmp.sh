#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# ICMP of a router: echo replies from each of its addresses, time exceeded, host and net unreachable, and fragmentation
# needed with the right MTU. Packets without DF are fragmented. Broadcasts to a prefix, and to all subnets of a net, leave
# where that is allowed.
# shows: U-03, U-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin icmp
lab_fabric "$CABLE_MTU"
scenario_host a
# Node b has a second port, with the host c. Both ports, and the link, have subnets of 10.0.0.0/8, whose broadcast address
# host c takes for its own.
PORT_ADDRESSES[b]='"10.2.0.1/24"'
NODE_TABLES[b]='
[port.eth1]
device = "net_af_packet2"
address = ["10.3.0.1/24"]'
scenario_host b 1500
lab_space c
ip -n "$LAB-b" link add port1 type veth peer name eth0 netns "$LAB-c"
in_host c ethtool -K eth0 tx off tso off gso off >/dev/null
ip -n "$LAB-c" link set eth0 up
ip -n "$LAB-b" link set port1 up
ip -n "$LAB-c" address add 10.3.0.2/24 broadcast 10.255.255.255 dev eth0
ip -n "$LAB-c" route add default via 10.3.0.1
port_device() {
  echo "--vdev=net_af_packet0,iface=$(port_name "$1"),$AF_PACKET_SIZES"
  [[ $1 != b ]] || echo "--vdev=net_af_packet2,iface=port1,$AF_PACKET_SIZES"
}
# The next hop of this route does not exist.
printf '\n[[route]]\nto = "192.168.9.0/24"\nvia = ["10.0.0.9"]\n' >>"$LAB_DIR/a.toml"
for node in a b; do scenario_node "$node"; done
for node in a b; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

for address in 192.168.1.1 10.0.0.1 10.0.0.2 192.168.2.1; do
  row "$address" ping_all a "$address"
done
ping_all a "$(host_address b)"

# error_to ADDRESS PATTERN [ping argument...]: ping must report an error that matches PATTERN.
error_to() {
  local address=$1 pattern=$2 report
  shift 2
  report=$(in_host a ping -n -c 3 -i 0.3 -w 8 "$@" "$address" 2>&1) || true
  expect_text "ping $* $address" "$report" "$pattern"
  grep -E -m 1 -- "$pattern" <<<"$report"
}
error_to 192.168.2.2 'From 192\.168\.1\.1 .*Time to live exceeded' -t 1
error_to 192.168.2.2 'From 10\.0\.0\.2 .*Time to live exceeded' -t 2
error_to 192.168.9.1 'From 192\.168\.1\.1 .*Destination Host Unreachable' -W 6
error_to 192.168.2.77 'From 10\.0\.0\.2 .*Destination Host Unreachable' -W 6
error_to 172.16.0.1 'From 192\.168\.1\.1 .*Destination Net Unreachable'
error_to 192.168.2.2 'From 10\.0\.0\.2 .*Frag needed and DF set \(mtu = 1500\)' -M "do" -s 2016
in_host a ip route flush cache
row "fragmented by node b" ping_all a 192.168.2.2 -M dont -s 2016

# broadcast_to ADDRESS: the hosts that answer two pings to the address.
broadcast_to() { in_host a ping -n -c 2 -i 0.05 -W 1 "$1" 2>&1 | grep -o "from [0-9.]*" || true; }
dropped_by_b() { expect_text "drops of node b" "$(cli b "show drops")" "ip_broadcast +ib0 +$1"; }
in_host b sysctl -qw net.ipv4.icmp_echo_ignore_broadcasts=0
expect "answers to a broadcast by default" "$(broadcast_to 192.168.2.255)" ""
dropped_by_b 2
cli b "set directed-broadcast eth0 subnet"
expect_text "answers to a broadcast" "$(broadcast_to 192.168.2.255)" "from 192.168.2.2"
cli a "set directed-broadcast ib0 subnet"
expect "answers of node b" "$(broadcast_to 10.0.0.255)" ""
dropped_by_b 4  # it is a member of the broadcast group, and answers none

# Host b takes 10.255.255.255 for its broadcast address, too. Node a has a route for it to node b.
in_host b ip address add 10.2.0.2/24 broadcast 10.255.255.255 dev eth0
ALL=10.255.255.255
# broadcasts_at HOST: prints the number of packets that the host received for a broadcast address.
broadcasts_at() { in_host "$1" nstat -asz IpExtInBcastPkts | awk '/InBcastPkts/ { print $2 }'; }
# broadcasts NAME B C: after three pings to ALL, the hosts b and c have received so many more broadcasts.
broadcasts() {
  local before_b before_c
  before_b=$(broadcasts_at b)
  before_c=$(broadcasts_at c)
  # No host answers, which is status 1. A ping that sends nothing has status 2.
  in_host a ping -n -q -c 3 -i 0.05 -W 1 "$ALL" >/dev/null 2>&1 || [[ $? == 1 ]]
  ping_all a "$(host_address b)" >/dev/null  # behind the last broadcast
  ping_all a 10.3.0.2 >/dev/null
  expect "$1: broadcasts at host b" $(($(broadcasts_at b) - before_b)) "$2"
  expect "$1: broadcasts at host c" $(($(broadcasts_at c) - before_c)) "$3"
}
cli a "route add $ALL/32 via 10.0.0.2"
cli a "route add 10.3.0.0/24 via 10.0.0.2"
broadcasts "to all subnets, by default" 0 0
dropped_by_b 4  # they follow the routes of node b, which has none
expect_text "drops of node b" "$(cli b "show drops")" "ip_no_route +ib0 +3"
cli b "set directed-broadcast eth0 all-subnets"
broadcasts "to all subnets, one port" 3 0
cli b "set directed-broadcast eth1 all-subnets"
broadcasts "to all subnets, two ports" 3 3
cli b "set directed-broadcast ib0 all-subnets"
broadcasts "to all subnets, and never back to the link" 3 3
# Node a broadcasts them to its link now, and node b forwards no broadcast of the link layer.
cli a "route del $ALL/32"
cli a "set directed-broadcast ib0 all-subnets"
broadcasts "to all subnets, of the link layer" 0 0
dropped_by_b 7
