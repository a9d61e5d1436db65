#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs missing packages, builds, and runs all test scripts of this folder, or the named ones, in the virtual
# machine. Ends with the first that fails.
#   tests/vm/run.sh [NAME]...     for example tests/vm/run.sh faults
set -euo pipefail
cd "$(dirname "$0")/../.."

config/setup.sh vm
[[ -n ${IPOIB_BUILD:-} ]] || config/build.sh build -Dtests=true -- app/dpdk-ipoib tests/vm/vm_driver_test
scripts=("$@")
((${#scripts[@]})) || scripts=(driver traffic connected faults queues)
for script in "${scripts[@]}"; do
  begin=$SECONDS
  printf '%s\n' "--- $script"
  "tests/vm/$script.sh"
  printf '%s\n' "--- $script: $((SECONDS - begin)) s"
done
