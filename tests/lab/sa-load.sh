#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# On a subnet of 1,000 channel adapters four of them send many requests to OpenSM (conformance/sa_load.cc). Prints times
# and numbers of requests.
#   tests/lab/sa-load.sh [GoogleTest option]...
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin labsaload
"$LAB_SOURCE/topology.py" 1000 >"$LAB_DIR/thousand.net"
subnet_begin "$LAB_DIR/thousand.net"
sm_start
subnet_up
cd "$LAB_DIR"  # A killed process leaves files of libumad2sim in its working directory.
ip netns exec "$LAB-fabric" env UMAD2SIM="$UMAD2SIM" IBSIM_CONSOLE="$LAB_DIR/console" \
  OPENSM_PID="${SM_PID[sm]}" "$IPOIB_BUILD/tests/lab/conformance/sa_load" "$@"
