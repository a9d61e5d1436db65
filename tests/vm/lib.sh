# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# What the tests on a real kernel share. A script that sources this runs in the machine of
# tests/vm/machine, wherever it was started. There are scenarios' nodes in it, each with its host:
#
#   host x --- bridge --- TAP of node x === veth pair === TAP of node y --- bridge --- host y
#
# The veth pair carries rdma_rxe, so that each node has a verbs device, rxe1 and rxe2. Nodes are in the
# machine's own network namespace: this kernel's rdma_rxe sends and receives in no other.

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

# All that is run most needs no packages, and half the time to start without looking for them.
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

# vm_begin NAME: the lab, the hosts, and a verbs device for each node.
vm_begin() {
  local node
  lab_begin "$1"
  LAB_SPACES+=("$(node_space a)")
  ip netns attach "$(node_space a)" $$
  # A node's memory is a file of its own: in pages of 4 KiB it would take seconds to come by.
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

# rxe_add NODE, rxe_delete NODE; the kernel waits with the latter until nobody has the device open.
rxe_add() { rdma link add "$(rxe_device "$1")" type rxe netdev "$(cable_name "$1")"; }
rxe_delete() { rdma link delete "$(rxe_device "$1")"; }
# in_use NODE: what processes have of the device: contexts, memory regions and shared receive queues, and
# queue pairs beside the kernel's own for management datagrams.
in_use() {
  rdma -j resource show | json "[x['ctx'] + x['mr'] + x['srq'] + x['qp'] - 1 for x in d
    if x['ifname'] == '$(rxe_device "$1")'][0]"
}

# vm_host NODE: the host, and a bridge that waits for the node's TAP.
vm_host() {
  local node=$1 n
  n=$(number_of "$node")
  lab_host "$node" "$HOST_MTU"
  lab_host_address "$node" "192.168.$n.2/24" "192.168.$n.1"
  ip link add "br-$node" type bridge mcast_snooping 0
  ip link set "$(port_name "$node")" master "br-$node"
  ip link set "br-$node" up
}

# vm_start NODE: starts it and plugs its host in. The kernel's end of the TAP has the node's own address,
# which the bridge would keep for itself. Sleeps of 50 us would take a quarter of a CPU here.
vm_start() {
  local node=$1 task
  scenario_config "$node" "$HOST_MTU" "$PORT_DEVICE"
  scenario_node "$node" --total-num-mbufs "$MBUFS"
  for task in /proc/"${NODE_PID[$node]}"/task/*; do echo 500000 >"/proc/${task##*/}/timerslack_ns"; done
  [[ ! -e /sys/class/net/tap-$node ]] ||
    ip link set "tap-$node" address "02:00:00:00:02:0$(number_of "$node")" master "br-$node" up
}

# vm_up: both nodes, until their links are up. vm_stop: ends them; nothing of theirs is left.
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

# connections NODE EXPRESSION: of the rows d. connected NODE NUMBER: so many of them stand and are used.
connections() { cli "$1" "show connection json" | json "$2"; }
connected() { [[ $(connections "$1" "sum(r['state'] == 'established' and r['sending'] for r in d)") == "$2" ]]; }
mode_of() { cli "$1" "show neigh json" | json "[r['mode'] for r in d if r['address'] == '$2'][0]"; }
reaches() { in_host "$1" ping -q -c 1 -W 0.5 "$(host_address "$2")"; }
now_ms() { echo $(($(date +%s%N) / 1000000)); }
