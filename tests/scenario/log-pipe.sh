#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The log and the periodic statistics of node a go to a pipe that nothing reads, as that of a stopped log collector. The
# node keeps forwarding, answering pings and its CLI; it counts the lines that are lost, says so in the log when the
# pipe is read again, and starts and ends while it is not.
# shows: P-16
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin log-pipe
mkfifo "$LAB_DIR/pipe"
node_exec() {
  local space
  space=$(node_space "$1")
  [[ $1 != a ]] || exec >"$LAB_DIR/pipe" 2>&1
  shift
  exec ip netns exec "$space" "$@"
}

# A pipe takes 64 KiB; one of a page is full sooner. This process has it open, and does not read.
exec {pipe}<>"$LAB_DIR/pipe"
python3 -c "import fcntl, sys; fcntl.fcntl(int(sys.argv[1]), 1031, 4096)" "$pipe"
lab_fabric "$CABLE_MTU"
for node in a b; do scenario_host "$node"; done
scenario_start a --prometheus 127.0.0.1:0 --stats-period 1
scenario_start b
# The start logs more than a page.
cat <&"$pipe" >"$LAB_DIR/a.log" &
reader=$!
LAB_PIDS+=("$reader")
for node in a b; do
  node_ready "$node"
  wait_for 20 "the link of node $node to come up" link_up "$node"
done
port=$(sed -nE 's|.*serving metrics at http://127\.0\.0\.1:([0-9]+)/metrics|\1|p' "$LAB_DIR/a.log")
kill "$reader"
wait "$reader" || true

lost() { cli a "show management json" | json 'd["log_lines_lost"]'; }
metric() { in_host a "$(dirname "${BASH_SOURCE[0]}")/scrape.py" "$port" "m('ipoib_log_lines_lost_total')"; }
expect "lost lines while the pipe was read" "$(lost)" 0

# Each command is a line of the log. 10,000 lines are more than a pipe of a page and the queue hold.
many() { for ((i = 0; i < $1; ++i)); do echo "clear latency"; done; }
many 10000 | cli a >/dev/null
(($(lost) > 0)) || fail "10,000 lines were logged and none is lost"
row "lines lost" lost
expect "the metric" "$(metric)" "$(lost)"
ping_all a "$(host_address b)"
ping_all b "$(host_address a)"
link_up a || fail "the link of node a is down"

# --- The pipe is read again.
lost_then=$(lost)
cat <&"$pipe" >>"$LAB_DIR/a.log" &
reader=$!
LAB_PIDS+=("$reader")
wait_for 10 "the log to name the loss" grep -q "$lost_then log lines were lost" "$LAB_DIR/a.log"
wait_for 10 "standard output to name its loss" grep -qE "[0-9]+ lines of output were lost" "$LAB_DIR/a.log"
cli a "neigh flush all"
wait_for 10 "the line of a command after it" grep -q 'command from .*"neigh flush all"' "$LAB_DIR/a.log"
expect "lost lines" "$(lost)" "$lost_then"

# --- It stops again: the node ends in order, without its last lines.
kill "$reader"
wait "$reader" || true
many 10000 | cli a >/dev/null
node_stop a || fail "node a ended with status $?"

# --- The node starts while the pipe is full.
scenario_node a --stats-period 1
wait_for 20 "the link of node a to come up" link_up a
(($(lost) > 0)) || fail "the lines of the start were lost and are not counted"
ping_all a "$(host_address b)"
