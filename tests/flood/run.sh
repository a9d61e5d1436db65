#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Sends floods to a node in virtual time and prints a line of figures for each: what established neighbours, new hosts
# and others lost by it. The status is 1 if a flood costs them more than its row allows (tests/flood/flood_rows.cc).
#   tests/flood/run.sh [ROW...]          ten seconds of virtual time and lower rates: all rows in about a minute
#   tests/flood/run.sh --long [ROW...]   the rates and times of the requirements
#   tests/flood/run.sh --list            the rows
# Rows of tests/flood/open.txt are not kept yet: only --long runs them, and their failure does not count. A row that is
# named on the command line runs and counts in any case.
# Other tests show what needs no flood: AddressHash.P16_* and KeyedHash.P16_* that chosen keys do not collide (A12),
# tests/scenario/crashes.sh that a node which is killed is back soon (A13), and CaptureTest.P16_*, LogWriterTest.P16_* and
# tests/scenario/log-pipe.sh that files, pipes and journals which take no data stop nothing (A14).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2

build=${IPOIB_BUILD:-build}
bench=$build/tests/flood/flood_bench
form=()
named=()
for argument; do
  case $argument in
    --long) form=(--long) ;;
    --list) exec "$bench" --list ;;
    -*) sed -n '3,/^set /s/^# \?//p' tests/flood/run.sh >&2; exit 2 ;;
    *) named+=("$argument") ;;
  esac
done
[[ -x $bench ]] || { echo "$bench is not built" >&2; exit 2; }

declare -A open=()
while read -r row reason; do
  [[ $row == "#"* || -z $row ]] || open[$row]=$reason
done <tests/flood/open.txt
mapfile -t rows < <("$bench" --list | cut -f1)
((${#rows[@]})) || { echo "$bench lists no floods" >&2; exit 2; }
((${#named[@]})) && rows=("${named[@]}")

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
wanted=()
for row in "${rows[@]}"; do
  [[ -n ${open[$row]-} && ${#named[@]} == 0 && ${#form[@]} == 0 ]] || wanted+=("$row")
done
# Rows are programs of their own. They run side by side, as their time is not that of the machine.
# shellcheck disable=SC2016
printf '%s\n' "${wanted[@]}" | xargs -P "$(nproc)" -I ROW sh -c '
  folder=$1 bench=$2 row=$3
  shift 3
  "$bench" "$@" "$row" >"$folder/$row.txt" 2>&1
  echo $? >"$folder/$row.status"' sh "$results" "$bench" ROW "${form[@]}"

failed=0
for row in "${wanted[@]}"; do
  cat "$results/$row.txt"
  status=$(cat "$results/$row.status" 2>/dev/null || echo 2)
  if [[ -n ${open[$row]-} && ${#named[@]} == 0 ]]; then
    if ((status == 0)); then
      echo "          $row: kept; tests/flood/open.txt need not name it"
    else
      echo "          $row: open, because ${open[$row]}"
    fi
  elif ((status != 0)); then
    ((++failed))
    ((status == 1)) || echo "          $row: ended with status $status"
  fi
done
if ((${#named[@]} == 0 && ${#form[@]} == 0)); then
  for row in "${rows[@]}"; do
    [[ -z ${open[$row]-} ]] || echo "open: $row: ${open[$row]}"
  done
fi
echo "${#wanted[@]} floods, $failed failed"
((failed == 0))
