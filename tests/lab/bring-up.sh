#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Three nodes are on a subnet that OpenSM manages. Their links have the attributes of the broadcast group from
# partitions.conf, and their ports two LIDs each. At each step saquery and ibroute show the memberships and multicast
# trees that the nodes report: after the start, after SIGTERM of a multicast router (it has left everything) and after
# SIGKILL of a node that is none (OpenSM keeps the memberships, and the restarted node takes them over). Hosts reach each
# other, and multicast between them flows.
# shows: U-08, U-33, U-41
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1

lab_begin labbringup
for node in a c; do
  LINK_LINES[$node]="multicast-router = true"
  PORT_LINES[$node]=$'multicast-router = true\nlast-member-interval = 0.25'
done
NODE_TABLES[b]=$(multicast_route "$GROUP" eth0 ib0)
LINK_LINES[b]="paths = 2"
begin=$(now_ms)
subnet_begin
sm_start sm H1 -d 0 -l 1  # Each port has two LIDs.
subnet_up
nodes_up a b c
say "simulator, OpenSM, three nodes and their links: $(took "$begin")"

for node in a b c; do
  expect "link of node $node" "$(cli "$node" "show link json" | json '"%#x %#x %d %d %#x %s" % tuple(d[0][k] for k in
    ("pkey", "qkey", "mtu", "rate_mbps", "broadcast_mlid", "gid"))')" \
    "0xffff 0x80010b1b 2044 10000 0xc000 $(port_gid "$(ca_of "$node")")"
done
agreed_within 10 a b c
awk '{ print "  " $0 }' <<<"$HELD"
for node in a b c; do expect "subscriptions of node $node" "$(subscriptions "$node")" "66 67"; done
say "multicast trees at S1:" && trees | awk '{ print "  " $0 }'
# Nodes a, b and c are at the ports 2, 3 and 4 of S1.
expect "tree of the broadcast group" "$(trees | awk '$1 == "0xc000"')" "0xc000 2 3 4"

capture=$LAB_DIR/fabric.pcap
capture_begin a "$capture"
for pair in "a b" "b c" "c a"; do
  read -r from to <<<"$pair"
  row "$from to $to" ping_all "$from" "$(host_address "$to")"
done

# OpenSM names two paths between disjoint LIDs, and node b spreads its flows over them. The other nodes ask for one path.
own=$(link_field b lid)
paths() {
  cli "$1" "show neigh json" | json "[(p['slid'], p['dlid']) for r in d if r['address'] == '10.0.0.$(number_of "$2")'
    for p in r['paths']]"
}
for node in a c; do
  lid=$(link_field "$node" lid)
  expect "paths from node b to $node" "$(paths b "$node")" "[($own, $lid), ($((own + 1)), $((lid + 1)))]"
  expect "path from node $node to b" "$(paths "$node" b)" "[($lid, $own)]"
done

flow_begin sender b send eth0 5 "$GROUP"
for host in a c; do flow_begin "member-$host" "$host" member eth0 "$GROUP" 1 2; done
for host in a c; do
  name=member-$host
  flow_end "$name" wait
  say "host $host, multicast: $(flow "$name" '"first packet %d ms after the join, %d received, %d lost, quiet %d ms after the leave" %
    (d[0]["join_ms"], d[0]["packets"], d[0]["lost"], d[0]["stop_ms"])')"
  # On a busy machine the resolution of the host may take longer than packets are held.
  (($(flow "$name" 'd[0]["lost"]') <= $(drops "$host" neighbour_pending))) ||
    fail "$name: $(flow "$name" 'd[0]["lost"]') lost: $(cli "$host" "show drops")"
  expect "$name: before the join" "$(flow "$name" 'd[0]["idle"]')" 0
done
flow_end sender
said=$(capture_end a)

# Packets on the wire have the LIDs that OpenSM assigned and the keys of partitions.conf.
judge() { tshark -r "$capture" "$@" 2>/dev/null; }
faults=$(judge -Y '_ws.malformed || _ws.expert.severity >= 8388608' | head -n 5)
[[ -z $faults ]] || fail "tshark finds fault with: $faults"
wire=$(judge -Y 'udp.dstport == 5001' -T fields -e infiniband.lrh.slid -e infiniband.bth.p_key \
  -e infiniband.deth.q_key | sort | uniq -c)
expect_text "multicast on the wire" "$wire" \
  "^ *[0-9]+ $(link_field b lid)[[:space:]]+(65535|0xffff)[[:space:]]+(2147552027|0x0*80010b1b)$"
expect "kinds of frames" "$(wc -l <<<"$wire")" 1
say "capture: $said;$wire"

# OpenSM reports the creation and the deletion of node a's group to the others.
reports() { cli "$1" "show sa json" | json 'd[0]["client"]["reports"]'; }
reported() { (($(reports b) >= from_b + $1 && $(reports c) >= from_c + $1)); }
from_b=$(reports b) from_c=$(reports c)
expect "group join" "$(cli a "group join ib0 239.2.2.2")" ""
timed 5 "new group, until nodes b and c were told" reported 1
expect "group leave" "$(cli a "group leave ib0 239.2.2.2")" ""
timed 5 "group gone, until nodes b and c were told" reported 2
for node in b c; do
  expect "Reports that node $node did not understand" "$(cli "$node" "show sa json" |
    json 'd[0]["client"]["reports_garbled"] + d[0]["client"]["reports_foreign"]')" 0
done
no_complaints

# held_of NODE: prints OpenSM's memberships of a node. It does not ask the nodes.
held_of() { held | grep -F " $(port_gid "$(ca_of "$1")") " || true; }
status=0
node_stop c || status=$?
expect "exit status of node c" "$status" 0
expect "memberships of node c after SIGTERM" "$(held_of c)" ""
expect "subscriptions of node c after SIGTERM" "$(subscriptions c)" ""
expect "left-overs of node c" "$(ls "$LAB_DIR/at-$(ca_of c)")" ""
agreed_within 2 a b
say "node c ended: OpenSM holds nothing of it"

# Node b is no multicast router. A restarted router lists the groups of the subnet and joins those again. The simulator
# carries no RMPP: the answer is one MAD, which holds three records. A router would therefore not know of the
# memberships in other groups that OpenSM keeps from before the kill.
before=$(held_of b)
node_kill b
expect "memberships of node b after SIGKILL" "$(held_of b)" "$before"
begin=$(now_ms)
scenario_node b
wait_for 20 "the link of node b to come up" links_up b
say "node b killed and started again, link up after $(took "$begin")"
agreed_within 10 a b
# Node a still has the queue pair of the killed process. It learns the new one after reachable 4 s + 50 %, probe-delay
# 1 s, and six probes.
reaches() { in_host a ping -q -c 1 -W 0.3 "$(host_address b)"; }
timed 14 "node a reaches node b" reaches

begin=$(now_ms)
for node in a b; do node_stop "$node"; done
say "nodes a and b ended: $(took "$begin")"
expect "memberships after all nodes ended" "$(held)" ""
no_complaints
