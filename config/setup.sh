#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the packages that Debian 12 lacks to build, run, test or measure dpdk-ipoib; vm is for
# tests/vm.
#   config/setup.sh [build|run|test|vm|perf]...      (default: run; each includes build)
# Calls apt only if a package is missing, so a second call takes no time.
set -euo pipefail

build=(g++ meson ninja-build pkg-config libdpdk-dev libnuma-dev libisal-dev libpcap-dev libmnl-dev
  libfmt-dev libexpected-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libibumad-dev libibverbs-dev libsystemd-dev prometheus-cpp-dev)
run=(iproute2 iputils-ping procps iperf3 ethtool python3)
test=(gdb libgtest-dev libgmock-dev libbenchmark-dev tshark arping clang-14 libclang-rt-14-dev clang-format clang-tidy-14 shellcheck ccache git opensm ibsim-utils
  libumad2sim0 infiniband-diags systemd dpdk-dev python3-prometheus-client frr bird2 keepalived
  lldpd dnsmasq-base udhcpc)
vm=(libgtest-dev libgmock-dev qemu-system-x86 busybox-static cpio kmod ibverbs-providers python3-pyverbs)
perf=(libbenchmark-dev dpdk-dev iproute2 iputils-ping procps ethtool python3)

wanted=("${build[@]}")
for profile in "${@:-run}"; do
  case $profile in
    build) ;;
    run) wanted+=("${run[@]}") ;;
    test) wanted+=("${run[@]}" "${test[@]}") ;;
    vm) wanted+=("${run[@]}" "${vm[@]}") ;;
    perf) wanted+=("${perf[@]}") ;;
    *) echo "usage: $0 [build|run|test|vm|perf]..." >&2; exit 2 ;;
  esac
done

# Only the status `ii` means installed. dpkg-query prints nothing for an unknown package.
installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${wanted[@]}" 2>/dev/null |
  awk '$1 == "ii" { print $2 }' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)); then
  echo "$0: cannot install missing packages without root: ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
# Tests start these daemons in network namespaces of their own. Debian would also start them on this machine.
for service in frr bird2:bird keepalived lldpd; do
  grep -qxF -- "${service%:*}" <<<"$(printf '%s\n' "${missing[@]}")" || continue
  [[ ! -d /run/systemd/system ]] || systemctl --quiet mask "${service#*:}.service"
done
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
