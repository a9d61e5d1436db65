#!/usr/bin/env bash
# The command line over its socket: forwarding stopped and started, counters cleared, wrong commands
# answered with what was expected, several clients at a time.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin cli
scenario_up a b
ping_all a "$(host_address b)"

cli a stop
in_host a ping -q -c 3 -i 0.2 -W 0.5 "$(host_address b)" >/dev/null && fail "stopped, yet it forwards"
(($(drops a forwarding_stopped) > 0)) || fail "packets lost while stopped are not counted"
cli a start
ping_all a "$(host_address b)"

cli a "clear stats"
expect "drops after clear stats" "$(drops a forwarding_stopped)" 0
for command in "show" "show nonsense" "bogus" "neigh add" "route add 1.2.3.4/99 via 10.0.0.2"; do
  answer=$(cli a "$command") && fail "no error for the wrong command '$command': $answer"
  expect_text "'$command'" "$answer" '^error: '
  say "$command: $answer"
done
answer=$(cli a "show nonsense") || true
expect_text "show nonsense" "$answer" 'word 2 .*link.*neigh'
for what in link neigh port hca route drops config worker sa; do
  cli a "show $what" >/dev/null
  cli a "show $what json" | json 'len(d)' >/dev/null || fail "show $what json is not JSON"
done
expect_text "help" "$(cli a help)" 'show'

# Many clients at once, each with its own answer.
pids=()
for client in 1 2 3 4; do
  for _ in 1 2 3 4 5; do cli a "show link json"; done | grep -c '"ib0"' >"$LAB_DIR/client$client" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "a client got no answer"; done
expect "answers to the clients" "$(sort -u "$LAB_DIR"/client?)" "$(cat "$LAB_DIR/client1")"

# A program's end by its own command.
cli a quit >/dev/null || true
wait_for 15 "node a to quit" process_gone "${NODE_PID[a]}"
