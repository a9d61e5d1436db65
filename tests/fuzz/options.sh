#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Options of libFuzzer for tests/fuzz/run and tests/run.sh, which read this file.
# shellcheck disable=SC2034  # The readers use the variables.

# libFuzzer measures wall-clock time, so the limits allow for a machine with other work.
# libFuzzer prefers inputs with rare features (entropic), and searches its list of these features for
# each feature of each input. The list has every feature with fewer than 256 hits by default, which
# takes a third to a half of the time of some targets. With the options here it has about 20.
fuzz_limits=(-max_len=4200 -timeout=120 -report_slow_units=120 -rss_limit_mb=4096
  -entropic_feature_frequency_threshold=1 -entropic_number_of_rarest_features=20)
# The inputs of `node` have tens of thousands of features each. libFuzzer spent two thirds of this
# target's time on the rarity of features.
# `node` spent half of the rest on the search for leaks after each input that allocates memory and
# does not free it. Leaks of that target show at the end of the run.
# Longer inputs of the other targets take longer and find little more: `cli` repeats octets itself
# to make long lines, and everything that `prometheus` shows needs 400 octets. The longest inputs
# that `connections`, `multicast` and `node` kept have 195, 129 and 367 octets.
declare -A fuzz_options=(
  [cli]="-max_len=160"
  [connected]="-max_len=512"
  [connections]="-max_len=256"
  [multicast]="-max_len=160"
  [node]="-entropic=0 -detect_leaks=0 -max_len=400"
  [prometheus]="-max_len=512"
  [sa_answers]="-max_len=256"
  [soft_ud]="-max_len=256"
  [tcp_offload]="-max_len=256"
)
