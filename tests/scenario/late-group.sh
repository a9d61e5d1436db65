#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A sender starts before its group exists. Its packets are dropped and counted. Once there is a listener, they arrive
# without any restart, and they stop when the group ends. This happens twice. Then both nodes join and leave the group
# many times a second, and every packet leaves by the address handle that it was sent with.
# shows: U-28, U-30, U-31
set -euo pipefail
source "$(dirname "$0")/lib.sh"

GROUP=239.1.1.1

lab_begin lategroup
lab_fabric "$CABLE_MTU"
for node in a b; do
  scenario_host "$node"
  # The link has no IPv4. With it, routers would have created the all-routers group, which receives packets to groups
  # that do not exist.
  sed -i "s|\"10.0.0.$(number_of "$node")/24\"|\"fd00::$(number_of "$node")/64\"|; /^\[\[route/,\$d" \
    "$LAB_DIR/$node.toml"
done
multicast_route "$GROUP" eth0 ib0 >>"$LAB_DIR/a.toml"
multicast_route "$GROUP" ib0 eth0 >>"$LAB_DIR/b.toml"
for node in a b; do scenario_node "$node"; done
for node in a b; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

absent() { drops a group_absent; }
more_absent() { (($(absent) >= base + 100)); }
state() { cli a "show group ib0 json" | json "[g['state'] for g in d if g['group'] == '$GROUP'][0]"; }
queries() { cli a "show sa json" | json 'd[0]["client"]["sent"]'; }

asked=$(queries)
flow_begin sender a send eth0 5 "$GROUP"
for time in first second; do
  flow_begin watch b watch eth0 "$GROUP"
  base=$(absent)
  wait_for 10 "100 packets dropped as group_absent" more_absent
  say "before: $(($(absent) - base)) packets dropped as group_absent, group $(state)," \
    "$(($(queries) - asked)) queries"
  (($(queries) - asked <= 10)) || fail "$(($(queries) - asked)) queries for packets to an absent group"

  begin=$(date +%s.%N)
  expect "group join" "$(cli b "group join ib0 $GROUP")" ""
  wait_for 5 "packets to arrive after the $time join" grep -q arrived "$LAB_DIR/watch.error"
  expect "state of the group at the sender" "$(state)" send-only
  base=$(absent)
  sleep 1  # The flow is undisturbed for a second.
  # The node's own reports to a group of routers, which does not exist here, count as well.
  (($(absent) - base < 10)) || fail "group_absent while the group is there: $(($(absent) - base)) packets of 200"
  flow_end watch
  expect "lost once delivered" "$(flow watch 'd["lost"]')" 0
  say "delivered $(flow watch "round(1000 * (d['first_at'] - $begin))") ms after node b listens:" \
    "$(flow watch 'd["packets"]') packets, $(flow watch 'd["lost"]') lost"
  expect "group leave" "$(cli b "group leave ib0 $GROUP")" ""
  base=$(absent)
  asked=$(queries)
  wait_for 10 "packets to be dropped again" more_absent
done
flow_end sender

# joins_and_leaves NODE: the node joins and leaves the group a hundred times.
joins_and_leaves() {
  local i
  for ((i = 0; i < 100; ++i)); do
    printf 'group join ib0 %s\n' "$GROUP"
    sleep 0.01
    printf 'group leave ib0 %s\n' "$GROUP"
    sleep 0.01
  done | cli "$1" >"$LAB_DIR/$1.changes"
}
asked=$(queries)
flow_begin sender a send eth0 1 "$GROUP"
joins_and_leaves a &
changes_a=$!
joins_and_leaves b
wait "$changes_a"
flow_end sender
for node in a b; do
  expect "answers of node $node" "$(<"$LAB_DIR/$node.changes")" ""
  expect "packets of node $node without an address handle" "$(drops "$node" ib_tx_invalid)" 0
done
say "$(flow sender "d['$GROUP']") packets while the nodes joined and left: $(($(queries) - asked)) requests of node a"
(($(queries) - asked > 100)) || fail "the groups hardly changed"
