#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures ping between two hosts, through two nodes whose workers poll, each on a CPU of its own. The management
# lcores are not bound to a CPU and sleep unless they get a request:
#
#   host a ~ veth ~ node a === InfiniBand over memif === node b ~ veth ~ host b
#
# In turns with it, it measures ping between the same hosts over a veth pair: the part of the time that ping and the
# kernel take at that moment.
#
#   perf/latency.sh TURNS COUNT CPU_A CPU_B    sends COUNT pings on both ways in each turn and prints a line for each
#                                              round trip, `nodes MILLISECONDS` or `veth MILLISECONDS`
set -euo pipefail
# shellcheck source=config/lab.sh
source "$(dirname "$0")/../config/lab.sh"
turns=$1 count=$2
declare -A worker_cpu=([a]=$3 [b]=$4)
export LAB_IDLE_POLICY=poll

eval "floating_$(declare -f eal_arguments)"
eal_arguments() {
  local arguments
  arguments=$(floating_eal_arguments "$1")
  sed -E "s/1@\([^)]*\)/1@${worker_cpu[$1]}/" <<<"$arguments"
}

both_up() { link_up a && link_up b; }

lab_begin perf
lab_host a
lab_host b
lab_host_address a 192.168.1.2/24 192.168.1.1
lab_host_address b 192.168.2.2/24 192.168.2.1
read -r -d '' -a device_a < <(port_device a; memif_device server) || true
read -r -d '' -a device_b < <(port_device b; memif_device client) || true
node_start a "$IPOIB_ROOT/config/examples/lab-node-a.toml" "${device_a[@]}"
node_ready a
node_start b "$IPOIB_ROOT/config/examples/lab-node-b.toml" "${device_b[@]}"
node_ready b
wait_for 30 "the links to come up" both_up
wait_for 20 "the first answer" in_host a ping -q -c 1 -W 1 192.168.2.2
ip -n "$LAB-a" link add direct type veth peer name direct netns "$LAB-b"
ip -n "$LAB-a" address add 192.168.3.1/24 dev direct
ip -n "$LAB-b" address add 192.168.3.2/24 dev direct
for host in a b; do ip -n "$LAB-$host" link set direct up; done
wait_for 20 "the first answer over veth" in_host a ping -q -c 1 -W 1 192.168.3.2

# The kernel stamps packets as they arrive, so the time that ping itself waits for a CPU does not count.
pings() {  # NAME ADDRESS
  in_host a nice -n -20 ping -n -c "$count" -i 0.005 -W 2 "$2" | sed -nE "s/.* time=([0-9.]+) ms.*/$1 \\1/p"
}
for ((turn = 0; turn < turns; ++turn)); do
  pings nodes 192.168.2.2
  pings veth 192.168.3.2
done
