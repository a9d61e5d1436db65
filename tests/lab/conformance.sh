#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the conformance suite of subnet administration (conformance/) against OpenSM. The embedded administrator passes
# the same suite as a unit test.
#   tests/lab/conformance.sh [GoogleTest option]...
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin labconformance
subnet_begin
# The suite's ports A, B, limited and outside are the ports of H2 to H5 (conformance/subnet_under_test.h).
partitions \
  "Lab=0x0001, ipoib, Q_Key=0x80010b1c, mtu=4, rate=3, defmember=full : $(port_guid H2)=full, $(port_guid H3)=full, $(port_guid H4)=limited ;" \
  "Other=0x0002, ipoib, Q_Key=0x80010b1d, mtu=4, rate=3, defmember=full : $(port_guid H5)=full ;" \
  "Bare=0x0003, defmember=full : $(port_guid H2)=full, $(port_guid H3)=full ;"
sm_start
subnet_up
cd "$LAB_DIR"  # A killed process leaves files of libumad2sim in its working directory.
ip netns exec "$LAB-fabric" env UMAD2SIM="$UMAD2SIM" IBSIM_CONSOLE="$LAB_DIR/console" \
  "$IPOIB_BUILD/tests/lab/conformance/conformance" --subnet=opensm "$@"
