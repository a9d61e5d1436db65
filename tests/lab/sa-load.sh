#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A subnet of 1,000 channel adapters, of which four ask OpenSM a lot (conformance/sa_load.cc): times and
# numbers are printed.
#   tests/lab/sa-load.sh [GoogleTest option]...
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin labsaload
"$LAB_SOURCE/topology.py" 1000 >"$LAB_DIR/thousand.net"
subnet_begin "$LAB_DIR/thousand.net"
sm_start
subnet_up
cd "$LAB_DIR"  # libumad2sim leaves files in the working directory of what is killed.
ip netns exec "$LAB-fabric" env UMAD2SIM="$UMAD2SIM" IBSIM_CONSOLE="$LAB_DIR/console" \
  OPENSM_PID="${SM_PID[sm]}" "$IPOIB_BUILD/tests/lab/conformance/sa_load" "$@"
