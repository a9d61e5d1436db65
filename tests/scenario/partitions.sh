#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two partitions on the same ports do not receive each other's packets: broadcasts, multicast, and unicast that is
# deliberately sent with the wrong P_Key.
# shows: U-01, U-05, U-36, P-13
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# ib0 is in partition 1 at nodes a and b. At node c it is in partition 2 and has an address of the others' prefix. ib1
# of nodes a and b is in partition 2, like ib0 of node c.
lab_begin partitions
for node in a b; do
  n=$(number_of "$node")
  HCA_LINES[$node]="pkeys = [0xffff, 0x8001, 0x8002]"
  LINK_LINES[$node]="pkey = 0x8001"
  NODE_TABLES[$node]=$'\n[link.ib1]\nhca = "soft0"\npkey = 0x8002\n'"address = [\"10.2.0.$n/24\"]"$'\n'
  NODE_TABLES[$node]+=$'\n[[route]]\nto = "172.16.3.0/24"\nvia = ["10.2.0.3"]'
done
HCA_LINES[c]="pkeys = [0xffff, 0x8002]"
LINK_LINES[c]="pkey = 0x8002"
LINK_ADDRESSES[c]='"10.2.0.3/24"'
PORT_ADDRESSES[c]='"172.16.3.1/24"'
for n in 1 2; do
  NODE_TABLES[c]+=$'\n[[route]]\n'"to = \"192.168.$n.2/32\""$'\n'"via = [\"10.2.0.$n\"]"$'\n'
done
scenario_up a b c
ip -n "$LAB-c" address add 172.16.3.2/24 dev eth0
all_up() { cli "$1" "show link json" | json '{x["state"] for x in d}' | grep -qx "{'up'}"; }
for node in a b; do wait_for 20 "both links of node $node to come up" all_up "$node"; done

row "partition 1, a to b" ping_all a "$(host_address b)"
row "partition 2, a to c" ping_all a 172.16.3.2
row "partition 2, b to c" ping_all b 172.16.3.2

# Broadcast: node a sends ARP requests in partition 1 for 10.0.0.3, which node c has in partition 2. The bridge brings
# them to node c's port, which must ignore them.
capture=$LAB_DIR/c.pcap
capture_begin c "$capture"
report=$(in_host a ping -n -c 3 -i 0.3 -w 8 -W 6 "$(host_address c)") || true
expect_text "ping of an address of the other partition" "$report" 'Destination Host Unreachable'
capture_end c >/dev/null
count() { tshark -r "$capture" -Y "$1" 2>/dev/null | wc -l; }
asked=$(count 'arp.opcode == 1 && arp.dst.proto_ipv4 == 10.0.0.3 && infiniband.bth.p_key == 0x8001')
((asked >= 3)) || fail "$asked questions for 10.0.0.3 at node c's port"
expect "answers of node c" "$(count 'arp.opcode == 2 && arp.src.proto_ipv4 == 10.0.0.3')" 0
expect "link-layer addresses of partition 1 at node c" \
  "$(cli c "show neigh json" | json 'sum(n["address"] == "10.0.0.1" and n["lladdr"] != "" for n in d)')" 0
expect "other P_Keys of multicast" "$(count 'infiniband.lrh.dlid >= 0xc000 &&
  !(infiniband.bth.p_key in {0x8001, 0x8002})')" 0
say "broadcast: $asked questions of partition 1 at node c's port, none heard"

# Unicast: packets with the P_Key of partition 1 go to queue pairs of partition 2.
# lladdr NODE LINK: prints the link-layer address in the format of ip neigh.
lladdr() {
  cli "$1" "show link $2 json" | json '":".join("%02x" % o for o in d["qpn"].to_bytes(4, "big") +
    __import__("ipaddress").ip_address(d["gid"]).packed)'
}
# forged NODE LINK ADDRESS TO: makes the queue pair of the link, which is in partition 2, the neighbour ADDRESS in
# partition 1, and pings TO through it.
forged() {
  local node=$1 before lost
  expect "neigh add" "$(cli a "neigh add ib0 $3 lladdr $(lladdr "$node" "$2") lid $(number_of "$node")")" ""
  before=$(drops "$node" ib_pkey)
  in_host a ping -q -c 20 -i 0.02 -W 0.2 -w 2 "$4" >/dev/null && fail "$4 answered across partitions"
  lost=$(($(drops "$node" ib_pkey) - before))
  ((lost >= 20)) || fail "node $node counted $lost of 20 packets as ib_pkey"
  say "unicast to $2 of node $node with the wrong P_Key: $lost dropped as ib_pkey"
}
cli a "neigh flush ib0" >/dev/null
forged c ib0 10.0.0.3 "$(host_address c)"
expect "route add" "$(cli a "route add 172.16.9.0/24 via 10.0.0.77")" ""
forged b ib1 10.0.0.77 172.16.9.9

# Multicast: both partitions have listeners of one group. Only those of the partition that the packets are sent to
# receive them.
group=239.1.1.1
for place in "b ib0" "c ib0"; do
  read -r node link <<<"$place"
  expect "group join" "$(cli "$node" "group join $link $group")" ""
  expect "mroute add" "$(cli "$node" "mroute add $group in $link out eth0")" ""
done
heard() { ip -n "$LAB-$1" -s -j link show eth0 | json 'd[0]["stats64"]["rx"]["packets"]'; }
enough() { (($(heard "$hears") >= base + 200)); }
flow_begin sender a send eth0 5 "$group"
for link in ib0 ib1; do
  if [[ $link == ib0 ]]; then hears=b deaf=c; else hears=c deaf=b; fi
  flow_begin b b watch eth0 "$group"
  flow_begin c c watch eth0 "$group"
  expect "mroute add" "$(cli a "mroute add $group in eth0 out $link")" ""
  wait_for 5 "the group to be heard at host $hears" grep -q arrived "$LAB_DIR/$hears.error"
  base=$(heard "$hears")
  wait_for 10 "200 packets at host $hears" enough
  flow_end b
  flow_end c
  expect "mroute del" "$(cli a "mroute del $group in eth0")" ""
  expect "lost at host $hears" "$(flow "$hears" 'd["lost"]')" 0
  expect "packets of the other partition at host $deaf" "$(flow "$deaf" 'd["packets"]')" 0
  say "multicast by $link of node a: host $hears received $(flow "$hears" 'd["packets"]')," \
    "host $deaf none"
done
flow_end sender
