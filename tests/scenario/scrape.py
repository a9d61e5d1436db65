#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads a node's metrics like Prometheus. Needs Debian's client library for Python, hence Debian's python3.

scrape.py PORT EXPRESSION        prints the value of a Python expression; m(NAME, LABEL=VALUE, ...) is the sum of the
                                 series with these labels, `names` has the names of all samples
scrape.py PORT --load SECONDS    twenty clients scrape without a pause, two more connect and send nothing, and one
                                 never reads its answers; prints the number of scrapes
scrape.py PORT --garbage         sends requests that are not HTTP or ask for other pages; none may get an answer 200
scrape.py PORT --dashboard FILE  checks that a Grafana dashboard can be imported and that all its metrics exist
"""
import http.client
import json
import re
import socket
import sys
import threading
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

ADDRESS = "127.0.0.1"
CLIENTS = 20
# The node may answer with numbers of this age; after this time, it answers with those of now.
MAX_AGE_S = 1.0


def scrape(port):
    """Returns every family by name. Text that is not in the exposition format is an error."""
    with urllib.request.urlopen(f"http://{ADDRESS}:{port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    families = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in families, f"{family.name} twice"
        assert family.documentation, f"{family.name} has no help"
        assert family.type != "unknown", f"{family.name} has no type"
        assert family.samples, f"{family.name} has no series"
        families[family.name] = family
    return families


def samples_of(families):
    return [sample for family in families.values() for sample in family.samples]


def evaluate(port, expression):
    time.sleep(MAX_AGE_S)
    samples = samples_of(scrape(port))

    def m(name, **labels):
        found = [s.value for s in samples
                 if s.name == name and all(s.labels.get(key) == value for key, value in labels.items())]
        if not found:
            sys.exit(f"no {name} with {labels}")
        value = sum(found)
        return int(value) if value == int(value) else value

    print(eval(expression, {"m": m, "names": sorted({s.name for s in samples})}))


def load(port, seconds):
    """Loads the endpoint with clients. If the node ends, the clients end too."""
    silent = [socket.create_connection((ADDRESS, port)) for _ in range(2)]
    deaf = socket.create_connection((ADDRESS, port))
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    end = time.monotonic() + seconds
    counts = [0] * CLIENTS
    faults = []

    def client(i):
        while time.monotonic() < end:
            try:
                families = scrape(port)
            except (OSError, http.client.HTTPException):
                return
            if families["ipoib_up"].samples[0].value == 1 and "ipoib_worker_busy_seconds" not in families:
                faults.append(sorted(families))
            counts[i] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in silent + [deaf]:
        connection.close()
    if faults:
        sys.exit(f"half an answer: {faults[0]}")
    print(sum(counts))


def garbage(port):
    requests = [
        b"\0" * 500, b"\xff\xfe rubbish\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /../../../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\nx",
        b"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", b"DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT example.org:80 HTTP/1.1\r\n\r\n", b"GET http://example.org/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    for request in requests:
        with socket.create_connection((ADDRESS, port)) as connection:
            connection.settimeout(20)
            answer = b""
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    answer += part
            except OSError:
                pass
        status = answer.split(b"\r\n")[0]
        assert b" 200 " not in status and b"ipoib_" not in answer and b"root:" not in answer, (request[:80], answer[:200])


def panels_of(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def check_dashboard(port, path):
    with open(path) as file:
        dashboard = json.load(file)
    assert dashboard["uid"] and dashboard["title"] and dashboard["schemaVersion"] >= 36
    assert dashboard.get("id") is None, "an id is the importing server's to give"
    variables = {v["name"]: v for v in dashboard["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"

    families = scrape(port)
    labels = {}
    for sample in samples_of(families):
        labels.setdefault(sample.name, set()).update(sample.labels)
    queries = [v["query"]["query"] for v in variables.values() if v["type"] == "query"]
    ids, places = set(), set()
    for panel in panels_of(dashboard):
        assert panel["id"] not in ids, panel["id"]
        ids.add(panel["id"])
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert x < 24 and (x, y) not in places, f"{panel['title']} lies over another"
                places.add((x, y))
        if panel["type"] == "row":
            continue
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert panel["targets"], f"{panel['title']} asks for nothing"
        queries += [target["expr"] for target in panel["targets"]]

    asked = set()
    for query in queries:
        names = re.findall(r"\b(?:ipoib|process)_[a-z0-9_]+", query)
        assert names, query
        asked.update(names)
        for name in names:
            assert name in labels, f"{name} of {query} is nowhere"
        # The labels of selectors and groups must exist, except those that Prometheus adds.
        used = set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)", query))
        for group in re.findall(r"\b(?:by|on|group_left)\s*\(([^)]*)\)", query):
            used.update(word.strip() for word in group.split(",") if word.strip())
        known = set().union(*(labels[name] for name in names)) | {"job", "instance", "le"}
        assert used <= known, f"{used - known} of {query} is no label of {names}"
    print(f"{len(ids)} panels, {len(queries)} queries of {len(asked)} metrics")


def main():
    port = int(sys.argv[1])
    if sys.argv[2] == "--load":
        load(port, float(sys.argv[3]))
    elif sys.argv[2] == "--garbage":
        garbage(port)
    elif sys.argv[2] == "--dashboard":
        check_dashboard(port, sys.argv[3])
    else:
        evaluate(port, sys.argv[2])


main()
