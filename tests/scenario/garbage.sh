#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Garbled, truncated and contradictory frames and MADs change only counters, while the hosts' traffic flows.
# shows: U-36, P-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin garbage
scenario_up a b
ping_all a "$(host_address b)"
before=$(all_drops a)
steady() {
  cli "$1" "show link json" |
    json '[(x["state"], x["qpn"], x["mtu"], x["qkey"], x["broadcast_mlid"]) for x in d]'
}
link_before=$(steady a)$(steady b)

in_host a ping -q -i 0.02 -c 400 -W 5 "$(host_address b)" >"$LAB_DIR/ping" &
pinger=$!
LAB_PIDS+=("$pinger")
sent=$(in_host fabric python3 "$(dirname "$0")/send_garbage.py" br0 1 "$(link_field a qpn)")
wait "$pinger" || fail "traffic stopped: $(cat "$LAB_DIR/ping")"
grep -q ' 0% packet loss' "$LAB_DIR/ping" || fail "traffic suffered: $(cat "$LAB_DIR/ping")"

expect "links after $sent bad frames" "$(steady a)$(steady b)" "$link_before"
after=$(all_drops a)
((after - before >= sent / 4)) || fail "$sent bad frames, but only $((after - before)) counted"
for reason in ib_runt ib_version ib_length ib_lid ib_opcode ib_qpn ib_pkey ib_qkey ib_icrc; do
  (($(drops a $reason) > 0)) || fail "no frame counted as $reason"
done
say "$sent bad frames; node a counted $((after - before))"
ping_all b "$(host_address a)"
