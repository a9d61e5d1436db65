#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two UD queue pairs of one link on a real kernel: node a has two workers, each with a queue pair of its rdma_rxe device
# and a thread domain of its own. Node b sends to the queue pair that node a has named to it, moves to the other one and
# back at run time, and loses nothing.
# shows: P-14
set -euo pipefail
source "$(dirname "$0")/lib.sh"

LAB_WORKERS=2
LAB_MEMORY=320
# Worker 1 has the first queue pair, worker 0 the second, and the packets of the port.
NODE_TABLES[a]=$'\n[worker]\ncount = 2\nassign = { eth0 = 0, hca0 = 1 }\n'

vm_begin vm-queues
vm_start b
links_up b
reaches_b() { reaches a b; }
worker_of_b() { cli a "show neigh json" | json "[x['worker'] for x in d if x['address'] == '10.0.0.2'][0]"; }
# Each run of node a spreads its neighbours by another hash key. Node b has to be worker 0's, so that it moves when the
# link gets one queue.
for _ in {1..16}; do
  vm_start a
  links_up a
  wait_for 15 "packets between the hosts" reaches_b
  serves=$(worker_of_b)
  ((serves == 0)) && break
  node_stop a
done
expect "worker that serves node b" "$serves" 0
expect "how node a reaches node b" "$(mode_of a 10.0.0.2)" UD
expect "queues" "$(link_field a queues)" 2

first=$(link_field a qpn)
named_another() { reaches b a && [[ $(peer_qpn b 10.0.0.1) != "$first" ]]; }
wait_for 60 "node b to send to worker 0" named_another
second=$(peer_qpn b 10.0.0.1)
row "queue pairs" echo "$first of worker 1, $second of worker 0"
row "ping, received by worker 0" ping_all b "$(host_address a)"
iperf_server a
row "iperf3 TCP, received by worker 0" tcp_rate b "$(host_address a)" 2

ping_over_move 150 0.05 1 "$first"
ping_over_move 150 0.05 2 "$second"
vm_stop
