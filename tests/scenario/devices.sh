#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node does not start with a cable whose MTU is too small for the link, or with devices that do not exist. It logs
# the reason.
# shows: P-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin devices
lab_fabric 1500
lab_host a
lab_cable a 1500
scenario_config a

# refused PATTERN ARGUMENT...: the node must end by itself with status 1 and a message that matches PATTERN.
refused() {
  local pattern=$1 status=0
  shift
  : >"$LAB_DIR/a.log"
  node_start a "$LAB_DIR/a.toml" "$@"
  wait_for 20 "the node to give up" process_gone "${NODE_PID[a]}"
  wait "${NODE_PID[a]}" || status=$?
  unset "NODE_PID[a]"
  expect "exit status" "$status" 1
  expect_text "message" "$(cat "$LAB_DIR/a.log")" "$pattern"
  grep -E -- "$pattern" "$LAB_DIR/a.log"
}
refused 'net_af_packet1.*1500.*2128' "$(port_device a)" "$(cable_device a)"
refused 'net_af_packet1' "$(port_device a)"
refused 'net_af_packet0' "$(cable_device a)"
