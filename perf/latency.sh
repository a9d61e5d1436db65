#!/usr/bin/env bash
# Round trips of ping between two hosts, through two nodes whose workers poll, each on a CPU of its own;
# the management lcores, which sleep unless asked, float:
#
#   host a ~ veth ~ node a === InfiniBand over memif === node b ~ veth ~ host b
#
#   perf/latency.sh COUNT CPU_A CPU_B    prints each round trip in milliseconds, one a line
set -euo pipefail
# shellcheck source=config/lab.sh
source "$(dirname "$0")/../config/lab.sh"
count=$1
declare -A worker_cpu=([a]=$2 [b]=$3)
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
# The kernel stamps packets as they arrive: that ping itself waits for a CPU does not count.
in_host a nice -n -20 ping -n -c "$count" -i 0.005 -W 2 192.168.2.2 |
  sed -nE 's/.* time=([0-9.]+) ms.*/\1/p'
