#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two gateways, nodes a and b, between the fabric and one Ethernet segment are active at the same time on one virtual
# address of the fabric, IPv4 and IPv6. The hash gives node c to gateway b, and node d to gateway a. When gateway b is
# killed, the host behind node c talks on through gateway a, and that behind node d notices nothing. When gateway b comes
# back, node c returns to it and loses nothing.
# shows: P-18
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin shared-gateway
lab_fabric "$CABLE_MTU"
NODES=()
route() { printf '\n[[route]]\nto = "%s"\nvia = ["%s"]\n' "$@"; }
for node in a b; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:1::$n/64\""
  LINK_LINES[$node]=$'shared-address = ["10.0.0.100", "fd00::100"]\nshared-vrid = 7\nshared-interval = 0.2\n'
  LINK_LINES[$node]+='shared-members = ["0x0002c90300000001", "0x0002c90300000002"]'
  NODE_TABLES[$node]=$(for h in 3 4; do route "192.168.$h.0/24" "10.0.0.$h"; route "fd00:$h::/64" "fd00::$h"; done)
done
for node in c d; do
  n=$(number_of "$node")
  LINK_ADDRESSES[$node]="\"fd00::$n/64\""
  PORT_ADDRESSES[$node]="\"fd00:$n::1/64\""
  NODE_TABLES[$node]=$(route 192.168.1.0/24 10.0.0.100; route fd00:1::/64 fd00::100)
done
for node in a b c d; do scenario_host "$node"; done
# The cables of the ports of both gateways end in one bridge, which has the address of host a.
sed -i 's|192\.168\.1\.1/24|192.168.1.3/24|' "$LAB_DIR/a.toml"
sed -i 's|192\.168\.2\.1/24|192.168.1.4/24|' "$LAB_DIR/b.toml"
ip -n "$LAB-a" link add to-b type veth peer name to-a netns "$LAB-b"
for node in a b; do
  other=$([[ $node == a ]] && echo b || echo a)
  ip -n "$LAB-$node" address flush dev eth0
  ip -n "$LAB-$node" link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
  ip -n "$LAB-$node" link set eth0 master br0
  ip -n "$LAB-$node" link set "to-$other" master br0 up
  ip -n "$LAB-$node" link set br0 up
done
for host in a:br0 c:eth0 d:eth0; do
  in_host "${host%:*}" sysctl -qw "net.ipv6.conf.${host#*:}.disable_ipv6=0"
done
for address in 192.168.1.2/24 192.168.1.8/24; do ip -n "$LAB-a" address add "$address" dev br0; done
ip -n "$LAB-a" address add fd00:1::8/64 dev br0 nodad
for node in c d; do
  n=$(number_of "$node")
  ip -n "$LAB-a" route add "192.168.$n.0/24" via 192.168.1.3
  ip -n "$LAB-a" route add "fd00:$n::/64" via fd00:1::1
  ip -n "$LAB-$node" address add "fd00:$n::2/64" dev eth0 nodad
  ip -n "$LAB-$node" route add fd00:1::/64 via "fd00:$n::1"
done
for node in a b c d; do scenario_node "$node"; done
for node in a b c d; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

# shared NODE EXPRESSION: evaluates an expression over the groups of the node, "v4" and "v6".
shared() { cli "$1" "show shared json" | json "(lambda v4, v6: $2)(*d)"; }
members_are() {
  [[ $(shared "$1" "sum(m['state'] == 'member' for g in (v4, v6) for m in g['members'])") == $((2 * $2)) ]]
}
# served_by NODE GATEWAY: the node sends packets for the shared addresses to the gateway.
served_by() {
  local gid
  gid=$(printf '00:02:c9:03:00:00:00:%02x' "$(number_of "$2")")
  [[ $(cli "$1" "show neigh json" |
    json "sum(x['address'] in ('10.0.0.100', 'fd00::100') and x['lladdr'].endswith('$gid') for x in d)") == 2 ]]
}
for node in a b; do wait_for 20 "gateway $node to know the other" members_are "$node" 2; done
reached() { in_host "$1" ping -q -c 1 -W 1 "$2"; }
for host in c d; do
  for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host $host to reach $address" reached "$host" "$address"; done
  reached "$host" 10.0.0.100 >/dev/null || fail "host $host does not reach the shared address"
done
wait_for 10 "node c to be served by gateway b" served_by c b
wait_for 10 "node d to be served by gateway a" served_by d a
for node in a b; do
  row "hosts of gateways a and b, known to $node" shared "$node" \
    "'IPv4 %s, IPv6 %s' % tuple(' and '.join(str(m['hosts']) for m in sorted(g['members'], key=lambda m: m['gid'])) for g in (v4, v6))"
done

expect_text "show shared" "$(cli a "show shared ib0")" '^MEMBER +SELF +STATE'
expect_text "show shared" "$(cli a "show shared ib0")" '^fe80::2:c903:0:2 +no +member +1 '

flow_begin of-c a watch br0 192.168.1.2
flow_begin from-c c send eth0 5 192.168.1.2
wait_for 10 "the flow of host c" grep -q arrived "$LAB_DIR/of-c.error"
flow_begin of-d a watch br0 192.168.1.8
flow_begin from-d d send eth0 5 192.168.1.8
wait_for 10 "the flow of host d" grep -q arrived "$LAB_DIR/of-d.error"
node_kill b
wait_for 20 "node c to be served by gateway a" served_by c a
for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host c to reach $address again" reached c "$address"; done
expect "hosts that were informed" "$(shared a "(v4['taken_over'], v6['taken_over'])")" "(1, 1)"
flow_end from-c
flow_end of-c
row "gateway b was killed, flow of c" printf '%s\n' "$(flow of-c \
  '"longest gap %d ms, %d lost of %d" % (d["longest_gap_ms"], d["lost"], d["lost"] + d["packets"])')"
[[ $(flow of-c 'd["lost"]') -gt 0 ]] || fail "nothing was lost, though the gateway was killed"

flow_begin of-c a watch br0 192.168.1.2
flow_begin from-c c send eth0 5 192.168.1.2
scenario_node b
wait_for 20 "node c to return to gateway b" served_by c b
expect "hosts that were handed over" "$(shared a "(v4['handed_over'], v6['handed_over'])")" "(1, 1)"
for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host c to reach $address through b" reached c "$address"; done
flow_end from-c
flow_end of-c
row "gateway b came back, flow of c" printf '%s\n' "$(flow of-c \
  '"longest gap %d ms, %d lost of %d" % (d["longest_gap_ms"], d["lost"], d["lost"] + d["packets"])')"
expect "lost when gateway b came back" "$(flow of-c 'd["lost"]')" 0

flow_end from-d
flow_end of-d
row "flow of d meanwhile" printf '%s\n' "$(flow of-d \
  '"longest gap %d ms, %d lost of %d" % (d["longest_gap_ms"], d["lost"], d["lost"] + d["packets"])')"
expect "packets of host d that were lost" "$(flow of-d 'd["lost"]')" 0

# Gateway b started after host d had asked, and does not know it.
flow_begin of-d a watch br0 192.168.1.8
flow_begin from-d d send eth0 5 192.168.1.8
wait_for 10 "the second flow of host d" grep -q arrived "$LAB_DIR/of-d.error"
expect "set node drain" "$(cli a "set node drain")" ""
wait_for 10 "node d to be served by gateway b" served_by d b
expect "state of gateway a" "$(shared a "(v4['state'], v6['state'])")" "('retired', 'retired')"
for address in 192.168.1.2 fd00:1::8; do wait_for 10 "host d to reach $address through b" reached d "$address"; done
expect "set node undrain" "$(cli a "set node undrain")" ""
wait_for 20 "node d to return to gateway a" served_by d a
flow_end from-d
flow_end of-d
row "gateway a drained and returned, flow of d" printf '%s\n' "$(flow of-d \
  '"longest gap %d ms, %d lost of %d" % (d["longest_gap_ms"], d["lost"], d["lost"] + d["packets"])')"
expect "lost by the drain" "$(flow of-d 'd["lost"]')" 0

node_stop b
wait_for 5 "gateway a to be alone" members_are a 1
wait_for 5 "node c to be served by gateway a again" served_by c a
