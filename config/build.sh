#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds targets in a meson build folder under the root, which it sets up when it is not there.
#   config/build.sh FOLDER [meson option]... [-- target...]
# An existing folder that was given other options is reconfigured; no options: left as it is.
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
# Debug information names the folder it was made in; compiled elsewhere it is as good.
export CCACHE_NOHASHDIR=1
exec ninja -C "$folder" --quiet "$@"
