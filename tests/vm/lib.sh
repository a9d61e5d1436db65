# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The functions of the tests on a real kernel. A script that sources this file runs in the virtual machine of
# tests/vm/machine, even if it was started outside. The machine has the nodes of a scenario, each with its host:
#
#   host x --- bridge --- TAP of node x === veth pair === TAP of node y --- bridge --- host y
#
# The veth pair carries rdma_rxe, so that each node has a verbs device, rxe1 or rxe2. The nodes are in the machine's
# initial network namespace, because this kernel's rdma_rxe works in no other.

[[ -n ${IPOIB_VM:-} ]] || exec "$(dirname "${BASH_SOURCE[0]}")/machine" "$0" "$@"

# shellcheck source=tests/scenario/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scenario/lib.sh"
NODES=(a b)
LAB_PATIENCE=4
LAB_MEMORY=256
LAB_LOG_LINES=60
HOST_MTU=1500
PORT_DEVICE=net_tap0
MBUFS=16384

# The most frequent Python programs need no packages. Without the search for them they start in half the time.
python3() { command python3 -I -S "$@"; }
cli() {
  local host=$1
  shift
  python3 "$IPOIB_ROOT/config/ipoib-cli" "$LAB_DIR/$host.sock" "$@"
}

node_space() { echo "$LAB-nodes"; }
port_name() { echo "port-$1"; }
cable_name() { echo "ib-$1"; }
rxe_device() { echo "rxe$(number_of "$1")"; }
port_device() { echo "--vdev=net_tap0,iface=tap-$1"; }
cable_device() { :; }

# RoCE has no subnet manager: every node administers its own port.
HCA=hca0
hca_driver() { printf 'driver = "verbs"\ndevice = "%s"\nport = 1\n' "$(rxe_device "$1")"; }
management() { echo "subnet-administrator = true"; }

# vm_begin NAME: creates the lab, the hosts, and a verbs device for each node.
vm_begin() {
  local node
  lab_begin "$1"
  LAB_SPACES+=("$(node_space a)")
  ip netns attach "$(node_space a)" $$
  # A node's memory is a file. The kernel would take seconds to allocate it in pages of 4 KiB.
  echo always >/sys/kernel/mm/transparent_hugepage/shmem_enabled
  sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.default.accept_dad=0
  ip link add "$(cable_name a)" mtu "$CABLE_MTU" type veth peer name "$(cable_name b)" mtu "$CABLE_MTU"
  for node in "${NODES[@]}"; do
    sysctl -qw "net.ipv6.conf.$(cable_name "$node").disable_ipv6=0"
    ip link set "$(cable_name "$node")" address "02:00:00:00:01:0$(number_of "$node")" up
    rxe_add "$node"
    vm_host "$node"
  done
}

# rxe_add NODE, rxe_delete NODE: add and delete the node's device. The latter waits until no process has it open.
rxe_add() { rdma link add "$(rxe_device "$1")" type rxe netdev "$(cable_name "$1")"; }
rxe_delete() { rdma link delete "$(rxe_device "$1")"; }
# in_use NODE: prints the number of objects that processes have in the device: contexts, memory regions, shared receive
# queues, and queue pairs except the kernel's own for management datagrams.
in_use() {
  rdma -j resource show | json "[x['ctx'] + x['mr'] + x['srq'] + x['qp'] - 1 for x in d
    if x['ifname'] == '$(rxe_device "$1")'][0]"
}

# vm_host NODE: creates the host, and a bridge for the node's TAP.
vm_host() {
  local node=$1 n
  n=$(number_of "$node")
  lab_host "$node" "$HOST_MTU"
  lab_host_address "$node" "192.168.$n.2/24" "192.168.$n.1"
  ip link add "br-$node" type bridge mcast_snooping 0
  ip link set "$(port_name "$node")" master "br-$node"
  ip link set "br-$node" up
}

# vm_start NODE: starts the node and connects its host. The kernel's end of the TAP gets another MAC address: its own is
# the node's, and the bridge would take frames to it. Sleeps of 50 us would take a quarter of a CPU here.
vm_start() {
  local node=$1 task
  scenario_config "$node" "$HOST_MTU" "$PORT_DEVICE"
  scenario_node "$node" --total-num-mbufs "$MBUFS"
  for task in /proc/"${NODE_PID[$node]}"/task/*; do echo 500000 >"/proc/${task##*/}/timerslack_ns"; done
  [[ ! -e /sys/class/net/tap-$node ]] ||
    ip link set "tap-$node" address "02:00:00:00:02:0$(number_of "$node")" master "br-$node" up
}

# vm_up: starts both nodes and waits until their links are up. vm_stop: stops them and checks that nothing is left in
# their devices.
vm_up() {
  local node
  for node in "${NODES[@]}"; do vm_start "$node"; done
  for node in "${NODES[@]}"; do links_up "$node"; done
}
links_up() { wait_for 20 "the link of node $1 to come up" link_up "$1"; }
vm_stop() {
  local node
  for node in "${NODES[@]}"; do
    node_stop "$node" || fail "node $node ended with status $?"
    expect "what is left of node $node in its device" "$(in_use "$node")" 0
  done
}

# connections NODE EXPRESSION: evaluates an expression over the rows d of `show connection`.
# connected NODE NUMBER: succeeds if so many connections are established and used for sending.
connections() { cli "$1" "show connection json" | json "$2"; }
connected() { [[ $(connections "$1" "sum(r['state'] == 'established' and r['sending'] for r in d)") == "$2" ]]; }
mode_of() { cli "$1" "show neigh json" | json "[r['mode'] for r in d if r['address'] == '$2'][0]"; }
reaches() { in_host "$1" ping -q -c 1 -W 0.5 "$(host_address "$2")"; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }
