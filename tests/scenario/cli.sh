#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests the CLI. It stops and starts forwarding and clears counters; the answer to a wrong command names the expected
# words. Several clients use the socket at a time, some of them badly. Commands also come from a terminal and a file.
# shows: P-08
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin cli
PORT_ADDRESSES[a]='"10.64.0.1/16"'
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

# Several clients work at once, and each gets its own answers.
pids=()
for client in 1 2 3 4; do
  for _ in 1 2 3 4 5; do cli a "show link json"; done | grep -c '"ib0"' >"$LAB_DIR/client$client" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "a client got no answer"; done
expect "answers to the clients" "$(sort -u "$LAB_DIR"/client?)" "$(cat "$LAB_DIR/client1")"

# Some clients request long lists and do not read them, send garbage, or connect in large numbers. The node must
# continue, and others must get their answers.
flow_begin steady a send eth0 10 "$(host_address b)"
clients=$(python3 "$(dirname "$0")/cli_clients.py" "$LAB_DIR/a.sock" 5000 2000 eth0 10.64.0.0/16) ||
  fail "clients: $clients"
flow_end steady
say "clients: $clients"
(($(json 'd["rows"]' <<<"$clients") >= 5000)) || fail "not every neighbour is listed"
(($(json 'd["routes"]' <<<"$clients") >= 2000)) || fail "not every route is listed"
(($(json 'd["refused"]' <<<"$clients") > 900)) || fail "a thousand clients at a time"
expect "clients served and refused" "$(json 'd["served"] + d["refused"]' <<<"$clients")" 1000
expect "an answer in 2 s while others do not read" "$(json 'd["slow_ms"] < 2000' <<<"$clients")" True
ping_all a "$(host_address b)"

# Commands come from a terminal, and from a file. The error names the faulty line of the file.
cat >"$LAB_DIR/commands" <<'END'
# comment
set burst 16
set bogus 1
show config rxtx json
END
read -r -d '' -a eal < <(eal_arguments terminal) || true
alone=("$IPOIB_BUILD/app/dpdk-ipoib" "${eal[@]}" --vdev=net_null0 --log-level=ipoib.sa:debug --
  --set port.eth0.device=net_null0 --idle-policy sleep)
python3 "$(dirname "$0")/terminal.py" "${alone[@]}" -i || fail "the terminal"
printf 'show fwd json\nquit\n' |
  "${alone[@]}" -i --stats-period 1 --cmdline-file "$LAB_DIR/commands" >"$LAB_DIR/terminal.out" 2>&1 ||
  fail "commands from a pipe: $(cat "$LAB_DIR/terminal.out")"
expect_text "the faulty line" "$(cat "$LAB_DIR/terminal.out")" \
  "^$LAB_DIR/commands:3: error: at word 2 \"bogus\": expected one of "
expect_text "the line behind it" "$(cat "$LAB_DIR/terminal.out")" '"burst":16'
expect_text "the pipe" "$(cat "$LAB_DIR/terminal.out")" '"mode":"route"'

# The command quit ends the program.
cli a quit >/dev/null || true
wait_for 15 "node a to quit" process_gone "${NODE_PID[a]}"
