#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The packet trace: the path of ping through both nodes, a packet whose TTL expires, a packet that waits for its
# neighbour, and the end of a trace by its limit, by trace stop and by clear trace.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin trace
scenario_up a b
ping_all a "$(host_address b)"

# state NODE: prints the state of the trace and the number of its packets.
state() { cli "$1" "show trace json" | json 'd["state"] + " " + str(d["recorded"])'; }
# has NODE RECORDED: true if the trace has that many packets.
has() { [[ $(state "$1") == *" $2" ]]; }

expect "no trace yet" "$(cli a "show trace")" "no trace"
for wrong in "trace start 0" "trace start 1001" "trace start 5 in eth9" "trace start 5 src 10.0.0.1/8" \
  "trace start 5 src 10.0.0.1 dst fd00::1" "trace stop"; do
  answer=$(cli a "$wrong") && fail "no error for '$wrong': $answer"
  expect_text "'$wrong'" "$answer" '^error: '
done

cli a "trace start 4 in eth0 dst 192.168.2.0/24 proto icmp"
cli b "trace start 4 in ib0 dst $(host_address b)"
ping_all a "$(host_address b)"
wait_for 5 "the trace of node a to end" has a 4
wait_for 5 "the trace of node b to end" has b 4
shown=$(cli a "show trace")
say "$shown"
expect_text "head" "$shown" '^trace complete: 4 of 4 packets, in eth0 dst 192\.168\.2\.0/24 proto 1$'
for line in "1: [0-9.]+ s, worker 0 \(lcore [0-9]+\), in eth0" "192\.168\.1\.2 > 192\.168\.2\.2, icmp 8/0, 84 octets, TTL 64" \
  "- eth_input" "- ip4_input" "- ip4_route: 192\.168\.2\.0/24, through a gateway on ib0" \
  "- neighbour 10\.0\.0\.2 on ib0: valid, UD, LID 2, QPN 0x[0-9a-f]{6}" "- sent on ib0 by UD"; do
  expect_text "path through node a" "$shown" "^ *$line\$"
done
shown=$(cli b "show trace")
for line in "ipoib_input: by UD" "ip4_route: 192\.168\.2\.0/24, connected to eth0" \
  "neighbour 192\.168\.2\.2 on eth0: valid, MAC [0-9a-f:]{17}" "sent on eth0 by ethernet"; do
  expect_text "path through node b" "$shown" "^ *- $line\$"
done

# Only the dropped packet is recorded.
cli a "trace start 1 drop"
ping_all a "$(host_address b)"
expect "trace that waits for a drop" "$(state a)" "running 0"
in_host a ping -n -c 1 -W 2 -t 1 "$(host_address b)" >/dev/null 2>&1 && fail "an echo reply to a packet with TTL 1"
wait_for 5 "the drop to be recorded" has a 1
shown=$(cli a "show trace")
say "$shown"
expect_text "TTL 1" "$shown" ' octets, TTL 1$'
expect_text "TTL 1" "$shown" '^ *- dropped: ip_ttl_exceeded$'
expect_text "TTL 1" "$shown" '^ *- punted: ICMP error 11/0 to the sender$'
expect "verdict" "$(cli a "show trace json" | json 'd["packets"][0]["verdict"]')" "dropped (ip_ttl_exceeded)"

cli a "trace start 10 in eth0 dst 10.0.0.77"
in_host a ping -n -c 1 -W 1 10.0.0.77 >/dev/null 2>&1 && fail "an absent host answers"
wait_for 5 "the packet without a neighbour to be recorded" has a 1
cli a "trace stop"
shown=$(cli a "show trace")
expect_text "absent host" "$shown" '^trace stopped: 1 of 10 packets'
expect_text "absent host" "$shown" '^ *- held until 10\.0\.0\.77 on ib0 is resolved$'
answer=$(cli a "trace stop") && fail "a trace ended twice: $answer"
cli a "clear trace"
expect "trace after clear trace" "$(cli a "show trace")" "no trace"
