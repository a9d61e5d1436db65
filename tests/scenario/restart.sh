#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node is killed with SIGKILL and started again. The other one reaches it within the neighbour probe time, without a
# restart. The same applies if the killed node has the subnet administrator.
# shows: U-26
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# The probe time is reachable 4 s + 50 %, probe-delay 1 s, then three probes and three broadcasts 1 s apart.
PROBE_TIME=14

lab_begin restart
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
