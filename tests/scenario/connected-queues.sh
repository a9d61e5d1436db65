#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two workers of node a share a link in connected mode. The connection with one of two peers is that of worker 1, which owns
# the cable and the port, and the connection with the other one is that of worker 0. Long packets pass over both, in both
# directions. When the link gets one queue pair, connections stay, and new ones are those of worker 1.
# shows: P-14 C-12
set -euo pipefail
source "$(dirname "$0")/lib.sh"

HOST_MTU=8000
SIZES=blocksz=8192,framesz=8192,framecnt=1024
port_device() { echo "--vdev=net_af_packet0,iface=$(port_name "$1"),$SIZES"; }
# connections EXPRESSION: evaluates an expression over the rows d of `show connection` of node a.
connections() { cli a "show connection json" | json "$1"; }
worker_to() { connections "[r['worker'] for r in d if r['sending'] and '$1' in r['neighbours']]"; }
served_by() { [[ $(worker_to "$1") == "[$2]" ]]; }
workers() { [[ $(connections "sorted(r['worker'] for r in d if r['sending'])") == "$1" ]]; }
large() { ping_all "$1" "$(host_address "$2")" -M "do" -s 7900; }

lab_begin conqueues
LAB_WORKERS=2
LAB_MEMORY=1024
for node in a b c; do
  NODE_TABLES[$node]=$'\n[worker]\nmbuf-size = 8448\n'
  LINK_LINES[$node]='mode = "connected-rc"'
done
LINK_LINES[a]+=$'\nbalance = false'
NODE_TABLES[a]+=$'count = 2\nassign = { eth0 = 1, soft0 = 1 }\n'
lab_fabric "$CABLE_MTU"
for node in a b c; do scenario_host "$node" "$HOST_MTU"; done
node_start a "$LAB_DIR/a.toml" "$(port_device a)" "$(cable_device a),qpairs=2"
node_ready a
for node in b c; do scenario_node "$node"; done
for node in a b c; do wait_for 20 "the link of node $node to come up" link_up "$node"; done

# --- Each worker gets one of the connections.
capture=$LAB_DIR/queues.erf.pcap
capture_begin a "$capture"
for peer in b c; do row "ping to $peer" ping_all a "$(host_address "$peer")"; done
wait_for 10 "a connection of each worker" workers "[0, 1]"
# The peer of worker 0.
other=b neighbour=10.0.0.2
served_by "$neighbour" 0 || other=c neighbour=10.0.0.3
for peer in b c; do
  row "7928 octets from a to $peer" large a "$peer"
  row "7928 octets from $peer to a" large "$peer" a
done
capture_end a >/dev/null
for worker in 0 1; do
  for counter in tx_packets rx_packets; do
    n=$(connections "sum(r['$counter'] for r in d if r['worker'] == $worker)")
    ((n >= 40)) || fail "$counter of the connection of worker $worker: $n of at least 40"
  done
done
expect "worker that serves the neighbour" \
  "$(cli a "show neigh json" | json "[x['worker'] for x in d if x['address'] == '$neighbour']")" "[0]"

judge() { tshark -r "$capture" "$@" 2>/dev/null; }
# tshark takes the first frame of a message for the whole message. 8388608 is its severity "error".
faults=$(judge -Y '(_ws.malformed || _ws.expert.severity == 8388608) &&
  !(ip.bogus_ip_length && infiniband.bth.opcode in {0,32})')
[[ -z $faults ]] || fail "tshark finds fault with: $(head -n 5 <<<"$faults")"
# Messages in both directions, from both connections.
pairs=$(judge -Y 'infiniband.bth.opcode < 5 && infiniband.lrh.dlid == 1' -T fields -e infiniband.bth.destqp | sort -u)
expect "queue pairs of node a that receive messages" "$(wc -l <<<"$pairs")" 2

iperf_server "$other"
row "iperf3 TCP over worker 0, host MTU $HOST_MTU" tcp_rate a "$(host_address "$other")" 3

# --- With one queue pair, the connection of worker 0 stays until it is closed.
in_host "$other" ping -c 300 -i 0.02 -W 5 "$(host_address a)" >"$LAB_DIR/queues.ping" &
pinging=$!
LAB_PIDS+=("$pinging")
wait_for 5 "the first pings" grep -qs icmp_seq=20 "$LAB_DIR/queues.ping"
expect "set link queues" "$(cli a "set link ib0 queues 1")" ""
wait "$pinging" || fail "$(<"$LAB_DIR/queues.ping")"
expect "pings" "$(grep -o '[0-9]* received' "$LAB_DIR/queues.ping")" "300 received"
expect "worker of the connection with node $other" "$(worker_to "$neighbour")" "[0]"
id=$(connections "[r['id'] for r in d if r['worker'] == 0][0]")
cli a "connection close ib0 $id" >/dev/null
row "ping to $other after the close" ping_all a "$(host_address "$other")"
wait_for 10 "a connection of worker 1 with node $other" served_by "$neighbour" 1
row "7928 octets from a to $other" large a "$other"

for node in b c; do node_stop "$node" || fail "node $node ended with status $?"; done
none_left() { [[ $(connections "sum(r['sending'] for r in d)") == 0 ]]; }
wait_for 5 "node a to let go of what the peers ended" none_left
node_stop a || fail "node a ended with status $?"
