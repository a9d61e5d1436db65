#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A node runs in its unit under a real systemd and is killed by SIGKILL and SIGSEGV at random moments under traffic. It
# always comes back, and the unit never fails. Prints the median and the longest time from a death to the first
# forwarded packet. systemd does not restart a node with a faulty configuration.
#   tests/scenario/crashes.sh [KILLS [SEED]]      (default: 8 1)
# systemd runs in its own namespaces for processes, mounts and cgroups, and in node a's network namespace.
# shows: P-12, P-15
set -euo pipefail
source "$(dirname "$0")/lib.sh"
kills=${1:-8} seed=${2:-1}
NODES=(a b)

lab_begin crashes
[[ -x /lib/systemd/systemd ]] || fail "systemd is not here"
lab_fabric "$CABLE_MTU"
for node in a b; do scenario_host "$node"; done
DESTDIR=$LAB_DIR/root meson install -C "$IPOIB_BUILD" --no-rebuild --quiet
unit=$(find "$LAB_DIR/root" -name 'dpdk-ipoib@.service')
program=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$unit")

mkdir -p "$LAB_DIR/etc" "$LAB_DIR/units" "$LAB_DIR/state"
cp "$unit" "$LAB_DIR/units"
cp "$LAB_DIR/a.toml" "$LAB_DIR/etc/a.toml"
sed 's/^pkey = .*/pkey = 0x8009/; /^\[link/a pkey = 0x8009' "$LAB_DIR/a.toml" >"$LAB_DIR/etc/wrong.toml"
{
  # The unit sets --file-prefix itself.
  printf 'EAL_ARGUMENTS='
  eal_arguments a | tr '\n' ' ' | sed 's/ --file-prefix=[^ ]*//'
  printf '%s ' "$(port_device a)" "$(cable_device a)"
  printf '\nAPP_ARGUMENTS=--idle-policy sleep\n'
  # The unit forbids ptrace(), which the leak sanitizer needs. The signal that kills the node is not a finding.
  [[ -z ${SANITIZER_REPORTS:-} ]] ||
    printf '%s_OPTIONS=log_path=report:detect_leaks=0:handle_segv=0:print_stacktrace=1\n' ASAN UBSAN
} >"$LAB_DIR/etc/a.env"
cp "$LAB_DIR/etc/a.env" "$LAB_DIR/etc/wrong.env"
# The units must not pull in sysinit.target, a default dependency: it would set up this machine and clean it.
alone=$'[Unit]\nDefaultDependencies=no\n'
mkdir "$LAB_DIR/units/dpdk-ipoib@.service.d"
printf '%s' "$alone" | tee "$LAB_DIR/units/lab.target" >"$LAB_DIR/units/dpdk-ipoib@.service.d/lab.conf"

# systemd sees the files of this machine, read-only. Folders that programs write to are in memory or belong to the lab.
# The program is where the unit expects it. The control groups of the units are below one of the lab.
group=$(findmnt -n -t cgroup2 -o TARGET | head -n 1)/$LAB
mkdir "$group"
lab_clean() {
  local inner
  [[ -z ${SANITIZER_REPORTS:-} ]] ||
    find "$LAB_DIR/state" -name 'report*' -exec cp -t "$SANITIZER_REPORTS" {} +
  while read -r inner; do rmdir "$inner" 2>/dev/null || true; done < <(find "$group" -depth -type d)
}
systemd_alone() {
  echo "$BASHPID" >"$group/cgroup.procs"
  # shellcheck disable=SC2016
  exec ip netns exec "$LAB-a" unshare --mount --pid --fork --cgroup --kill-child bash -c 'set -e
    mount --make-rprivate /
    mount -t proc proc /proc
    for folder in /run /etc "$(dirname "$1")" /var/lib /var/tmp /root /tmp; do
      case $folder in
        /etc) mount -t tmpfs tmpfs /mnt; cp -a /etc/. /mnt; mkdir -p /mnt/dpdk-ipoib; cp "$0"/etc/* /mnt/dpdk-ipoib
          mount --move /mnt /etc ;;
        /var/lib) mount --bind "$0/state" "$folder" ;;
        /run) mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system; cp -r "$0"/units/* /run/systemd/system ;;
        "$(dirname "$1")") mount -t tmpfs tmpfs "$folder"; cp "$2" "$1" ;;
        *) mount -t tmpfs tmpfs "$folder" ;;
      esac
    done
    mount -o remount,bind,ro /
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    container=lab exec /lib/systemd/systemd --system --unit=lab.target --log-target=console \
      --show-status=0' "$LAB_DIR" "$program" "$LAB_DIR/root$program"
}
systemd_alone </dev/null >"$LAB_DIR/systemd.log" 2>&1 &
holder=$!
LAB_PIDS+=("$holder")
LAB_LOGS+=(systemd)
systemd_pid() { pgrep -P "$holder" -x systemd; }
wait_for 20 "systemd" systemd_pid
systemd=$(systemd_pid)
manage() { nsenter -t "$systemd" --mount --pid systemctl "$@"; }
property() { manage show "dpdk-ipoib@$1" -p "$2" --value; }
wait_for 20 "systemd to answer" manage show-environment

say "faults of the configuration"
manage start dpdk-ipoib@wrong 2>/dev/null && fail "a node whose P_Key is in no table was started"
expect "state" "$(property wrong ActiveState)" failed
expect "exit status" "$(property wrong ExecMainStatus)" 78
expect "restarts" "$(property wrong NRestarts)" 0

say "$kills kills, seed $seed"
manage start dpdk-ipoib@a || fail "node a did not start: $(manage status dpdk-ipoib@a)"
ln -s "/proc/$systemd/root/run/dpdk-ipoib/a/cli" "$LAB_DIR/a.sock"
scenario_node b
wait_for 30 "the link of node a to come up" link_up a
wait_for 30 "the link of node b to come up" link_up b
ping_all a "$(host_address b)"

flow_begin traffic a send eth0 5 "$(host_address b)"
in_host b "$IPOIB_ROOT/tests/scenario/kill_node.py" "$systemd" eth0 "$(host_address b)" "$kills" "$seed" \
  >"$LAB_DIR/kills.flow" || fail "the node did not come back: $(manage status dpdk-ipoib@a)"
flow_end traffic
expect "state" "$(property a ActiveState)" active
expect "restarts" "$(property a NRestarts)" "$(flow kills 'd["kills"]')"
ping_all a "$(host_address b)"
row "death to first packet through" flow kills \
  '"{outages} deaths: median {median_s:.2f} s, worst {worst_s:.2f} s".format(**d)'
flow kills 'd["median_s"] <= 2' | grep -q True || fail "half of the deaths take more than 2 s"
# The short form runs beside other tests, and a program with sanitizers starts more slowly.
((kills < 100)) || [[ -n ${SANITIZER_REPORTS:-} ]] ||
  expect "outages of more than 2 s" "$(flow kills '", ".join(d["slow"])')" ""
manage stop dpdk-ipoib@a
expect "state after stop" "$(property a ActiveState)" inactive
kill -9 "$systemd"  # The end of the first process of a namespace ends all others.
wait "$holder" 2>/dev/null || true
