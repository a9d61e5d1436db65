#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two workers share an Ethernet port: a TAP with two queues, over which the kernel spreads the flows of its host. Each
# worker forwards its flows from end to end, by its own queue pair and its own queue of the cable, and the packets of a
# flow stay in order. Neighbours and groups of the link are spread over the workers.
# shows: P-14
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin queues
NODES=(a b)
LAB_WORKERS=2
NODE_TABLES[a]=$'\n[worker]\ncount = 2\nassign = { eth0 = [0, 1], soft0 = [1, 0] }\n'
lab_fabric "$CABLE_MTU"
scenario_host b
lab_space a
lab_cable a "$CABLE_MTU"
scenario_config a 1500 net_tap0 net_af_packet1
# Each run of node a spreads its neighbours by another hash key. Worker 1 owns the link: node b, which has LID 2, has to be
# worker 0's, so that it moves when the link gets one queue.
for _ in {1..30}; do
  node_start a "$LAB_DIR/a.toml" --vdev=net_tap0,iface=eth0 "$(cable_device a),qpairs=2" -- --prometheus 127.0.0.1:0
  node_ready a
  wait_for 20 "the link of node a to come up" link_up a
  expect "neigh add" "$(cli a "neigh add ib0 10.0.0.99 lladdr 00:00:00:50:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:00:02 lid 2")" ""
  serves=$(cli a "show neigh json" | json '[x["worker"] for x in d if x["address"] == "10.0.0.99"][0]')
  expect "neigh del" "$(cli a "neigh del ib0 10.0.0.99")" ""
  ((serves == 0)) && break
  node_stop a
done
expect "worker that serves node b" "$serves" 0
scenario_node b
# net_tap gives the kernel's end of the TAP its own MAC address.
ip -n "$LAB-a" link set eth0 address 02:00:00:00:00:01 up
lab_host_address a 192.168.1.2/24 192.168.1.1
for node in a b; do wait_for 20 "the link of node $node to come up" link_up "$node"; done
row "ping" ping_all a "$(host_address b)"

port_field() { cli a "show port info all json" | json "d[0]['$1']"; }
expect "receive queues" "$(port_field rx_queues)" 2
expect "transmit queues" "$(port_field tx_queues)" 2
expect "workers" "$(port_field workers)" "[0, 1]"

metrics=$(sed -nE 's|.*serving metrics at http://127\.0\.0\.1:([0-9]+)/metrics|\1|p' "$LAB_DIR/a.log" | tail -n 1)
# packets DIRECTION WORKER: those on eth0 by the queue that the worker has there.
packets() {
  in_host a "$(dirname "${BASH_SOURCE[0]}")/scrape.py" "$metrics" \
    "m('ipoib_queue_$1_packets_total', interface='eth0', queue='$2', worker='$2')"
}

# --- 32 flows from the host behind the port: one worker would get all of them with a probability of 2^-31. The kernel
# moves a flow to the queue by which its answers come, so nothing answers these.
flows=32
each=100
python=$(dirname "${BASH_SOURCE[0]}")/udp_flows.py
in_host b timeout 60 "$python" receive $((flows * each)) >"$LAB_DIR/flows.json" 2>"$LAB_DIR/flows.error" &
receiver=$!
LAB_PIDS+=("$receiver")
wait_for 10 "the receiver of the flows" grep -qs ready "$LAB_DIR/flows.error"
before=("$(packets receive 0)" "$(packets receive 1)")
capture_begin a "$LAB_DIR/flows.pcap"
in_host a "$python" send "$(host_address b)" $flows $each
wait "$receiver"
capture_end a >/dev/null
flows_field() { json "d['$1']" <"$LAB_DIR/flows.json"; }
for worker in 0 1; do
  got=$(($(packets receive "$worker") - before[worker]))
  ((got >= each)) || fail "worker $worker received $got packets of $flows flows with $each packets each"
  row "packets of worker $worker" echo "$got"
done
expect "flows" "$(flows_field flows)" $flows
expect "packets" "$(flows_field packets)" $((flows * each))
expect "packets that another one of their flow overtook" "$(flows_field overtaken)" 0

# --- Each flow left by one of two queue pairs, and tshark finds no fault with their frames.
judge() { tshark -r "$LAB_DIR/flows.pcap" "$@" 2>/dev/null; }
# 8388608 is tshark's severity "error".
faults=$(judge -Y '_ws.malformed || _ws.expert.severity >= 8388608')
[[ -z $faults ]] || fail "tshark finds fault with: $faults"
pairs=$(judge -Y 'udp.dstport == 5002' -T fields -e infiniband.deth.srcqp -e udp.srcport | sort -u)
expect "pairs of queue pair and flow" "$(wc -l <<<"$pairs")" $flows
expect "queue pairs of the flows" "$(cut -f 1 <<<"$pairs" | sort -u | wc -l)" 2

# --- Messages of node a to node b name the queue pair of one worker. This worker receives the packets of node b, and sends
# them by its own queue of the port.
expect "worker that serves node b" "$(cli a "show neigh json" | json '[x["worker"] for x in d if x["address"] == "10.0.0.2"][0]')" 0
own=$(link_field a qpn)
b_sends_to_its_worker() {
  # An unanswered ping ends with status 1.
  in_host b ping -q -c 1 -W 1 192.168.1.2 || (($? == 1))
  [[ $(peer_qpn b 10.0.0.1) != "$own" ]]
}
wait_for 60 "node b to send to worker $serves" b_sends_to_its_worker
# from_link WORKER: packets that the worker has received on the link.
from_link() {
  in_host a "$(dirname "${BASH_SOURCE[0]}")/scrape.py" "$metrics" \
    "m('ipoib_queue_receive_packets_total', interface='ib0', worker='$1')"
}
received=$(from_link 0)
sent=$(packets transmit 0)
row "ping in the other direction, by worker 0" ping_all b 192.168.1.2
received=$(($(from_link 0) - received))
sent=$(($(packets transmit 0) - sent))
((received >= 20)) || fail "worker 0 received $received of 20 packets"
((sent >= 20)) || fail "worker 0 sent $sent of 20 packets"

# --- The worker that `show group` names receives a group's packets from the link, and no other does.
declare -A groups=()
for n in {1..16}; do
  group=239.1.2.$n
  expect "group join" "$(cli a "group join ib0 $group")" ""
  worker_of_group() {
    worker=$(cli a "show group ib0 json" | json "[x['worker'] for x in d if x['group'] == '$group'][0]")
    [[ -n $worker ]]
  }
  wait_for 10 "node a to receive $group" worker_of_group
  groups[$worker]=$group
  ((${#groups[@]} < 2)) || break
done
expect "workers with groups" "${#groups[@]}" 2
for worker in 0 1; do
  group=${groups[$worker]}
  expect "mroute add" "$(cli b "mroute add $group in eth0 out ib0")" ""
  before=("$(from_link 0)" "$(from_link 1)")
  # Nothing answers them, so that ping ends with status 1.
  in_host b ping -q -c 50 -i 0.02 -t 4 -W 1 "$group" >/dev/null || (($? == 1))
  after=("$(from_link 0)" "$(from_link 1)")
  ((after[worker] >= before[worker] + 50)) || fail "worker $worker received $((after[worker] - before[worker])) of 50 packets"
  ((after[1 - worker] < before[1 - worker] + 20)) || fail "worker $((1 - worker)) received packets to $group"
  row "packets to $group" echo "$((after[worker] - before[worker])) received by worker $worker"
done

# --- All neighbours and groups move to one queue pair, and back. No ping is lost meanwhile.
expect "queues" "$(link_field a queues)" 2
elsewhere=$(peer_qpn b 10.0.0.1)
[[ $elsewhere != "$own" ]] || fail "node b sends to QPN $own, that of worker 1"
for step in 1 2; do
  if ((step == 1)); then to=$own; else to=$elsewhere; fi
  ping_over_move 500 0.02 $step "$to"
  workers=$(cli a "show group ib0 json" | json "len({x['worker'] for x in d})")
  expect "workers with groups" "$workers" "$step"
done
expect "more queues than queue pairs" "$(cli a "set link ib0 queues 3")" \
  "error: ib0: invalid number of queues 3, allowed: 1-2"

expect "packets that were lost between workers" "$(cli a 'show drops json' | json \
  "sum(x['packets'] for x in d if x['reason'] == 'handoff_ring_full')")" 0
