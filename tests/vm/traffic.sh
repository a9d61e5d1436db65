#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Datagrams through libibverbs on a real kernel. Two nodes have rdma_rxe devices, each with a host behind its TAP. They
# carry ARP and neighbour discovery by multicast, IPv4, IPv6, TCP, UDP, and multicast of both versions. A node that has
# ended leaves nothing in the kernel.
# A capture has the packets of both directions as InfiniBand, and tshark finds no fault in it.
# shows: P-02, P-10, U-23, U-37
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUPS_SENT=(239.1.1.1 ff15::101)

declare -A address6=()

LAB_MEMORY=320  # A capture takes 36 MB.
vm_begin vm-traffic
for node in a b; do scenario_ipv6 "$node"; done
# Each node administers its own port and does not know the other's groups, so both join these groups.
for node in a b; do LINK_LINES[$node]+=$'\ngroups = ["239.1.1.1", "ff15::101"]'; done
PORT_LINES[b]+=$'\nmulticast-router = true'
for group in "${GROUPS_SENT[@]}"; do
  NODE_TABLES[a]+=$(multicast_route "$group" eth0 ib0)
  NODE_TABLES[b]+=$(multicast_route "$group" ib0 eth0)
done
vm_up

row "ARP and ping between nodes' hosts" ping_all a "$(host_address b)"
expect "how a reaches b" "$(mode_of a 10.0.0.2)" UD
expect_text "link-layer address of b" "$(cli a "show neigh json")" \
  '"lladdr":"00:[0-9a-f:]{8}:fe:80:00:00:00:00:00:00:00:00:00:ff:fe:00:01:02"'
capture_begin a "$LAB_DIR/rebuilt.pcap"
row "largest packets" ping_all b "$(host_address a)" -M "do" -s 1472
expect_text "capture stop" "$(capture_end a)" "^[0-9]+ frames, 0 lost$"
# 8388608 is tshark's severity "error". Sums: echo requests, replies, packets without a GRH, and faulty ones.
tshark -r "$LAB_DIR/rebuilt.pcap" -T fields -e icmp.type -e infiniband.grh.dgid -e _ws.expert.severity -e _ws.malformed \
  >"$LAB_DIR/rebuilt" 2>/dev/null
judged=$(awk -F'\t' '{ if ($1 == 8) ++sent; if ($1 == 0 && $1 != "") ++back; if ($2 == "") ++local }
  $3 >= 8388608 || $4 != "" { ++faulty } END { print sent + 0, back + 0, local + 0, faulty + 0 }' "$LAB_DIR/rebuilt")
expect "echo requests, replies, packets without a GRH, faulty packets" "$judged" "20 20 0 0"

for host in a b; do host_ipv6 "$host"; done
for host in a b; do wait_for 20 "an IPv6 address of host $host" host_address6 "$host"; done
for host in a b; do address6[$host]=$(host_address6 "$host"); done
wait_for 15 "IPv6 between the hosts" in_host a ping -q -c 1 -W 0.5 "${address6[b]}"
row "IPv6 ping" ping_all a "${address6[b]}"
row "largest packets of IPv6" ping_all b "${address6[a]}" -M "do" -s 1452

iperf_server b
row "iperf3 TCP" tcp_rate a "$(host_address b)" 2
row "iperf3 TCP over IPv6" tcp_rate a "${address6[b]}" 2
row "iperf3 UDP, 2 Mbit/s offered" udp_rate a "$(host_address b)" 2 2

flow_begin sender a send eth0 20 "${GROUPS_SENT[@]}"
for group in "${GROUPS_SENT[@]}"; do
  flow_begin "member-$group" b member eth0 "$group" 1 3
done
for group in "${GROUPS_SENT[@]}"; do
  flow_end "member-$group" wait
  expect "$group: lost while a member" "$(flow "member-$group" 'd[0]["lost"]')" 0
  (($(flow "member-$group" 'd[0]["packets"]') > 50)) || fail "$group: hardly anything arrived"
done
flow_end sender

# rdma_rxe returns a sender's own multicast to it.
(($(drops a ipoib_own_multicast) > 50)) || fail "own multicast was not told from that of others"
vm_stop
