#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Checks the files that `meson install` installs, and the unit with systemd's own tools.
# shows: P-12
set -euo pipefail
source "$(dirname "$0")/lib.sh"

lab_begin install
root=$LAB_DIR/root
DESTDIR=$root meson install -C "$IPOIB_BUILD" --no-rebuild --quiet
prefix=$root$(meson introspect --buildoptions "$IPOIB_BUILD" |
  json '[o["value"] for o in d if o["name"] == "prefix"][0]')

expect "the program" "$("$prefix/bin/dpdk-ipoib" -- --version | cut -d' ' -f1)" dpdk-ipoib
"$prefix/bin/ipoib-cli" "$LAB_DIR/nobody" 2>"$LAB_DIR/said" && fail "ipoib-cli talks to nobody"
expect_text "ipoib-cli" "$(cat "$LAB_DIR/said")" '^ipoib-cli: .*nobody'
doc=$prefix/share/doc/dpdk-ipoib
for file in README.md CONTRIBUTING.md LICENSE app/{manual,configuration,cli,options,telemetry}.md {lib,perf}/README.md; do
  cmp "$IPOIB_ROOT/$file" "$doc/$file"
done
grep -oP '\]\(\K(?!https?:)[^)#]+' "$doc/README.md" | while read -r link; do
  [[ -e $doc/$link ]] || fail "README.md links to $link, which is not installed"
done
cmp "$IPOIB_ROOT/config/grafana-ipoib.json" "$doc/grafana-ipoib.json"
diff -r "$IPOIB_ROOT/config/examples" "$doc/examples"

unit=$prefix/lib/systemd/system/dpdk-ipoib@.service
expect "programs the unit names" "$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$unit")" \
  "${prefix#"$root"}/bin/dpdk-ipoib"
grep -q '@[a-z]*@' "$unit" && fail "not filled in: $(grep '@[a-z]*@' "$unit")"

command -v systemd-analyze >/dev/null || fail "systemd-analyze is not here"
# Verifies the unit under the name of an instance, with the path of the installed program.
instance=$LAB_DIR/dpdk-ipoib@gateway.service
sed "s|^ExecStart=|ExecStart=$root|" "$unit" >"$instance"
said=$(systemd-analyze verify --recursive-errors=no --man=no "$instance" 2>&1) ||
  fail "systemd-analyze verify: $said"
expect "what systemd-analyze has to say" "$said" ""
systemd-analyze security --offline=yes --no-pager --threshold=30 "$instance" >"$LAB_DIR/security" ||
  fail "exposed: $(cat "$LAB_DIR/security")"
tail -n 1 "$LAB_DIR/security"
