#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Multicast of IPv4 and IPv6 from a host behind node b to hosts behind nodes a and c. The hosts join and leave with
# their kernels' IGMPv3 and MLDv2, or IGMPv2 and MLDv1, while packets flow. No packet is lost during a membership, and
# none arrives later than LIMIT_MS after the leave. On the fabric a send-only join precedes the first packet.
# shows: U-27, U-29, U-32, U-34
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUPS_SENT=(239.1.1.1 ff15::101)
CYCLES=2
HOLD_S=3
LIMIT_MS=2000  # It usually takes 500 ms, and longer on a busy machine.

lab_begin multicast
lab_fabric "$CABLE_MTU"
for node in a b c; do
  scenario_ipv6 "$node"
  [[ $node == b ]] && continue
  # The node sends two queries, a quarter of a second apart, before it removes a group.
  LINK_LINES[$node]="multicast-router = true"
  PORT_LINES[$node]+=$'\nmulticast-router = true\nlast-member-interval = 0.25'
done
# Node a joins the groups itself, so that they exist on the link. Node c receives them as a multicast router.
LINK_LINES[a]+=$'\ngroups = ["239.1.1.1", "ff15::101"]'
for group in "${GROUPS_SENT[@]}"; do
  NODE_TABLES[b]+=$(multicast_route "$group" eth0 ib0)
done
for node in a b c; do scenario_host "$node"; done
scenario_node a
wait_for 20 "the link of node a to come up" link_up a
capture=$LAB_DIR/fabric.pcap
capture_begin a "$capture"
for node in b c; do scenario_node "$node"; done
for node in b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done
# Host a uses IGMPv3 and MLDv2, host c the previous versions.
in_host c sysctl -qw net.ipv4.conf.eth0.force_igmp_version=2 net.ipv6.conf.eth0.force_mld_version=1
for host in a b c; do host_ipv6 "$host"; done
for host in a b c; do wait_for 20 "host $host to have an IPv6 address" host_address6 "$host"; done

flow_begin sender b send eth0 5 "${GROUPS_SENT[@]}"
for host in a c; do
  for group in "${GROUPS_SENT[@]}"; do
    flow_begin "$host-$group" "$host" member eth0 "$group" "$CYCLES" "$HOLD_S"
  done
done
for host in a c; do
  for group in "${GROUPS_SENT[@]}"; do
    name=$host-$group
    flow_end "$name" wait
    say "host $host, $group:"
    flow "$name" '"\n".join("  first packet after %d ms, %d received, %d lost, quiet %d ms after the leave" %
      (c["join_ms"], c["packets"], c["lost"], c["stop_ms"]) for c in d)'
    expect "$name: lost while a member" "$(flow "$name" 'sum(c["lost"] for c in d)')" 0
    expect "$name: repeated" "$(flow "$name" 'sum(c["repeated"] for c in d)')" 0
    expect "$name: before the join" "$(flow "$name" 'sum(c["idle"] for c in d)')" 0
    (($(flow "$name" 'max(c["stop_ms"] for c in d)') <= LIMIT_MS)) ||
      fail "$name: not quiet $LIMIT_MS ms after the leave"
  done
done
flow_end sender
say "sent to each group: $(flow sender 'd["239.1.1.1"]')"
cli b "show group ib0"
capture_end a

judge() { tshark -r "$capture" "$@" 2>/dev/null; }
# first_frame FILTER: prints the number of the first matching frame, if there is one.
first_frame() { judge -Y "$1" -T fields -e frame.number | sed -n 1p; }
faults=$(judge -Y '_ws.malformed || _ws.expert.severity >= 8388608')
[[ -z $faults ]] || fail "tshark finds fault with: $(head -n 5 <<<"$faults")"
for group in "${GROUPS_SENT[@]}"; do
  mlid=$(cli b "show group ib0 json" |
    json "[g['mlid'] for g in d if g['group'] == '$group'][0]")
  ((mlid >= 0xc000)) || fail "$group has no MLID at node b"
  field=$([[ $group == *:* ]] && echo ipv6.dst || echo ip.dst)
  # This is the answer to node b's Set of an MCMemberRecord with JoinState SendOnlyNonMember.
  joined=$(first_frame "infiniband.mad.method == 0x81 && infiniband.lrh.dlid == 2 &&
    infiniband.mcmemberrecord.mlid == $mlid &&
    infiniband.mcmemberrecord.joinstate == 4")
  packet=$(first_frame "infiniband.lrh.dlid == $mlid && udp.dstport == 5001 && $field == $group")
  [[ -n $joined && -n $packet ]] || fail "$group: no join ($joined) or no packet ($packet)"
  ((joined < packet)) || fail "$group: packet in frame $packet before the join in $joined"
  say "$group: MLID $(printf "0x%04x" "$mlid"), send-only join in frame $joined, first packet in frame $packet"
done
