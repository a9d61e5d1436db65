#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds targets in a meson build folder below the root, and sets the folder up if it is missing.
#   config/build.sh FOLDER [meson option]... [-- target...]
# Reconfigures an existing folder if an option is new to it or differs; options that are not named stay.
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

# All options that the folder was given, one a line.
known=$folder/.options
configure() {
  local log option
  log=$(meson "$@" 2>&1) || { echo "$log"; exit 1; }
  touch "$known"
  for option in "${options[@]}"; do
    sed -i "\\#^${option%%=*}=#d" "$known"
    echo "$option" >>"$known"
  done
}

if [[ ! -f $folder/build.ninja ]]; then
  rm -f "$known"
  configure setup "$folder" "${options[@]}"
else
  for option in "${options[@]}"; do
    grep -qxF -e "$option" "$known" 2>/dev/null && continue
    # Without it, meson does not know options that the project got after the folder was set up.
    ninja -C "$folder" --quiet build.ninja >/dev/null
    configure configure "$folder" "${options[@]}"
    break
  done
fi
# ccache may reuse objects of other folders, because only their debug information names the folder.
export CCACHE_NOHASHDIR=1
exec ninja -C "$folder" --quiet "$@"
