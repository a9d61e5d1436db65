#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Row A14: files that take no data cost others nothing. A capture into a FIFO without a reader is refused or fails by
# itself. The node goes on to forward and to answer its command line, and a capture into a new file works beside that.
# Needs root, and a build; it is apart from run.sh because files do not run in virtual time.
set -euo pipefail
source "$(dirname "$0")/../scenario/lib.sh"

NODES=(a b)
lab_begin slow-files
scenario_up a b
ping_all a "$(host_address b)" >/dev/null

mkfifo "$LAB_DIR/fifo"
answer=$(cli a "capture start $LAB_DIR/fifo" 2>&1 || true)
say "a capture into a FIFO: ${answer:-started}"
ping_all a "$(host_address b)"
cli a "show capture" >/dev/null || fail "show capture does not answer"
cli a "capture stop" >/dev/null 2>&1 || true

cli a "capture start $LAB_DIR/frames.erf" >/dev/null || fail "a capture into a new file does not start"
ping_all a "$(host_address b)"
cli a "show capture"
cli a "capture stop" >/dev/null || fail "the capture does not stop"
written() { (($(stat -c %s "$LAB_DIR/frames.erf") > 24)); }
wait_for 5 "frames in the capture" written
longest=$(cli a "show management json" | json 'd["max_ns"]' 2>/dev/null || echo 0)
say "the longest turn of the management lcore took $((longest / 1000)) us"
