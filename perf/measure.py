#!/usr/bin/env python3
"""Packets a second of dpdk-ipoib and of `dpdk-testpmd --forward-mode=io`, on the same ethdevs, lcores
and input, alternating; and the microbenchmarks. See perf/run."""
import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import frames

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = ROOT / "perf/report"
START_TIMEOUT_S = 30
TITLES = {"out": "(a) Ethernet in, IPoIB out", "in": "(b) IPoIB in, Ethernet out"}
TO_REACH = {True: 0.30, False: 0.60}  # With ICRC made or verified; without.


class Failure(Exception):
    pass


def eal_arguments(folder, capture):
    """Management on one CPU, the worker on another where there are two."""
    cpus = sorted(os.sched_getaffinity(0))
    memory = ["--no-huge", "-m", "1024"]
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free") and int(line.split()[1]) >= 512:
            memory = ["-m", "512"]
    return [*memory, "--no-pci", f"--file-prefix={folder.name}",
            "--lcores", f"0@{cpus[0]},1@{cpus[-1]}",
            f"--vdev=net_pcap0,rx_pcap={capture},infinite_rx=1", "--vdev=net_null0,no-rx=1"]


class Process:
    """A program with its output in a file; ended by its own id."""

    def __init__(self, command, log, stdin=subprocess.DEVNULL):
        self.log = log
        self.log_file = open(log, "wb")
        self.process = subprocess.Popen(command, stdin=stdin, stdout=self.log_file,
                                        stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log_file.close()

    def until(self, what, condition):
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Failure(f"ended while waiting for {what}:\n{self.tail()}")
            found = condition()
            if found:
                return found
            time.sleep(0.02)
        raise Failure(f"no {what} within {START_TIMEOUT_S} s:\n{self.tail()}")

    def worker_seconds(self):
        """CPU time of the worker lcore's thread so far: it polls, so all of it is forwarding."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            if re.search(r"worker", (task / "comm").read_text()):
                return int((task / "schedstat").read_text().split()[0]) / 1e9
        raise Failure(f"no worker thread:\n{self.tail()}")

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])


class Testpmd(Process):
    """Forwards port 0 (pcap) to port 1 (null), unread."""

    def __init__(self, folder, capture):
        super().__init__(["stdbuf", "-oL", "dpdk-testpmd", *eal_arguments(folder, capture), "--", "-i",
                          "--forward-mode=io", "--nb-cores=1", "--total-num-mbufs=16384"],
                         folder / "testpmd.log", subprocess.PIPE)
        self.asked = 0
        self.ask("start")

    def ask(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def sent(self):
        self.ask("show port stats 1")
        self.asked += 1
        counts = self.until("statistics", lambda: (
            lambda found: found if len(found) >= self.asked else None)(
                re.findall(r"TX-packets: (\d+)", self.log.read_text(errors="replace"))))
        return int(counts[self.asked - 1])

    def lost(self):
        return 0


class Node(Process):
    """dpdk-ipoib; `direction` says which of its interfaces sends."""

    def __init__(self, program, folder, capture, direction, icrc):
        self.direction = direction
        self.socket = folder / "cli"
        config = folder / "node.toml"
        config.write_text(frames.configuration(direction, icrc))
        super().__init__([program, *eal_arguments(folder, capture), "--", "--config", str(config),
                          "--cli-socket", str(self.socket), "--total-num-mbufs=16384", "-a"],
                         folder / "node.log")
        self.until("answer", self.socket.exists)
        self.until("link", lambda: self.ask("show link json")[0]["state"] == "up")

    def ask(self, command):
        answer = subprocess.run([ROOT / "config/ipoib-cli", self.socket, command],
                                capture_output=True, text=True, timeout=20)
        if answer.returncode:
            raise Failure(f"{command}: {answer.stderr}\n{self.tail()}")
        return json.loads(answer.stdout)

    def sent(self):
        return self.ask("show link json" if self.direction == "out" else "show port json")[0]["tx_packets"]

    def lost(self):
        return sum(row["packets"] for row in self.ask("show drops json"))


def rate_of(process, seconds):
    """Packets a second of the worker's CPU time and the share lost, over `seconds`, once packets flow.
    On a machine with nothing else to do the worker has all the time there is; on a busy one its
    own time is what compares."""
    first = process.sent()
    process.until("packets", lambda: process.sent() > first + 100000)
    lost = process.lost()
    begin, worker, sent = time.monotonic(), process.worker_seconds(), process.sent()
    time.sleep(seconds)
    took, worker, sent = (time.monotonic() - begin, process.worker_seconds() - worker,
                          process.sent() - sent)
    lost = process.lost() - lost
    return {"packets_per_second": sent / worker, "cpu_share": worker / took,
            "lost_share": lost / max(1, sent + lost)}


def measure(make, seconds):
    with tempfile.TemporaryDirectory(prefix="ipoib-perf-") as name:
        folder = pathlib.Path(name)
        try:
            with make(folder) as process:
                return rate_of(process, seconds)
        finally:
            shutil.rmtree(pathlib.Path("/run/dpdk") / folder.name, ignore_errors=True)


def throughput(options, inputs):
    """Every repetition measures testpmd and the node with and without ICRC, so drift hits all alike."""
    program = options.build / "app/dpdk-ipoib"
    runs = []
    for repetition in range(options.repetitions):
        for direction in ("out", "in"):
            capture = inputs / f"{direction}.pcap"
            row = {"repetition": repetition, "direction": direction}
            row["testpmd"] = measure(lambda folder: Testpmd(folder, capture), options.seconds)
            for icrc in (True, False):
                row["icrc" if icrc else "no_icrc"] = measure(
                    lambda folder: Node(program, folder, capture, direction, icrc), options.seconds)
            runs.append(row)
            print(f"  {TITLES[direction]}: " + ", ".join(
                f"{key} {row[key]['packets_per_second'] / 1e6:.2f}"
                for key in ("testpmd", "icrc", "no_icrc")) + " million packets/s", flush=True)
    return runs


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(runs):
    rows = []
    for direction in TITLES:
        of_direction = [run for run in runs if run["direction"] == direction]
        for icrc, needed in TO_REACH.items():
            key = "icrc" if icrc else "no_icrc"
            ratio = spread([run[key]["packets_per_second"] / run["testpmd"]["packets_per_second"]
                            for run in of_direction])
            rows.append({
                "what": TITLES[direction], "icrc": icrc, "ratio": ratio, "to_reach": needed,
                "reached": ratio["median"] >= needed,
                "packets_per_second": spread([run[key]["packets_per_second"] for run in of_direction]),
                "testpmd_packets_per_second": spread(
                    [run["testpmd"]["packets_per_second"] for run in of_direction]),
                "lost_share": max(run[key]["lost_share"] for run in of_direction)})
    return rows


def microbenchmarks(build):
    rows = []
    for program in sorted((build / "perf").rglob("*_bench")):
        answer = subprocess.run([program, "--benchmark_format=json", "--benchmark_min_time=0.2"],
                                capture_output=True, text=True, timeout=300)
        if answer.returncode:
            raise Failure(f"{program.name}: {answer.stderr[-2000:]}")
        for row in json.loads(answer.stdout)["benchmarks"]:
            rows.append({"program": program.name, "name": row["name"], "ns": row["cpu_time"],
                         "items_per_second": row.get("items_per_second"),
                         "bytes_per_second": row.get("bytes_per_second"),
                         "tsc_per_pkt": row.get("tsc_per_pkt")})
    return rows


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    output = lambda *command: subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    return {"cpu": cpu[1] if cpu else platform.machine(), "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "dpdk": output("pkg-config", "--modversion", "libdpdk"),
            "dirty": bool(output("git", "status", "--porcelain", "-uno")),
            "commit": output("git", "rev-parse", "--short", "HEAD")}


def text_of(report):
    about = report["machine"]
    shares = [run[key]["cpu_share"] for run in report["runs"] for key in ("testpmd", "icrc", "no_icrc")]
    lines = [
        "dpdk-ipoib beside dpdk-testpmd (io), one worker lcore",
        f"{about['cpu']}, {about['cpus']} CPUs, Linux {about['kernel']}, DPDK {about['dpdk']}, "
        f"commit {about['commit']}{' and changes' if about['dirty'] else ''}",
        f"{frames.IP_OCTETS}-octet IPv4 packets, {frames.FLOWS} flows, {frames.NEIGHBOURS} neighbours, "
        f"{report['repetitions']} repetitions of {report['seconds']} s; median (least-most)",
        f"per second of the worker's CPU time; it had {min(shares):.0%}-{max(shares):.0%} of a CPU", "",
        f"{'':28} {'ICRC':4} {'Mpkt/s':>6} {'testpmd':>8} {'ratio':>6}  {'spread':11} {'to reach':8}"]
    for row in report["throughput"]:
        ratio = row["ratio"]
        lines.append(
            f"{row['what']:28} {'on' if row['icrc'] else 'off':4} "
            f"{row['packets_per_second']['median'] / 1e6:6.2f} "
            f"{row['testpmd_packets_per_second']['median'] / 1e6:8.2f} {ratio['median']:6.2f}  "
            f"({ratio['least']:.2f}-{ratio['most']:.2f}) {row['to_reach']:8.2f} "
            f"{'pass' if row['reached'] else 'FAIL'}"
            + (f"  {row['lost_share']:.1%} lost" if row["lost_share"] > 0.001 else ""))
    lines += ["", f"{'microbenchmark':56} {'ns':>10} {'M items/s':>10} {'TSC/pkt':>8}"]
    for row in report["microbenchmarks"]:
        items = f"{row['items_per_second'] / 1e6:10.2f}" if row["items_per_second"] else " " * 10
        cycles = f"{row['tsc_per_pkt']:8.1f}" if row["tsc_per_pkt"] else ""
        lines.append(f"{row['name']:56} {row['ns']:10.2f} {items} {cycles}".rstrip())
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    report = {"machine": machine(), "repetitions": options.repetitions, "seconds": options.seconds}
    with tempfile.TemporaryDirectory(prefix="ipoib-perf-input-") as name:
        inputs = pathlib.Path(name)
        (inputs / "out.pcap").write_bytes(frames.ethernet_input())
        (inputs / "in.pcap").write_bytes(frames.infiniband_input())
        report["runs"] = throughput(options, inputs)
    report["throughput"] = ratios(report["runs"])
    report["microbenchmarks"] = microbenchmarks(options.build)
    REPORT.mkdir(parents=True, exist_ok=True)
    (REPORT / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    text = text_of(report)
    (REPORT / "report.txt").write_text(text)
    print(text, end="")
    return 0 if all(row["reached"] for row in report["throughput"]) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"perf: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)
