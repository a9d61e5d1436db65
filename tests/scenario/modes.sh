#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Forward modes with two nodes. One generates packets, the other counts them, and every packet is accounted for. One
# measures the latency, the other returns its packets. A worker answers a host's ping.
# shows: P-09
set -euo pipefail
source "$(dirname "$0")/lib.sh"

fwd() { cli "$1" "show fwd json" | json "d['$2']"; }
# lost NODE: prints the packets of the link that were counted as lost. Packets that hosts and nodes send by themselves are
# not counted, nor frames that the bridge floods to other ports than the destination's.
lost() {
  cli "$1" "show drops json" | json "sum(x['packets'] for x in d
    if x['where'] not in ('eth0', 'node') and x['reason'] not in ('ib_lid', 'ip_multicast', 'group_absent'))"
}
generated_all() { (($(fwd a generated) >= $1)); }
accounted() { (($(fwd a generated) == $(fwd b consumed) + $(lost a) + $(lost b))); }
latency() { cli a "show latency json" | json "d['$1']"; }
came_back() { (($(latency received) >= $1)); }
# order NODE COMMAND: runs a command that must succeed and print nothing.
order() {
  local answer
  answer=$(cli "$@") || fail "$*: $answer"
  [[ -z $answer ]] || fail "$*: $answer"
}

lab_begin modes
NODES=(a b)
scenario_up "${NODES[@]}"

order b "set fwd rxonly"
order a "set tx-ip 10.0.0.1,10.0.0.2"
order a "set rate 1000 pps"
order a "set txpkts imix"
order a "set fwd txonly"
# Packets wait until the neighbour is resolved.
wait_for 20 "the first packets to be made" generated_all 200
cli a stop >/dev/null
wait_for 10 "all of them to be accounted for" accounted
for node in a b; do order "$node" "clear stats"; done
cli a start >/dev/null
wait_for 20 "3,000 packets to be made" generated_all 3000
cli a stop >/dev/null
wait_for 10 "every packet made to be consumed or counted as lost" accounted
consumed=$(fwd b consumed)
((consumed > 2900)) || fail "of $(fwd a generated) packets $consumed arrived"
row "txonly to rxonly" echo \
  "$(fwd a generated) made, $consumed consumed, $(($(lost a) + $(lost b))) counted as lost"
expect_text "show fwd stats" "$(cli b "show fwd stats all")" "RX-total: [1-9]"
expect_text "show port stats" "$(cli a "show port stats ib0")" "TX-packets: [1-9]"

order b "set fwd addrswap"
order a "set fwd latency"
order a "clear latency"
cli a start >/dev/null
wait_for 20 "500 packets to come back" came_back 500
cli a stop >/dev/null
report=$(cli a "show latency")
for number in p50_ns p90_ns p99_ns p99.9_ns max_ns; do
  expect_text "show latency" "$report" "$number +[1-9]"
done
expect "packets that came twice" "$(latency duplicates)" 0
(($(latency p50_ns) <= $(latency p99_ns))) || fail "percentiles: $report"
row "latency against addrswap" echo \
  "p50 $(latency p50_ns) ns, p99 $(latency p99_ns) ns, lost $(latency lost)"

# No interface has this address. Only a worker in mode icmpecho answers for it.
cli a start >/dev/null
order a "set fwd icmpecho"
row "icmpecho answers ping" ping_all a 203.0.113.9
for node in "${NODES[@]}"; do
  expect "the link of node $node" "$(link_field "$node" state)" up
done
