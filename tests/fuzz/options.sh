#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Options of libFuzzer for tests/fuzz/run and tests/run.sh, which read this file.
# shellcheck disable=SC2034  # The readers use the variables.

# libFuzzer measures wall-clock time, so the limits allow for a machine with other work.
fuzz_limits=(-max_len=4200 -timeout=120 -report_slow_units=120 -rss_limit_mb=4096)
# The inputs of `node` have tens of thousands of features each. libFuzzer spent two thirds of this
# target's time, and a third or more of that of some others, on the rarity of features (entropic).
# `node` spent half of the rest on the search for leaks after each input that allocates memory and
# does not free it. Leaks of that target show at the end of the run.
# Longer inputs of the other targets take longer and find little more: `cli` repeats octets itself
# to make long lines, and everything that `prometheus` shows needs 400 octets.
declare -A fuzz_options=(
  [cli]="-entropic=0 -max_len=160"
  [connected]="-max_len=512"
  [multicast]="-entropic=0"
  [node]="-entropic=0 -detect_leaks=0"
  [prometheus]="-max_len=512"
  [sa_answers]="-entropic=0 -max_len=256"
  [soft_ud]="-entropic=0 -max_len=256"
  [tcp_offload]="-max_len=256"
)
