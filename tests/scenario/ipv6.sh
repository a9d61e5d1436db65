#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# IPv6 across nodes. Router advertisements of the nodes configure the hosts; small and the largest packets and TCP
# pass; the hosts' kernels receive packet too big and hop limit exceeded. Duplicate addresses are detected on the link
# and on the port. tshark finds no fault in the frames of the fabric.
# shows: U-12, U-15, U-18, U-25
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin ipv6
lab_fabric "$CABLE_MTU"
for node in a b c; do scenario_ipv6 "$node"; done
# Nodes a and c have the same address. The node that starts later must not take it.
for node in a c; do LINK_ADDRESSES[$node]+=', "fd00::77/64"'; done
scenario_host a
scenario_host b
scenario_host c 1500
# The MTU of the cable is larger than the 2044 octets that the advertisement announces.
ip -n "$LAB-a" link set eth0 mtu 2300

scenario_node a
wait_for 20 "the link of node a to come up" link_up a
# shared NODE STATE: succeeds if fd00::77 has that state at the node.
shared() {
  [[ $(cli "$1" "show link ib0 json" |
    json "[x['state'] for x in d['ipv6']['addresses'] if x['address'] == 'fd00::77/64'][0]") == "$2" ]]
}
wait_for 10 "node a to take fd00::77" shared a ready
capture=$LAB_DIR/fabric.pcap
capture_begin a "$capture"
for node in b c; do scenario_node "$node"; done
for node in b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

for host in a b c; do host_ipv6 "$host"; done
declare -A address=()
for host in a b c; do
  wait_for 20 "host $host to make an address of an advertisement" host_address6 "$host"
  address[$host]=$(host_address6 "$host")
  expect_text "address of host $host" "${address[$host]}" "^fd00:$(number_of "$host"):"
  say "host $host: ${address[$host]}"
done
expect "IPv6 MTU of host a" "$(in_host a sysctl -n net.ipv6.conf.eth0.mtu)" 2044
gateway=$(ip -n "$LAB-a" -6 -j route show default | json 'd[0]["gateway"]')
expect_text "default router of host a" "$gateway" '^fe80::'

# Duplicate address detection of the nodes takes up to two seconds.
crosses() { in_host a ping -q -c 1 -W 0.3 "${address[$1]}"; }
for to in b c; do wait_for 15 "IPv6 from host a to host $to" crosses "$to"; done
row "link-local address of node a" ping_all a "$gateway%eth0"
row "a to b" ping_all a "${address[b]}"
row "b to a" ping_all b "${address[a]}"
row "a to b, 2044 octets" ping_all a "${address[b]}" -M "do" -s 1996

# error_to ADDRESS PATTERN [ping argument...]: ping must report an error that matches PATTERN.
error_to() {
  local to=$1 pattern=$2 report
  shift 2
  report=$(in_host a ping -n -c 3 -i 0.3 -w 8 "$@" "$to" 2>&1) || true
  expect_text "ping $* $to" "$report" "$pattern"
  grep -E -m 1 -- "$pattern" <<<"$report"
}
error_to "${address[b]}" 'From fd00:1::1 .*Time exceeded: Hop limit' -t 1
error_to "${address[b]}" 'From fd00::2 .*Time exceeded: Hop limit' -t 2
error_to "${address[c]}" 'From fd00::3 .*Packet too big: mtu=1500' -M "do" -s 1996
expect_text "host a's route to host c" "$(ip -n "$LAB-a" -6 route get "${address[c]}")" 'mtu 1500'
row "a to c, cut by host a" ping_all a "${address[c]}" -s 1996
error_to "fd00:2::77" 'From fd00::2 .*Destination unreachable: Address unreachable' -W 6
error_to "fd00:99::1" "From fd00:1::1 .*Destination unreachable: No route"

# A host that takes its router's address learns that it is a duplicate. A node that takes another node's address
# reports it.
ip -n "$LAB-a" address add fd00:1::1/64 dev eth0
duplicate() { ip -n "$LAB-a" -6 address show dadfailed | grep -q 'fd00:1::1/64'; }
wait_for 5 "host a to find fd00:1::1 taken" duplicate
wait_for 10 "node c to find fd00::77 taken" shared c duplicate
cli c "show link ib0 json" | json '[x for x in d["ipv6"]["addresses"] if x["reason"]][0]'
ping_all b fd00::77 >/dev/null

capture_end a
judge() { tshark -r "$capture" "$@" 2>/dev/null; }
count() { judge -Y "$1" | wc -l; }
faults=$(judge -Y '_ws.malformed || _ws.expert.severity >= 8388608')
[[ -z $faults ]] || fail "tshark finds fault with: $(head -n 5 <<<"$faults")"
for type in 135 136; do
  (($(count "infiniband && icmpv6.type == $type && icmpv6.opt.length == 3") >= 1)) ||
    fail "no neighbour discovery of type $type with an option of three units"
done
expect "link-layer address options of other lengths" \
  "$(count 'infiniband && icmpv6.opt.type in {1, 2} && icmpv6.opt.length != 3')" 0
say "$(judge | wc -l) frames, $(count 'icmpv6.type in {133 .. 137}') of neighbour discovery," \
  "$(count 'icmpv6.type == 128') echo requests"

iperf_server b
row "iperf3 TCP" tcp_rate a "${address[b]}" 3
