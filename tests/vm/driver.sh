#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests the verbs driver alone, on two ports of rdma_rxe: queue pairs of every kind, multicast, failed queue pairs, and
# a device that disappears and comes back.
set -euo pipefail
[[ -n ${IPOIB_VM:-} ]] || exec "$(dirname "${BASH_SOURCE[0]}")/machine" "$0" "$@"

sysctl -qw net.ipv6.conf.default.accept_dad=0
ip link add veth0 mtu 4200 type veth peer name veth1 mtu 4200
for i in 0 1; do
  ip link set "veth$i" up
  rdma link add "rxe$i" type rxe netdev "veth$i"
done
"$IPOIB_BUILD/tests/vm/vm_driver_test" "$@"
