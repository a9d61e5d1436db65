#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Connected mode through libibverbs on a real kernel, with RC and then with UC. CM messages go through libibumad; the
# kernel has no ib_cm. Packets of 7,928 octets pass unfragmented. After a kill and a restart of a node, traffic flows by
# datagrams and then over another connection. Nodes that end leave no queue pair behind.
# shows: P-02, C-08, C-11, C-15, C-16
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# net_tap carries no frame above 1522 octets.
HOST_MTU=8000
PORT_DEVICE=net_af_packet0
port_device() { echo "--vdev=net_af_packet0,iface=$(port_name "$1"),blocksz=8192,framesz=8192,framecnt=1024"; }
# net_af_packet computes the number of its fanout group as process id XOR interface index. The group belongs to the
# namespace, so two nodes with adjacent numbers could get the same group.
interface_index() { echo "index $(($(number_of "${1#*-}") << 12))"; }

MBUFS=12288
large() { ping_all "$1" "$(host_address "$2")" -M "do" -s 7900; }

for node in a b; do NODE_TABLES[$node]=$'\n[worker]\nmbuf-size = 8448\n'; done
vm_begin vm-connected
for mode in rc uc; do
  for node in a b; do LINK_LINES[$node]="mode = \"connected-$mode\""; done
  vm_up
  row "$mode: first packets" ping_all a "$(host_address b)"
  for node in a b; do wait_for 10 "node $node to send by its connection" connected "$node" 1; done
  expect "how a reaches b" "$(mode_of a 10.0.0.2)" "${mode^^}"
  read -r mtu id < <(connections a "str(d[0]['mtu']) + ' ' + str(d[0]['id'])")
  expect "mtu of the connection" "$mtu" 65520
  row "$mode: 7928 octets, a to b" large a b
  row "$mode: 7928 octets, b to a" large b a
  iperf_server b
  row "$mode: iperf3 TCP, host MTU $HOST_MTU" tcp_rate a "$(host_address b)" 2

  cli a "connection close ib0 $id" >/dev/null
  row "$mode: closed" ping_all a "$(host_address b)"
  wait_for 10 "another connection" connected a 1
  [[ $(connections a "d[0]['id']") != "$id" ]] || fail "connection $id is still there"

  flow_begin traffic a send eth0 20 "$(host_address b)"
  node_kill b
  wait_for 10 "node a to give the connection up" connected a 0
  vm_start b
  begin=$(now_ms)
  wait_for 10 "traffic after the restart" reaches a b
  say "$mode: node b killed and started again: traffic after $(($(now_ms) - begin)) ms"
  wait_for 15 "a connection again" connected a 1
  say "$mode: and by a connection after $(($(now_ms) - begin)) ms"
  flow_end traffic
  row "$mode: 7928 octets again" large a b
  vm_stop
done
