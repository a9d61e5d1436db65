#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The dialect of 2001 among faulty hosts. Invalid answers of a service ID server are named and counted, faulty IBARP
# packets are counted while traffic flows, packets to a neighbour with a Q_Key of its own carry it, and multicast goes
# from the host behind node b to the one behind node a by the broadcast group.
# shows: E-02, E-03
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUPS_SENT=(239.1.1.1 ff15::101)
FAULTY_SERVER=9  # LID of a server that answers with faults.

lab_begin ibarpf
lab_fabric "$CABLE_MTU"
NODES=(a b)
for node in a b; do
  scenario_ipv6 "$node"
  LINK_LINES[$node]='dialect = "ibarp2001"'
done
LINK_LINES[a]+=$'\nsidr-server = true\nmulticast-router = true'
PORT_LINES[a]+=$'\nmulticast-router = true\nlast-member-interval = 0.25'
for group in "${GROUPS_SENT[@]}"; do NODE_TABLES[b]+=$(multicast_route "$group" eth0 ib0); done
# A neighbour that does not exist, with Q_Key 0x1234.
NODE_TABLES[b]+=$'\n[[neighbour]]\nlink = "ib0"\naddress = "10.0.0.77"\nlid = 8\nlladdr = "'
NODE_TABLES[b]+=$'00:02:c9:03:00:00:00:77:00:00:00:77:00:00:12:34:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:77"\n'
for node in a b; do scenario_host "$node"; done
scenario_node a
wait_for 20 "the link of node a to come up" link_up a

# The server's answers have another version, no multicast LID, no multicast GID, and another partition.
ip netns exec "$LAB-fabric" python3 "$(dirname "$0")/ibarp_faults.py" sidr br0 "$FAULTY_SERVER" &
server=$!
LAB_PIDS+=("$server")
scenario_node b --set link.ib0.sidr-lid="$FAULTY_SERVER"
sidr_errors() { cli b "show link json" | json '" ".join(sorted(d[0]["counters"]["sidr_errors"]))'; }
all_named() { [[ $(sidr_errors) == "dgid dlid pkey version" ]]; }
wait_for 40 "all faulty answers to be counted" all_named
expect_text "reason of node b" "$(link_field b reason)" "the SIDR server at LID $FAULTY_SERVER is invalid: pkey"
expect "invalid answers" "$(cli b "show link json" | json 'd[0]["counters"]["sidr_invalid"]')" 4
wait "$server" || fail "the server failed"
node_stop b
scenario_node b
wait_for 20 "the link of node b to come up" link_up b
capture=$LAB_DIR/fabric.pcap
capture_begin b "$capture"

ping_all a "$(host_address b)"
invalid() { cli a "show link json" | json 'd[0]["counters"]["arp_invalid"]'; }
before=$(($(invalid) + $(all_drops a)))
in_host a ping -q -i 0.02 -c 250 -W 5 "$(host_address b)" >"$LAB_DIR/ping" &
pinger=$!
LAB_PIDS+=("$pinger")
sent=$(in_host fabric python3 "$(dirname "$0")/ibarp_faults.py" packets br0 1 "$(link_field a qpn)" \
  "$(link_field a qkey)")
wait "$pinger" || fail "traffic stopped: $(cat "$LAB_DIR/ping")"
grep -q ' 0% packet loss' "$LAB_DIR/ping" || fail "traffic suffered: $(cat "$LAB_DIR/ping")"
expect "faulty packets that node a counted" "$(($(invalid) + $(all_drops a) - before))" "$sent"
expect "neighbours that node a learned of them" \
  "$(cli a "show neigh json" | json 'sum(x["address"] == "10.0.0.119" for x in d)')" 0

in_host b ping -q -c 2 -i 0.2 -W 0.2 10.0.0.77 >/dev/null || true

for host in a b; do host_ipv6 "$host"; done
for host in a b; do wait_for 20 "host $host to have an IPv6 address" host_address6 "$host"; done
flow_begin sender b send eth0 5 "${GROUPS_SENT[@]}"
for group in "${GROUPS_SENT[@]}"; do flow_begin "$group" a member eth0 "$group" 1 2; done
for group in "${GROUPS_SENT[@]}"; do
  flow_end "$group" wait
  expect "$group: lost while a member" "$(flow "$group" 'sum(c["lost"] for c in d)')" 0
  expect "$group: repeated" "$(flow "$group" 'sum(c["repeated"] for c in d)')" 0
done
flow_end sender
capture_end b

# fields FILTER FIELD: prints the values of the field in matching frames.
fields() { tshark -r "$capture" -Y "infiniband.bth.destqp != 1 && $1" -T fields -e "$2" 2>/dev/null | sort -u | xargs; }
link_qkey=$(printf '0x%016x' "$(link_field b qkey)")
expect "Q_Key of packets to 10.0.0.77" "$(fields "infiniband.lrh.dlid == 8" infiniband.deth.q_key)" 0x0000000000001234
expect "Q_Key of packets to node a" \
  "$(fields "infiniband.lrh.dlid == 1 && infiniband.lrh.slid == 2" infiniband.deth.q_key)" "$link_qkey"
expect "multicast LIDs" "$(fields "infiniband.lrh.dlid >= 0xc000" infiniband.lrh.dlid)" \
  "$(link_field b broadcast_mlid)"
