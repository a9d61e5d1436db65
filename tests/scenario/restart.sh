#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node is killed with SIGKILL and started again. The other one reaches it within the neighbour probe time, without a
# restart. The same applies if the killed node has the subnet administrator. A node with a configured QPN is reached by
# its static entry as soon as its link is up.
# shows: U-26 U-39
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# The probe time is reachable 4 s + 50 %, probe-delay 1 s, then three probes and three broadcasts 1 s apart.
PROBE_TIME=14

lab_begin restart
qpn=$((0x4711))
LINK_LINES[c]="qpn = $qpn"
scenario_up a b
ping_all a "$(host_address b)"

reaches() { in_host a ping -q -c 1 -W 0.3 "$(host_address b)"; }
for victim in b a; do
  other=$([[ $victim == a ]] && echo b || echo a)
  pid=${NODE_PID[$other]}
  before=$(link_field "$victim" qpn)
  node_kill "$victim"
  ! reaches >/dev/null || fail "ping answered though node $victim is dead"
  scenario_node "$victim"
  begin=$(date +%s%N)
  wait_for "$PROBE_TIME" "traffic after the restart of node $victim" reaches
  say "node $victim killed and restarted: healed after $((($(date +%s%N) - begin) / 1000000)) ms" \
    "(queue pair $before, then $(link_field "$victim" qpn))"
  kill -0 "$pid" || fail "node $other did not survive"
  ping_all a "$(host_address b)"
  ping_all b "$(host_address a)"
done

# --- Node c comes back with its QPN. Node a has a static entry, so it neither asks nor probes.
entry() { cli a "show neigh json" | json "[(x['state'], x['lladdr'], x['lid'], x['qpn']) for x in d if x['address'] == '10.0.0.3']"; }
scenario_host c
static=$(printf '00:00:%02x:%02x:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:03' $((qpn >> 8)) $((qpn & 255)))
expect "neigh add" "$(cli a "neigh add ib0 10.0.0.3 lladdr $static lid 3")" ""
for start in first second; do
  scenario_node c
  wait_for 20 "the link of node c to come up" link_up c
  expect "QPN of node c" "$(link_field c qpn)" "$qpn"
  row "a to c, after its $start start" ping_all a "$(host_address c)"
  expect "entry of node a" "$(entry)" "[('static', '$static', 3, $qpn)]"
  ! grep -q "the device gave QPN" "$LAB_DIR/c.log" || fail "node c warns of its QPN"
  node_kill c
done
