#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The metrics for Prometheus agree with the CLI: states, histograms, and counters, which clear commands do not reset.
# No number of scrapers and no bad request disturbs the node.
# shows: P-10
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin prometheus

# The worker has its own CPU if there are two, so that the test can see which other threads run on it.
read -r -a CPUS < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')
eal_arguments() {
  echo --no-huge -m 512 --lcores "0@${CPUS[0]},1@${CPUS[1]:-${CPUS[0]}}" --no-pci "--file-prefix=$LAB-$1"
}

# The metrics of filters have a series for each rule.
NODE_TABLES[a]+=$'\n[[filter]]\ndirection = "in"\naction = "accept"\nprotocol = "icmp"\n'

lab_fabric "$CABLE_MTU"
for node in a b; do
  scenario_host "$node"
  scenario_node "$node" --prometheus 127.0.0.1:0
done
for node in a b; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

declare -A PORT=()
for node in a b; do
  PORT[$node]=$(sed -nE 's|.*serving metrics at http://127\.0\.0\.1:([0-9]+)/metrics|\1|p' "$LAB_DIR/$node.log")
  [[ -n ${PORT[$node]} ]] || fail "node $node does not say where its metrics are"
done

# scrape NODE ARGUMENT...: runs scrape.py with these arguments.
scrape() { in_host "$1" "$(dirname "${BASH_SOURCE[0]}")/scrape.py" "${PORT[$1]}" "${@:2}"; }
rx() { scrape a "m('ipoib_interface_receive_packets_total', interface='$1')"; }
shown() { cli a "show $1 json" | json "$2"; }

# --- Counters grow with traffic and agree with the CLI.
before=$(rx eth0)
ping_all a "$(host_address b)"
after=$(rx eth0)
((after >= before + 20)) || fail "20 pings: received $before packets before and $after after them"

# agree WHAT EXPRESSION SHOW JSON-EXPRESSION: the CLI's value must lie between those of a scrape before and one after
# it, because the node may send packets meanwhile.
agree() {
  local before shown after
  before=$(scrape a "$2")
  shown=$(shown "$3" "$4")
  after=$(scrape a "$2")
  ((before <= shown && shown <= after)) || fail "$1: $before scraped, $shown shown, $after scraped"
}
for direction in receive:rx transmit:tx; do
  for unit in packets bytes; do
    for iface in link:ib0 port:eth0; do
      metric=ipoib_interface_${direction%:*}_${unit}_total
      agree "$metric of ${iface#*:}" \
        "m('$metric', interface='${iface#*:}')" "${iface%:*}" "d[0]['${direction#*:}_$unit']"
    done
  done
done
agree "packets of a filter" "m('ipoib_filter_packets_total', rule='1')" filter "d[0]['packets']"
(($(shown filter "d[0]['packets']") >= 20)) || fail "the filter did not count the pings"
agree "packets of the worker" \
  "m('ipoib_worker_receive_packets_total', worker='0')" worker "d[0]['rx_packets']"
agree "sum of the worker's bursts" \
  "m('ipoib_worker_receive_burst_packets_sum', worker='0')" worker "d[0]['rx_packets']"
expect "the link is up" "$(scrape a "m('ipoib_interface_state', interface='ib0', state='up')")" 1
expect "no other state" "$(scrape a "m('ipoib_interface_state', interface='ib0')")" 1
expect "the port of the fabric" "$(scrape a "m('ipoib_hca_state', hca='soft0', state='active')")" 1
expect "routes" "$(scrape a "m('ipoib_routes')")" "$(shown route 'len(d)')"
agree neighbours "m('ipoib_neighbours')" neigh 'len(d)'
agree "SA requests sent" \
  "m('ipoib_sa_client_events_total', event='sent')" sa "d[0]['client']['sent']"
expect "the administrator" "$(scrape a "m('ipoib_sa_administrator')")$(scrape b "m('ipoib_sa_administrator')")" 10
# The busy time is above zero and below the up time.
scrape a "m('ipoib_worker_busy_seconds_total')" >"$LAB_DIR/busy"
expect "a busy time below the up time" \
  "$(scrape a "0 < $(cat "$LAB_DIR/busy") < m('ipoib_uptime_seconds')")" True

# --- Drops appear with their reason.
drops_of() { scrape a "m('ipoib_interface_drops_total', interface='eth0', reason='$1')"; }
expect "drops before" "$(drops_of ip_no_route)" 0
in_host a ping -q -c 3 -i 0.1 -W 1 203.0.113.1 >/dev/null || true
dropped() { (($(drops_of ip_no_route) >= 3)); }
wait_for 10 "three packets without a route" dropped
expect "as many as shown" "$(drops_of ip_no_route)" "$(drops a ip_no_route)"

# --- The clear commands of the CLI do not reset the metrics.
before=$(rx eth0)
lost=$(drops_of ip_no_route)
cli a "clear stats"
expect "drops shown after a clear" "$(drops a ip_no_route)" 0
expect "drops scraped after a clear" "$(drops_of ip_no_route)" "$lost"
(($(rx eth0) >= before)) || fail "received packets fell from $before to $(rx eth0)"
(($(shown port "d[0]['rx_packets']") < before)) || fail "clear stats cleared nothing"
expect "the uncleared bursts" "$(scrape a "m('ipoib_worker_receive_burst_packets_sum') >= $before")" True

# --- Twenty clients scrape at once; others send nothing or read nothing. Traffic passes, and the CLI answers.
scrape a --load 4 >"$LAB_DIR/load" &
LAB_PIDS+=($!)
ping_all a "$(host_address b)"
begin=$(date +%s%N)
cli a "show link json" >/dev/null
took=$((($(date +%s%N) - begin) / 1000000))
((took < 5000)) || fail "the command line took $took ms while the node was scraped"
wait "${LAB_PIDS[-1]}" || fail "clients met something strange"
(($(cat "$LAB_DIR/load") >= 20)) || fail "20 clients had $(cat "$LAB_DIR/load") answers in 4 s"

# --- Garbage that is not HTTP has no effect.
scrape a --garbage
expect "after garbage" "$(scrape a "m('ipoib_up')")" 1

# --- No thread of the endpoint takes signals from the management lcore, or CPU time from a worker.
threads=0
for status in /proc/"${NODE_PID[a]}"/task/*/status; do
  blocked=$(awk '/^SigBlk/ { print $2 }' "$status")
  ((0x$blocked & 0x4002)) || fail "$(head -n 1 "$status") has SIGINT and SIGTERM: $blocked"
  [[ $(head -n 1 "$status") == *civetweb* || $(head -n 1 "$status") == *ipoib-http* ]] || continue
  ((++threads))
  allowed=$(awk '/^Cpus_allowed_list/ { print $2 }' "$status")
  ((${#CPUS[@]} < 2)) || [[ $allowed != "${CPUS[1]}" ]] || fail "$(head -n 1 "$status") runs where the worker does"
  python3 - "$allowed" "${CPUS[1]:-none}" <<'PY' || fail "$(head -n 1 "$status") may run on the worker's CPU: $allowed"
import sys
allowed, worker = sys.argv[1:]
cpus = set()
for part in allowed.split(","):
    first, _, last = part.partition("-")
    cpus.update(range(int(first), int(last or first) + 1))
sys.exit(worker != "none" and int(worker) in cpus)
PY
done
((threads > 0)) || fail "there is no thread that serves metrics"

# --- A node does not start with an unusable address for the endpoint.
refused() {
  local text=$1
  shift
  if in_host a "$IPOIB_BUILD/app/dpdk-ipoib" --no-huge -m 192 --no-pci --no-shconf --no-telemetry --vdev=net_null0 \
    -l "${CPUS[0]},${CPUS[1]:-${CPUS[0]}}" -- --set port.eth0.device=net_null0 --set worker.total-num-mbufs=8192 \
    "$@" </dev/null >"$LAB_DIR/refused.log" 2>&1; then
    fail "a node started with $*"
  fi
  expect_text "$*" "$(cat "$LAB_DIR/refused.log")" "$text"
}
refused 'invalid value "localhost:9400", allowed: ADDRESS:PORT' --prometheus localhost:9400
((${#CPUS[@]} < 2)) ||
  refused "--prometheus 127.0.0.1:${PORT[a]}: .*in use" --prometheus "127.0.0.1:${PORT[a]}"

# --- The dashboard uses only existing metrics.
scrape a --dashboard "$IPOIB_ROOT/config/grafana-ipoib.json"

# --- The node ends in order during scrapes.
scrape a --load 20 >/dev/null &
LAB_PIDS+=($!)
# The load has begun when the endpoint has answered more scrapes than those of this script.
answered() { (($(scrape a "m('exposer_scrapes_total')") > $1)); }
wait_for 10 "the clients to be at work" answered "$(($(scrape a "m('exposer_scrapes_total')") + 20))"
begin=$SECONDS
node_stop a || fail "node a ended with status $? while it was scraped"
((SECONDS - begin <= 12)) || fail "node a took $((SECONDS - begin)) s to end"
