#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs and builds what is missing, then runs every script beside this one, or those named, in the
# small machine. Ends with the first that fails.
#   tests/vm/run.sh [NAME]...     e.g. tests/vm/run.sh faults
set -euo pipefail
cd "$(dirname "$0")/../.."

config/setup.sh vm
[[ -n ${IPOIB_BUILD:-} ]] || config/build.sh build -- app/dpdk-ipoib tests/vm/vm_driver_test
scripts=("$@")
((${#scripts[@]})) || scripts=(driver traffic connected faults)
for script in "${scripts[@]}"; do
  begin=$SECONDS
  printf '%s\n' "--- $script"
  "tests/vm/$script.sh"
  printf '%s\n' "--- $script: $((SECONDS - begin)) s"
done
