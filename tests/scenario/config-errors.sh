#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# --check reports every fault of a configuration file with file, line and column, accepts a good file and prints the
# effective configuration. It starts nothing.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin config
NODES=(a b)
program=$IPOIB_BUILD/app/dpdk-ipoib
check() { timeout 20 "$program" --no-huge -m 64 --no-pci --in-memory -- --check --config "$1" 2>&1; }

cat >"$LAB_DIR/bad.toml" <<'END'
[hca.soft0]
driver = "hard"
wire = "net_null0"
guid = "0x0002c90300000001"
lid = 70000

[link.ib0]
hca = "nowhere"
pkey = 0x8009
adress = ["10.0.0.1/24"]
address = ["10.0.0.1/33"]

[port.eth0]
device = "net_null1"
address = ["10.0.0.300/24"]
mtu = 12

[[route]]
to = "192.168.2.1/24"
via = ["10.0.0.2"]

[tabel]
END
status=0
report=$(check "$LAB_DIR/bad.toml") || status=$?
expect "exit status" "$status" 1
for line in 2 5 8 10 11 15 16 19 22; do
  expect_text "fault of line $line" "$report" "bad\.toml:$line:[0-9]+:"
done
say "$report"

printf '[hca.soft0\nlid = 1\n' >"$LAB_DIR/broken.toml"
report=$(check "$LAB_DIR/broken.toml") && fail "--check accepts a file that is not TOML"
expect_text "syntax error" "$report" 'broken\.toml:1:'
report=$(check "$LAB_DIR/missing.toml") && fail "--check accepts a file that is not there"
expect_text "missing file" "$report" 'missing\.toml'

scenario_config a
report=$(check "$LAB_DIR/a.toml") || fail "--check refuses a good file: $report"
expect_text "what would run" "$report" '^address = \["10\.0\.0\.1/24"\]'
