#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs two dpdk-ipoib nodes on a software InfiniBand link. The kernels of two hosts run ping and
# iperf3 to each other through them:
#
#   host a --- node a === InfiniBand over memif === node b --- host b
#   192.168.1.2   .1  10.0.0.1              10.0.0.2  192.168.2.1   .2
#
# Installs missing packages, builds the program, prints the results and removes the lab. Any failure
# ends it with a status other than 0.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/config/setup.sh" run
[[ -n ${IPOIB_BUILD:-} ]] || "$root/config/build.sh" build -- app/dpdk-ipoib
# shellcheck source=config/lab.sh
source "$root/config/lab.sh"

lab_begin qs
lab_host a
lab_host b
lab_host_address a 192.168.1.2/24 192.168.1.1
lab_host_address b 192.168.2.2/24 192.168.2.1

say "starting two nodes"
read -r -d '' -a device_a < <(port_device a; memif_device server) || true
read -r -d '' -a device_b < <(port_device b; memif_device client) || true
node_start a "$root/config/examples/lab-node-a.toml" "${device_a[@]}"
node_ready a
node_start b "$root/config/examples/lab-node-b.toml" "${device_b[@]}"
node_ready b
wait_for 20 "the link of node a to come up" link_up a
wait_for 20 "the link of node b to come up" link_up b

say "host a (192.168.1.2) to host b (192.168.2.2)"
row "ping" ping_all a 192.168.2.2
row "ping, 2044 octets, DF" ping_all a 192.168.2.2 -M "do" -s 2016
iperf_server b
row "iperf3 TCP" tcp_rate a 192.168.2.2 3
row "iperf3 UDP, 50 Mbit/s offered" udp_rate a 192.168.2.2 3 50

for host in a b; do
  say ""
  say "node $host"
  cli "$host" "show link" "show neigh" "show drops"
done

# The node with the subnet administrator stops last, because the other one leaves its groups first.
for host in b a; do
  node_stop "$host" || fail "node $host ended with status $?"
done
say ""
say "quick start: all passed"
