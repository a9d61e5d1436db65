#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each host is behind a TAP of its node instead of a veth, and a memif connects the nodes. Ping, TCP and UDP pass.
# shows: U-12, P-04
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin tap
NODES=(a b)
role=server
for node in a b; do
  lab_space "$node"
  scenario_config "$node" 1500 net_tap0 net_memif0
  node_start "$node" "$LAB_DIR/$node.toml" --vdev=net_tap0,iface=eth0 "$(memif_device $role)"
  node_ready "$node"
  n=$(number_of "$node")
  # net_tap gives the kernel's end of the TAP its own MAC address. Two hosts must not have the same.
  ip -n "$LAB-$node" link set eth0 address "02:00:00:00:00:0$n" up
  lab_host_address "$node" "192.168.$n.2/24" "192.168.$n.1"
  role=client
done
for node in a b; do
  wait_for 20 "the link of node $node to come up" link_up "$node"
done

row "ping" ping_all a "$(host_address b)"
iperf_server b
row "iperf3 TCP" tcp_rate a "$(host_address b)" 2
row "iperf3 UDP, 20 Mbit/s offered" udp_rate a "$(host_address b)" 2 20
