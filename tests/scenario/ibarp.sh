#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The dialect of 2001. Nodes a and b have a link of it, whose broadcast group b finds by service ID resolution at node
# a; hosts behind them exchange IPv4, IPv6 and TCP. Node b has a link of RFC 4391 on the same HCA too, and routes to
# node c, which has only that. A server that does not know the service is named. The frames are looked at on the wire.
# shows: E-01, E-02, E-03, E-05, E-06, E-08
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin ibarp
lab_fabric "$CABLE_MTU"
# Partition 0xffff is spoken in the dialect of 2001, partition 0x8001 in that of RFC 4391.
for node in a b c; do HCA_LINES[$node]="pkeys = [0xffff, 0x8001]"; done
SERVICE=0x0200000000000806
LINK_LINES[a]=$'dialect = "ibarp2001"\nsidr-server = true'
LINK_LINES[b]=$'dialect = "ibarp2001"\nsidr-service-id = '"$SERVICE"
LINK_LINES[c]='pkey = 0x8001'
NODE_TABLES[b]=$'[link.ib1]\nhca = "soft0"\npkey = 0x8001\naddress = ["10.1.0.2/24", "fd01::2/64"]\n'
LINK_ADDRESSES[c]='"10.1.0.3/24", "fd01::3/64"'
for node in a b c; do PORT_LINES[$node]="router-advertisement = true"; done
for node in a b; do LINK_ADDRESSES[$node]="\"fd00::$(number_of "$node")/64\""; done
for node in a b c; do PORT_ADDRESSES[$node]="\"fd00:$(number_of "$node")::1/64\""; done
# to NODE PREFIX NEXT_HOP
to() { NODE_TABLES[$1]+=$'\n[[route]]\n'"to = \"$2\""$'\n'"via = [\"$3\"]"$'\n'; }
NODES=()
to a 192.168.2.0/24 10.0.0.2
to a 192.168.3.0/24 10.0.0.2
to a fd00:2::/64 fd00::2
to a fd00:3::/64 fd00::2
to b 192.168.1.0/24 10.0.0.1
to b 192.168.3.0/24 10.1.0.3
to b fd00:1::/64 fd00::1
to b fd00:3::/64 fd01::3
to c 192.168.1.0/24 10.1.0.2
to c 192.168.2.0/24 10.1.0.2
to c fd00:1::/64 fd01::2
to c fd00:2::/64 fd01::2
for node in a b c; do scenario_host "$node"; done
# The interface identifier of the draft inverts the universal bit, and that of RFC 4391 sets it.
sed -i 's/0x0002c90300000002/0x0202c90300000002/' "$LAB_DIR/b.toml"

scenario_node a
wait_for 20 "the link of node a to come up" link_up a

# A node that asks for another service names the refusal.
scenario_node b --set link.ib0.sidr-service-id=0x0200000000000001
refused() { [[ $(link_field b reason) == *"service ID not supported"* ]]; }
wait_for 10 "node b to be refused" refused
link_field b reason
node_stop b
for node in b c; do scenario_node "$node"; done
for node in b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done
# Node b sees the packets of both partitions.
capture=$LAB_DIR/fabric.pcap
capture_begin b "$capture"
expect "dialect" "$(link_field b dialect)" ibarp2001
expect "MTU" "$(link_field b mtu)" 2044

ping_each_other a b c

# The neighbour of node a has 32 octets: EUI-64, QPN, Q_Key and GID.
neighbours=$(cli a "show neigh json" | json '"\n".join(x["lladdr"] for x in d if x["iface"] == "ib0")')
expect_text "neighbours of node a" "$neighbours" \
  '^02:02:c9:03:00:00:00:02:00(:[0-9a-f]{2}){3}(:[0-9a-f]{2}){4}:fe:80:00:00:00:00:00:00:02:02:c9:03:00:00:00:02$'

declare -A address=()
for host in a b c; do host_ipv6 "$host"; done
for host in a b c; do
  wait_for 20 "host $host to make an address of an advertisement" host_address6 "$host"
  address[$host]=$(host_address6 "$host")
done
crosses() { in_host "$1" ping -q -c 1 -W 0.3 "${address[$2]}"; }
for pair in "a b" "a c" "c a"; do
  read -r from to <<<"$pair"
  wait_for 15 "IPv6 from host $from to host $to" crosses "$from" "$to"
  row "$from to $to, IPv6" ping_all "$from" "${address[$to]}"
  row "$from to $to, IPv6, 2044 octets" ping_all "$from" "${address[$to]}" -M "do" -s 1996
done
expect_text "link-local address of node a" "$(cli a "show link ib0 json")" 'fe80::202:c903:0:1/'
expect_text "link-local address of node b" "$(cli b "show link ib0 json")" 'fe80::2:c903:0:2/'

capture_end b

for to in b c; do
  for to_address in "$(host_address "$to")" "${address[$to]}"; do
    iperf_server "$to"
    row "iperf3 from a to $to_address" tcp_rate a "$to_address" 2
  done
done

# Packets of IPoIB begin, behind the DETH, with two reserved octets and the type in partition 0xffff, and with the type
# in partition 0x8001.
first_words() { tshark -r "$capture" -Y "infiniband.deth && infiniband.bth.p_key == $1 && infiniband.bth.destqp != 1" \
  -T fields -e infiniband.payload -e data 2>/dev/null | tr -d '\t:' | cut -c 1-8 | sort -u; }
expect "first words in partition 0xffff" "$(first_words 0xffff | xargs)" "00000800 00000806 000086dd"
expect "first words in partition 0x8001" "$(first_words 0x8001 | xargs)" "08000000 08060000 86dd0000"
expect "invalid IBARP packets" "$(cli a "show link json" | json 'd[0]["counters"]["arp_invalid"]')" 0
expect "answers of the SIDR server" \
  "$(cli a "show link json" | json 'd[0]["counters"]["sidr_served"] >= 1')" True
