#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node as a service. It reports READY when its CLI answers, a status line, and STOPPING; it notifies the watchdog only
# while it runs; its exit status is 0. Its log lines for the journal have priorities and are written once. The service
# manager is a socket of this script.
# shows: P-12
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin service
NODES=(a)
lab_fabric "$CABLE_MTU"
scenario_host a

# listen NAME SOCKET: writes the datagrams at SOCKET to $LAB_DIR/NAME. Listens in the node's network namespace, because
# abstract names belong to a network namespace.
listen() {
  ip netns exec "$LAB-a" "$IPOIB_ROOT/tests/scenario/notify_socket.py" "$2" \
    </dev/null >"$LAB_DIR/$1" 2>"$LAB_DIR/$1.error" &
  LAB_PIDS+=($!)
  wait_for 10 "the listener of $1" grep -qs listening "$LAB_DIR/$1.error"
}
heard() { grep -qE -- "^[0-9.]+ $2" "$LAB_DIR/$1"; }
count() { grep -cE -- "^[0-9.]+ $2" "$LAB_DIR/$1" || true; }
fed() { (($(count path WATCHDOG=1) >= $1)); }
stands_still() { [[ $(ps -o state= -p "${NODE_PID[a]}") == T* ]]; }

# Nodes of this script have their own /dev, whose log is the socket "syslog" of the lab.
node_exec() {
  local space
  space=$(node_space "$1")
  shift
  # shellcheck disable=SC2016
  exec ip netns exec "$space" bash -c 'set -e
    dev=$0/dev
    mkdir -p "$dev"
    mount -t tmpfs dev "$dev"
    for node in null zero random urandom; do
      touch "$dev/$node"
      mount --bind "/dev/$node" "$dev/$node"
    done
    ln -s "$0/syslog" "$dev/log"
    mount --rbind "$dev" /dev
    exec "$@"' "$LAB_DIR" "$@"
}
listen syslog.txt "$LAB_DIR/syslog"

say "a manager at a path; standard error is the journal"
listen path "$LAB_DIR/notify"
: >"$LAB_DIR/a.log"
export NOTIFY_SOCKET=$LAB_DIR/notify WATCHDOG_USEC=2000000
JOURNAL_STREAM=$(stat -c %d:%i "$LAB_DIR/a.log")
export JOURNAL_STREAM
scenario_start a
wait_for 60 "READY" heard path 'READY=1\|STATUS=[01] of 1 links up, [01] of 1 ports up'
cli a "show link json" >/dev/null || fail "the node is ready and does not answer"
heard path 'STATUS=initialising' || fail "nothing was said while it started"
wait_for 20 "the status to tell of the link" heard path '.*STATUS=1 of 1 links up, 1 of 1 ports up$'

# The watchdog is notified once a second. The first and the sixth notification are at least five periods apart.
wait_for 60 "the watchdog to be fed" fed 6
# shellcheck disable=SC2016
row "feeding the watchdog" awk '$2 == "WATCHDOG=1" { at[n++] = $1 }
  END { took = at[5] - at[0]; printf "5 periods in %.1f s\n", took; exit !(took > 4.5) }' "$LAB_DIR/path"

kill -STOP "${NODE_PID[a]}"
wait_for 5 "the node to stand still" stands_still
before=$(count path WATCHDOG=1)
sleep 3  # This is longer than the watchdog's time of 2 s.
expect "feedings while the node stood still" "$(count path WATCHDOG=1)" "$before"
kill -CONT "${NODE_PID[a]}"
wait_for 20 "the watchdog to be fed again" fed $((before + 1))

cli a "link down ib0" >/dev/null
wait_for 20 "the status to tell that the link is down" heard path 'STATUS=0 of 1 links up, .*; ib0 '
cli a "stop" >/dev/null
wait_for 20 "the status to tell of forwarding" heard path 'STATUS=.*forwarding stopped'

status=0
node_stop a || status=$?
expect "exit status after SIGTERM" "$status" 0
expect "READY" "$(count path READY=1)" 1
expect "STOPPING" "$(count path 'STOPPING=1\|STATUS=')" 1
expect "what came last" "$(tail -n 1 "$LAB_DIR/path" | cut -d' ' -f2- | grep -c -e STOPPING -e WATCHDOG)" 1

expect_text "the log" "$(cat "$LAB_DIR/a.log")" '^<5>ipoib\.mgmt: the node is leaving its multicast groups'
expect_text "the log" "$(cat "$LAB_DIR/a.log")" '^<6>EAL: '
grep -qvE '^<[0-7]>' "$LAB_DIR/a.log" && fail "lines without priority: $(grep -vE '^<[0-7]>' "$LAB_DIR/a.log")"
expect "lines in syslog beside the journal" "$(wc -l <"$LAB_DIR/syslog.txt")" 0

say "faults of the configuration"
status=0
node_start a "$LAB_DIR/a.toml" -- --set link.ib0.pkey=0x8009 --set worker.burst=0
wait "${NODE_PID[a]}" || status=$?
unset 'NODE_PID[a]'
expect "exit status" "$status" 78
expect_text "the log" "$(cat "$LAB_DIR/a.log")" '^<3>.*pkey'
heard path 'STATUS=invalid configuration' || fail "the status does not tell of faults"
expect "READY" "$(count path READY=1)" 1

say "faults of the options, which a restart does not mend, and of the machine, which it may"
# exit_status EAL_ARGUMENT... -- APPLICATION_ARGUMENT...: prints the exit status of a node that does not start.
exit_status() {
  local status=0
  ip netns exec "$LAB-a" "$IPOIB_BUILD/app/dpdk-ipoib" --no-pci --no-telemetry --file-prefix="$LAB-x" "$@" \
    </dev/null >"$LAB_DIR/x.log" 2>&1 || status=$?
  echo "$status"
}
good=(--config "$LAB_DIR/a.toml")
expect "unknown EAL argument" "$(exit_status --no-such-argument -- "${good[@]}")" 78
expect "unknown option" "$(exit_status -- --no-such-option "${good[@]}")" 78
expect "no such configuration" "$(exit_status -- --config /nonexistent)" 78
expect "more memory than there is" "$(exit_status --no-huge -m 100000000 -- "${good[@]}")" 1

say "a manager at an abstract name; no journal"
NOTIFY_SOCKET=@ipoib-service-$$
listen abstract "$NOTIFY_SOCKET"
unset JOURNAL_STREAM WATCHDOG_USEC
: >"$LAB_DIR/a.log"
scenario_start a
wait_for 60 "READY" heard abstract 'READY=1\|STATUS='
status=0
cli a "quit" >/dev/null
wait "${NODE_PID[a]}" || status=$?
unset 'NODE_PID[a]'
expect "exit status after quit" "$status" 0
expect "STOPPING" "$(count abstract 'STOPPING=1\|STATUS=')" 1
expect "the watchdog nobody asked for" "$(count abstract WATCHDOG=1)" 0
expect_text "the log" "$(cat "$LAB_DIR/a.log")" '^ipoib\.mgmt: the node is leaving its multicast groups'
# This proves that syslog lines reach this script, so that their absence above means something.
(($(wc -l <"$LAB_DIR/syslog.txt") > 0)) || fail "syslog got nothing from a node without a journal"
