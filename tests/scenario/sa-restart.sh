#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The node with the subnet administrator is killed and started again under traffic of two others. No packet of their
# unicast flows is lost, the new administrator has their memberships again, and multicast continues.
# shows: U-20, U-30, U-35
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1

lab_begin sarestart
NODE_TABLES[b]=$(multicast_route "$GROUP" eth0 ib0)
NODE_TABLES[c]=$(multicast_route "$GROUP" ib0 eth0)
LINK_LINES[c]="groups = [\"$GROUP\"]"
scenario_up a b c
ping_all b "$(host_address c)" >/dev/null

flow_begin at-c c watch eth0 "$(host_address c)"
flow_begin at-b b watch eth0 "$(host_address b)"
flow_begin group c watch eth0 "$GROUP"
flow_begin from-b b send eth0 5 "$(host_address c)" "$GROUP"
flow_begin from-c c send eth0 5 "$(host_address b)"
for name in at-b at-c group; do
  wait_for 10 "flow $name to arrive" grep -q arrived "$LAB_DIR/$name.error"
done

gid() { link_field "$1" gid; }
# of_b_and_c: prints the memberships of nodes b and c at the administrator, with group, port and join state.
of_b_and_c() {
  cli a "show sa json" | json "json.dumps(sorted((g['mgid'], m['port_gid'],
    m['join_state']) for g in d[0]['groups'] for m in g['members']
    if m['port_gid'] in ('$gid_b', '$gid_c')))"
}
gid_b=$(gid b) gid_c=$(gid c)
before=$(of_b_and_c)
expect_text "memberships before" "$before" "$gid_c"

node_kill a
sleep 3  # Traffic flows without an administrator.
scenario_node a
wait_for 20 "the link of node a to come up" link_up a
expect_text "log" "$(cat "$LAB_DIR/a.log")" 'hca soft0: the subnet administrator knows no ports yet; it waits for'
# The nodes notice by themselves that the administrator is new, or it requests that they register again.
begin=$(date +%s%N)
back() { of_b_and_c | json "all(m in d for m in $before) or exit(1)"; }
wait_for 5 "memberships of nodes b and c at the new administrator" back
say "$(of_b_and_c | json 'len(d)') memberships of nodes b and c back" \
  "$((($(date +%s%N) - begin) / 1000000)) ms after its link was up"
flow_begin again c watch eth0 "$GROUP"
wait_for 5 "multicast to go on" grep -q arrived "$LAB_DIR/again.error"
ping_all b "$(host_address a)"
ping_all a "$(host_address c)"

for name in from-b from-c; do flow_end "$name"; done
drained() { in_host b ping -q -c 1 -W 1 "$(host_address c)"; }
wait_for 5 "the last packets" drained
for name in at-b at-c group again; do flow_end "$name"; done
# arrived NAME SENDER ADDRESS: every packet must have arrived exactly once.
arrived() {
  expect "$1: received" "$(flow "$1" 'd["packets"]')" "$(flow "$2" "d['$3']")"
  expect "$1: lost" "$(flow "$1" 'd["lost"]')" 0
  say "$1: $(flow "$1" 'd["packets"]') packets, none lost, longest gap $(flow "$1" 'd["longest_gap_ms"]') ms"
}
arrived at-c from-b "$(host_address c)"
arrived at-b from-c "$(host_address b)"
say "multicast: $(flow group 'd["packets"]') packets, $(flow group 'd["lost"]') lost," \
  "longest gap $(flow group 'd["longest_gap_ms"]') ms"
expect "multicast lost afterwards" "$(flow again 'd["lost"]')" 0
