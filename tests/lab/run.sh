#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every lab script, or those named: what fails is named at the end.
#   tests/lab/run.sh [NAME]...     e.g. tests/lab/run.sh bring-up
set -uo pipefail
cd "$(dirname "$0")" || exit 1
root=$(cd ../.. && pwd)

"$root/config/setup.sh" test || exit 1
[[ -n ${IPOIB_BUILD:-} ]] || "$root/config/build.sh" build -Dtests=true -- app/dpdk-ipoib \
  tests/lab/umad2sim_guard.so tests/lab/conformance/conformance tests/lab/conformance/sa_load \
  tests/lab/port_user || exit 1

pid=
interrupted() {
  [[ -z $pid ]] || { kill "$pid" && wait "$pid"; }  # It takes down what it made.
  exit 130
}
trap interrupted INT TERM HUP

failed=()
scripts=("$@")
((${#scripts[@]})) || scripts=(*.sh)
for script in "${scripts[@]%.sh}"; do
  [[ $script == run || $script == lib ]] && continue
  printf '%s\n' "--- $script"
  begin=$SECONDS
  timeout --kill-after=20 120 "./$script.sh" </dev/null &
  pid=$!
  wait "$pid" || failed+=("$script")
  pid=
  printf '%s\n' "--- $script: $((SECONDS - begin)) s"
done
((${#failed[@]} == 0)) || { echo "FAILED: ${failed[*]}"; exit 1; }
