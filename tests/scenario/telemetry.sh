#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# DPDK's telemetry socket, read with DPDK's own dpdk-telemetry.py, agrees with `show ... json`.
# shows: P-10
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin telemetry
scenario_up a b
ping_all a "$(host_address b)"

ask() { dpdk-telemetry.py -f "$LAB-a" <<<"$1"; }
# value COMMAND[,PARAMETERS] EXPRESSION: evaluates an expression over the answer d to the command.
value() { ask "$1" | json "(lambda d: ($2))(d['${1%%,*}'])"; }

# Readers of telemetry rely on these fields of a link.
LINK_FIELDS="name state reason hca lid gid qpn pkey qkey mtu mode dialect broadcast_mgid broadcast_mlid addresses
  rx_packets tx_packets rx_bytes tx_bytes drops"
expect "/ipoib/links" "$(value /ipoib/links d)" "['ib0']"
expect "missing fields of a link" "$(value /ipoib/link,ib0 "set('''$LINK_FIELDS'''.split()) - set(d)")" "set()"
expect "state of the link" "$(value /ipoib/link,ib0 "d['state']")" up
expect "addresses of the link" "$(value /ipoib/link,ib0 "d['addresses']")" "['10.0.0.1/24']"
(($(value /ipoib/link,ib0 "d['tx_packets']") >= 20)) || fail "tx_packets below 20"
expect_text "/ipoib/neighbours" "$(ask /ipoib/neighbours,ib0)" '10\.0\.0\.2'
expect "/ipoib/ports" "$(value /ipoib/ports d)" "['eth0']"
expect "an unknown link" "$(value /ipoib/link,ib7 d)" None
expect "an unknown port" "$(value /ipoib/port,ib0 d)" None

# Every show command has a telemetry command. Its keys consist of letters, digits and underscores.
COMMANDS=$(ask / | json "*d['/']")
# same WHAT COMMAND SHOW EXPRESSION-OF-COMMAND EXPRESSION-OF-SHOW: waits until both expressions have the same value.
same() {
  local what=$1 command=$2
  [[ " $COMMANDS " == *" ${command%%,*} "* ]] || fail "${command%%,*} is no command of telemetry: $COMMANDS"
  wait_for 10 "$what to be the same by telemetry and by the command line" equal "$@"
}
equal() { [[ $(value "$2" "$4") == "$(cli a "show $3 json" | json "($5)")" ]]; }
same "the link" /ipoib/link,ib0 link "d['qkey'], d['rx_packets'], d['drops']" "d[0]['qkey'], d[0]['rx_packets'], d[0]['drops']"
same "the port" /ipoib/port,eth0 port "d['mac'], d['rx_bytes']" "d[0]['mac'], d[0]['rx_bytes']"
same "groups" /ipoib/groups,ib0 "group ib0" "d['total'], d['entries']['0']['group']" "len(d), d[0]['group']"
same "routes" /ipoib/routes route "[r['to'] for r in d['entries'].values()]" "[r['to'] for r in d]"
same "routes of groups" /ipoib/multicast_routes mroute "d['total']" "len(d)"
same "ports of the fabric" /ipoib/hcas hca "d['soft0']['guid']" "d[0]['guid']"
same "requests to the administrator" /ipoib/sa sa "d['soft0']['client']" "d[0]['client']"
same "its groups" /ipoib/sa_groups,soft0 sa "[g['mgid'] for g in d['entries'].values()]" "[g['mgid'] for g in d[0]['groups']]"
same "its ports" /ipoib/sa_ports,soft0 sa "list(d['entries'].values())" "d[0]['ports']"
same "workers" /ipoib/workers worker "d['0']['interfaces'], d['0']['rx_packets']" "d[0]['interfaces'], d[0]['rx_packets']"
same "drops" /ipoib/drops drops "sum(sum(r.values()) for r in d.values())" "sum(r['packets'] for r in d)"
same "the forward mode" /ipoib/forward fwd "d['mode'], d['forwarding']" "d['mode'], int(d['forwarding'])"
same "what was forwarded" /ipoib/forward_stats "fwd stats all" "d['all']['RX_total']" "d['all']['RX-total']"
same "latency" /ipoib/latency latency "d['sent'], d['p99_9_ns']" "d['sent'], d['p99.9_ns']"
same "the configuration" /ipoib/config,worker config "d['burst'], d['forward_mode']" \
  "d['worker']['burst'], d['worker']['forward-mode']"
same "packets among all counters" /ipoib/xstats,ib0 link "d['rx_good_packets']" "d[0]['rx_packets']"
expect "counters of the InfiniBand port" "$(value /ipoib/xstats,soft0 "d['rx_drop_ib_icrc']")" 0
