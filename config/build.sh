#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds targets in a meson build folder below the root, and sets the folder up if it is missing.
#   config/build.sh FOLDER [meson option]... [-- target...]
# Reconfigures an existing folder if the options differ; without options it keeps its own.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
shift
options=()
while (($#)) && [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
(($#)) && shift

configure() {
  local log
  log=$(meson "$@" 2>&1) || { echo "$log"; exit 1; }
  echo "${options[*]}" >"$folder/.options"
}

if [[ ! -f $folder/build.ninja ]]; then
  configure setup "$folder" "${options[@]}"
elif ((${#options[@]})) && [[ ${options[*]} != "$(cat "$folder/.options" 2>/dev/null)" ]]; then
  configure configure "$folder" "${options[@]}"
fi
# ccache may reuse objects of other folders, because only their debug information names the folder.
export CCACHE_NOHASHDIR=1
exec ninja -C "$folder" --quiet "$@"
