#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs missing packages, builds, and runs every test that this machine can run. Names the tests that it cannot
# run, and why. Ends with `N passed, N failed`: GoogleTest cases, checks, fuzz targets, benchmarks and scripts, each
# counted once per build. The status is 0 if nothing failed.
#   tests/run.sh [--sanitized] [--long] [WORD]...   runs the steps whose name contains one of the words (default: all)
# --sanitized: runs only tests/scenario, all of it, with a program that has the address, undefined-behaviour and
#   leak sanitizers. Without the option a few of these scripts run so too. tests/lab never does, because libumad2sim,
#   which shows its programs a simulated subnet, overflows its own buffers; nor does tests/vm, because its machine
#   is slow already.
# --long: also runs the steps that take too long for CI. Without the option, a line at the end lists them.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

sanitized=0
long=0
only=()
for argument; do
  case $argument in
    --sanitized) sanitized=1 ;;
    --long) long=1 ;;
    -*) sed -n '3,/^set /s/^# \?//p' tests/run.sh >&2; exit 2 ;;
    *) only+=("$argument") ;;
  esac
done
passed=0
failed=0
not_run=()
left_out=
built=0
step_pid=
beside_pid=

config/setup.sh test || exit 1
mkdir -p build/tests
exec 9>build/tests/.lock
flock 9
: >build/tests/passed.txt
rm -f build/tests/{clang,tsan}-built
export CCACHE_STATSLOG=$PWD/build/tests/ccache.log
: >"$CCACHE_STATSLOG"

interrupted() {
  local pid
  for pid in $step_pid $beside_pid; do kill "$pid" 2>/dev/null && wait "$pid"; done
  exit 130
}
trap interrupted INT TERM HUP

sanitized_build="build with clang, sanitizers, fuzz targets"
wanted() {
  local word
  if ((sanitized)); then
    [[ $1 == "$sanitized_build" ]] && return 0
    [[ $1 == "sanitized "* ]] || return 1
  fi
  ((${#only[@]})) || return 0
  for word in "${only[@]}"; do [[ $1 == *"$word"* ]] && return 0; done
  return 1
}

# run SECONDS LOG COMMAND...: runs the command in its own process group, so that a timeout or Ctrl-C ends all of it.
run() {
  local seconds=$1 log=$2
  shift 2
  timeout --kill-after=20 "$seconds" "$@" >"$log" 2>&1 </dev/null 9>&- &
  step_pid=$!
  wait "$step_pid"
  local status=$?
  step_pid=
  return $status
}

# step NAME SECONDS COMMAND...: runs a command as one test, which passes or fails.
step() {
  local name=$1 seconds=$2 log begin=$SECONDS status
  shift 2
  wanted "$name" || return 0
  log=build/tests/${name//[^A-Za-z0-9_.-]/_}.log
  run "$seconds" "$log" "$@"
  status=$?
  if ((status == 0)); then
    ((++passed))
    printf 'ok      %s (%d s)\n' "$name" $((SECONDS - begin))
    echo "$name" >>build/tests/passed.txt
    return 0
  fi
  ((++failed))
  ((status == 124)) && echo "ended after $seconds s" >>"$log"
  printf 'FAILED  %s (status %d)\n' "$name" "$status"
  tail -n 60 "$log" | sed 's/^/        /'
  return 1
}

cannot() { not_run+=("$1: $2"); }

# long_step NAME SECONDS COMMAND...: a step that takes too long for CI and runs only with --long.
long_step() {
  if ((long)); then
    step "$@"
  elif wanted "$1"; then
    left_out+="${left_out:+, }$1"
  fi
}

# Runs the scripts of tests/scenario, sanitized. CI has time only for those that cover most of the code.
sanitized_in_ci=" cli connected ipv6 multicast "
sanitized_scenarios() {
  local script name kind
  for script in tests/scenario/*.sh; do
    name=$(basename "$script" .sh)
    kind=long_step
    ((sanitized)) || [[ $sanitized_in_ci == *" $name "* ]] && kind=step
    [[ $name == lib ]] || "$kind" "sanitized $script" 400 tests/sanitized "$script"
  done
}

# beside FUNCTION: runs the steps of the function side by side with those that follow, up to join_beside.
beside() {
  rm -f build/tests/beside.counts
  # shellcheck disable=SC2030
  (
    passed=0 failed=0
    trap interrupted INT TERM HUP
    "$1"
    echo "$passed $failed" >build/tests/beside.counts
  ) >build/tests/beside.log 2>&1 &
  beside_pid=$!
}

# Prints the results of the steps that ran beside, and counts them.
join_beside() {
  local more_passed=0 more_failed=1
  wait "$beside_pid"
  beside_pid=
  cat build/tests/beside.log
  if [[ -s build/tests/beside.counts ]]; then
    read -r more_passed more_failed <build/tests/beside.counts
  else
    echo "FAILED  the steps beside these ended without a result"
  fi
  # shellcheck disable=SC2031
  passed=$((passed + more_passed)) failed=$((failed + more_failed))
}

# The order of the cases of each program is random. GTEST_RANDOM_SEED repeats an order.
seed=${GTEST_RANDOM_SEED:-$((RANDOM + 1))}

# unit_tests FOLDER SECONDS [PROGRAM]...: runs the programs of a build, or some of them, and counts each GoogleTest
# case as one test.
unit_tests() {
  local folder=$1 seconds=$2 log=build/tests/unit-$1.log counts names begin=$SECONDS
  shift 2
  wanted "unit tests $folder" || return 0
  rm -f "$folder"/meson-logs/testlog.junit.xml
  run "$seconds" "$log" env GTEST_SHUFFLE=1 GTEST_RANDOM_SEED="$seed" meson test -C "$folder" \
    --suite unit --no-rebuild --print-errorlogs --timeout-multiplier 4 "$@"
  local status=$?
  names=build/tests/cases-$folder.txt
  counts=$(tests/gtest_cases.py "$folder/meson-logs/testlog.junit.xml" "$status" "$names") ||
    counts="0 1"
  passed=$((passed + ${counts% *}))
  failed=$((failed + ${counts#* }))
  while read -r verdict case; do
    case $verdict in
      ok) [[ $folder == build ]] && echo "$case" >>build/tests/passed.txt ;;
      skipped) cannot "${case%% *} ($folder)" "${case#* }" ;;
      failed) printf 'FAILED  %s (%s)\n' "$case" "$folder" ;;
    esac
  done <"$names"
  if [[ ${counts#* } == 0 ]]; then
    printf 'ok      unit tests %s: %d cases, shuffled with GTEST_RANDOM_SEED=%d (%d s)\n' "$folder" \
      "${counts% *}" "$seed" $((SECONDS - begin))
  else
    tail -n 150 "$log" | sed 's/^/        /'
    echo "        repeated in this order by GTEST_RANDOM_SEED=$seed"
  fi
}

step "check commits" 60 tests/check-commits
step "check licence" 60 tests/check-licence
step "check prose" 60 tests/check-prose
step "check includes" 60 tests/check-includes
step "check contracts" 60 tests/check-contracts
step "check citations" 60 tests/check-citations
step "check headers" 900 tests/check-headers
step "check scripts" 300 tests/check-scripts
step "check formatting" 120 tests/check-formatting

step "build" 3000 config/build.sh build -Dwerror=true -Dtests=true -Dbenchmarks=true && built=1

# The builds with clang, and clang-tidy, which also checks every header that the files include.
sanitized_targets=()
((sanitized)) && sanitized_targets=(-- app/dpdk-ipoib)
clang_steps() {
  # Compilers would take both processors from the tests.
  renice -n 10 "$BASHPID" >/dev/null
  step "$sanitized_build" 3600 env CC="ccache clang-14" CXX="ccache clang++-14" \
    config/build.sh build-clang -Dwerror=true --buildtype=debugoptimized --optimization=1 --unity=on -Dtests=true \
    -Dfuzz=true -Db_lundef=false "${sanitized_targets[@]}" && touch build/tests/clang-built
  if ((long)); then
    step "clang-tidy, all files, with the analyzer" 7200 tests/check-tidy --all
  else
    step "clang-tidy, the program" 2700 tests/check-tidy
  fi
  # Only tests with threads that share data need the thread sanitizer.
  step "build with clang, thread sanitizer" 2700 env CC="ccache clang-14" CXX="ccache clang++-14" \
    config/build.sh build-tsan -Dwerror=true --buildtype=debugoptimized --optimization=1 \
    -Db_sanitize=thread -Dtests=true -Db_lundef=false -- \
    tests/unit/lib/base/unit_base tests/threads/threads_test && touch build/tests/tsan-built
}

# Unit tests replay the corpus; here the fuzzers search for new inputs.
fuzz_steps() {
  local target name found own
  . tests/fuzz/options.sh
  for target in build-clang/tests/fuzz/fuzz_*; do
    [[ -f $target && -x $target ]] || continue
    name=${target##*/fuzz_}
    found=build/tests/corpus/$name
    mkdir -p "$found"
    read -ra own <<<"${fuzz_options[$name]-}"
    step "fuzz $name" 60 "$target" -max_total_time=5 "${fuzz_limits[@]}" "${own[@]}" \
      -artifact_prefix="build/tests/$name-" "$found" "tests/fuzz/corpus/$name"
  done
}

# The tests of the g++ build, which mostly wait.
built_steps() {
  step "check references" 10 tests/check-references
  step "check examples" 60 tests/check-examples
  step "check gdb" 60 tests/check-gdb
  step "check hardening" 120 tests/check-hardening build/app/dpdk-ipoib
  unit_tests build 900
  step "floods" 300 tests/flood/run.sh
  long_step "floods, long" 3600 tests/flood/run.sh --long
  local -x IPOIB_BUILD=$PWD/build  # tests/sanitized chooses its own
  if ((EUID != 0)); then
    cannot "scenarios and quick start" "network namespaces need root"
  else
    local script
    for script in tests/scenario/*.sh tests/lab/*.sh; do
      [[ $script == *lib.sh || $script == */run.sh ]] || step "$script" 240 "$script"
    done
    step "config/quickstart.sh" 240 config/quickstart.sh
    long_step "tests/scenario/crashes.sh, 100 kills" 900 tests/scenario/crashes.sh 100 2
    long_step "tests/scenario/full-table.sh, 1,200,000 prefixes" 1800 tests/scenario/full-table.sh 1000000 200000 60
  fi
  # The virtual machine needs no root, except to install packages.
  if ((sanitized)); then
    return
  elif config/setup.sh vm >build/tests/setup-vm.log 2>&1; then
    for script in tests/vm/*.sh; do
      [[ $script == *lib.sh || $script == */run.sh ]] || step "$script" 900 "$script"
    done
  else
    cannot "tests/vm" "QEMU cannot be installed: $(tail -n 1 build/tests/setup-vm.log)"
  fi
}

beside clang_steps
((built)) && built_steps
join_beside
((long)) || long_step "clang-tidy, all files, with the analyzer"

if [[ -e build/tests/clang-built ]]; then
  beside fuzz_steps
  UBSAN_OPTIONS=print_stacktrace=1 unit_tests build-clang 1500
  ((EUID)) || sanitized_scenarios
  join_beside
  long_step "tests/fuzz/run, half an hour" 3600 tests/fuzz/run 0.5
fi
if [[ -e build/tests/tsan-built ]]; then
  unit_tests build-tsan 600 unit_base threads_test
fi

for benchmark in build/perf/*/*_bench build/perf/*/*/*_bench; do
  [[ -x $benchmark ]] || continue
  step "benchmark $(basename "$benchmark"), once" 120 "$benchmark" --benchmark_min_time=0.001
done

step "a short perf/run" 900 tests/check-perf build build/tests/perf

# Every row of tests/requirements.txt must have a passing test. Only a complete run can check that.
((${#only[@]})) || step "coverage" 10 tests/coverage
((sanitized)) ||
  cannot "drivers/verbs on a host channel adapter" "tests have none; tests/vm runs it on the kernel's rdma_rxe"

((${#not_run[@]})) && printf 'not run %s\n' "${not_run[@]}"
[[ -n $left_out ]] && echo "left out, to be run with --long: $left_out"
# The time says something only together with the state of the compiler cache.
echo "took $((SECONDS / 60)) min; $(grep -cE '^(direct|preprocessed)_cache_hit' "$CCACHE_STATSLOG") objects from the \
compiler cache, $(grep -c '^cache_miss' "$CCACHE_STATSLOG") compiled"
echo "$passed passed, $failed failed"
((failed == 0))
