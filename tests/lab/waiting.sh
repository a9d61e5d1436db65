#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node starts without its umad device, and on a subnet without a subnet manager. Its link waits and reports the
# reason, and everything else works. The link on the subnet comes up by itself when OpenSM starts.
# shows: U-10
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin labwaiting
subnet_begin
for node in a b c; do scenario_host "$node"; done
sed -i 's/umad:ibsim0:1/umad:absent0/' "$LAB_DIR/c.toml"
for node in a b c; do scenario_start "$node"; done
for node in a b c; do node_ready "$node"; done

says() { [[ $(link_field "$1" state) != up && $(link_field "$1" reason) == *"$2"* ]]; }
wait_for 5 "node c to miss its device" says c "no umad device absent0"
wait_for 5 "node a to see an unmanaged port" says a "the port is not active"
for node in a c; do say "node $node waits: $(link_field "$node" reason)"; done
for node in a b c; do
  in_host "$node" ping -q -c 1 -W 2 "192.168.$(number_of "$node").1" >/dev/null ||
    fail "node $node does not answer its host while the link waits"
done

begin=$(now_ms)
sm_start
subnet_up
for node in a b; do wait_for 10 "the link of node $node to come up" links_up "$node"; done
say "OpenSM started, until the links of nodes a and b are up: $(took "$begin")"
agreed_within 10 a b c
row "a to b" ping_all a "$(host_address b)"
says c "no umad device absent0" || fail "node c: $(link_field c state), $(link_field c reason)"
for node in a b c; do
  status=0
  node_stop "$node" || status=$?
  expect "exit status of node $node" "$status" 0
done
