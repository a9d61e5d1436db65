#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# FRR's pimd on the mirrors of two nodes, node b is the rendezvous point. A host behind node a sends to a host behind
# node b and the other way round, over the fabric: by PIM-SM with registers, and by the shortest path at its end. The
# nodes forward by the entries that pimd gives to Linux. Hosts join and leave with IGMPv3. Each packet comes once. For
# IPv6, mroute6.py gives entries to Linux.
# shows: P-06, P-17
set -euo pipefail
source "$(dirname "$0")/lib.sh"
# shellcheck source=tests/scenario/linux-lib.sh
source "$(dirname "$0")/linux-lib.sh"

GROUP_TO_B=239.1.1.1
GROUP_TO_A=239.2.2.2
GROUP6=ff15::101
RP=10.0.0.2
LIMIT_MS=2000  # from a leave to the last packet

lab_begin pim
NODES=(a b)
for node in "${NODES[@]}"; do
  scenario_ipv6 "$node"
  linux_mirrors "$node" "multicast-routes = true"
  cat >"$LAB_DIR/$node.frr" <<END
hostname $node
ip pim rp $RP 224.0.0.0/4
ip pim join-prune-interval 5
interface ib0
 ip pim
 ip pim hello 1
interface eth0
 ip pim
 ip pim hello 1
 ip igmp
 ip igmp query-max-response-time 10
 ip igmp query-interval 5
 ip igmp last-member-query-interval 2
END
done
scenario_up "${NODES[@]}"
for node in "${NODES[@]}"; do
  for other in "${NODES[@]}"; do
    [[ $other == "$node" ]] || in_linux "$node" ip route add "192.168.$(number_of "$other").0/24" \
      via "10.0.0.$(number_of "$other")"
  done
  for daemon in zebra pimd; do frr_start "$node" "$daemon"; done
done

neighbours_of() { frr "$1" "show ip pim neighbor json" | json 'sorted(a for i in d.values() for a in i)'; }
has_neighbour() { [[ $(neighbours_of "$1") == "['$2']" ]]; }
# entry_of NODE GROUP SOURCE: prints the incoming and the outgoing interfaces of the node's entry.
entry_of() {
  cli "$1" "show mroute json" |
    json "[(r['in'], r['out']) for r in d if r['group'] == '$2' and r.get('source') == '$3' and r['origin'] == 'linux'][0]"
}
entry_is() { [[ $(entry_of "$1" "$2" "$3" 2>/dev/null) == "$4" ]]; }
no_entry_out() { [[ $(cli "$1" "show mroute json" |
  json "[r['out'] for r in d if r['group'] == '$2' and r['out'] != []]") == "[]" ]]; }

wait_for 30 "node a to hear node b" has_neighbour a 10.0.0.2
wait_for 30 "node b to hear node a" has_neighbour b 10.0.0.1

# receive HOST GROUP SENDER: host SENDER's packets to the group reach the host during two memberships, each once, and
# stop after each leave. The entries are those of Linux, and the last leave prunes the branch.
receive() {
  local host=$1 group=$2 sender=$3 source
  source=$(host_address "$sender")
  flow_begin "$host" "$host" member eth0 "$group" 2 12
  wait_for 30 "node $host to receive on the shortest path" entry_is "$host" "$group" "$source" "('ib0', ['eth0'])"
  wait_for 30 "node $sender to send on the fabric" entry_is "$sender" "$group" "$source" "('eth0', ['ib0'])"
  row "entry of node $host" entry_of "$host" "$group" "$source"
  flow_end "$host" wait
  say "host $host, $group:"
  flow "$host" '"\n".join("  first packet after %d ms, %d received, %d lost, quiet %d ms after the leave" %
    (c["join_ms"], c["packets"], c["lost"], c["stop_ms"]) for c in d)'
  expect "$group: repeated" "$(flow "$host" 'sum(c["repeated"] for c in d)')" 0
  expect "$group: before the join" "$(flow "$host" 'sum(c["idle"] for c in d)')" 0
  expect "$group: lost while a member" "$(flow "$host" 'sum(c["lost"] for c in d)')" 0
  (($(flow "$host" 'max(c["stop_ms"] for c in d)') <= LIMIT_MS)) || fail "$group: not quiet $LIMIT_MS ms after the leave"
  wait_for 60 "node $sender to prune the branch" no_entry_out "$sender" "$group"
}

flow_begin "sender-a" a send eth0 10 "$GROUP_TO_B"
flow_begin "sender-b" b send eth0 10 "$GROUP_TO_A"
receive b "$GROUP_TO_B" a
receive a "$GROUP_TO_A" b
cli a "show mroute"
cli b "show mroute"
flow_end "sender-a"
flow_end "sender-b"

# IPv6 from host a to host b. Linux counts samples of what the nodes forward.
for node in "${NODES[@]}"; do host_ipv6 "$node"; done
wait_for 20 "host a to have an IPv6 address" host_address6 a
source6=$(host_address6 a)
# entry6_begin NODE IN OUT
entry6_begin() {
  in_linux "$1" python3 "$(dirname "$0")/mroute6.py" "$GROUP6" "$source6" "$2" "$3" >"$LAB_DIR/$1.mroute6" &
  LAB_PIDS+=($!)
  wait_for 10 "the daemon of node $1" grep -qs ready "$LAB_DIR/$1.mroute6"
}
counted() { in_linux "$1" ip -s -6 mroute show | sed -nE 's/^ *([0-9]+) packets.*/\1/p'; }
has_counted() { (($(counted "$1") >= $2)); }
entry6_begin b ib0 eth0
wait_for 10 "the entry of node b" entry_is b "$GROUP6" "$source6" "('ib0', ['eth0'])"
flow_begin watch6 b watch eth0 "$GROUP6"
entry6_begin a eth0 ib0
wait_for 10 "the entry of node a" entry_is a "$GROUP6" "$source6" "('eth0', ['ib0'])"
flow_begin sender6 a send eth0 10 "$GROUP6"
for node in "${NODES[@]}"; do wait_for 40 "Linux of node $node to count samples" has_counted "$node" 2; done
flow_end sender6
flow_end watch6
row "$GROUP6" flow watch6 '"%d received, %d lost, %d repeated" % (d["packets"], d["lost"], d["repeated"])'
expect "$GROUP6: repeated" "$(flow watch6 'd["repeated"]')" 0
expect "$GROUP6: lost" "$(flow watch6 'd["lost"]')" 0
(($(counted b) < $(flow watch6 'd["packets"]') / 10)) || fail "Linux gets more than samples: $(counted b)"
