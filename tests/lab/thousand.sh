#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Measures the time until all links are up on a subnet of 1,000 channel adapters, three of which are nodes: that of
# OpenSM and that of the nodes.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin labthousand
"$LAB_SOURCE/topology.py" 1000 >"$LAB_DIR/thousand.net"
begin=$(now_ms)
subnet_begin "$LAB_DIR/thousand.net"
say "simulator with 1000 channel adapters: $(took "$begin")"
begin=$(now_ms)
sm_start
subnet_up
say "OpenSM, from start to SUBNET UP: $(took "$begin")"
begin=$(now_ms)
nodes_up a b c
say "three nodes, from start until their links are up: $(took "$begin")"
agreed_within 10 a b c
for pair in "a b" "b c" "c a"; do
  read -r from to <<<"$pair"
  row "$from to $to" ping_all "$from" "$(host_address "$to")"
done
begin=$(now_ms)
sm_kill
sm_start
subnet_up
say "OpenSM restarted, from start to SUBNET UP: $(took "$begin")"
agreed_within 20 a b c
