"""The cost of the service compared with applications that do nothing, in one run; see benchmarks/README.md.

All run under uvicorn with the same settings, one process each, and get their load from wrk over loopback. Appends to
results/serve.jsonl. Needs wrk, which is a Debian package.
"""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import measure
import numpy as np

import tessella as ts
from tessella.serve.app import TOO_LATE
from tessella.store import Store

BARE_GOAL, STARLETTE_GOAL, SLOW_GOAL, CHURN_GOAL = 0.5, 0.75, 5.0, 0.7
PORT = 18_080
N_USERS, N_SEEN = 10_000, 50
REPLACED, AT_ONCE = 1_000, 20  # items per second, and per request
QUICK = Path(__file__).parents[1] / "build" / "bench-quick"
ASK = """
math.randomseed(7)
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function()
  return wrk.format(nil, "/v1/recommend", nil, '{"user": ' .. math.random(0, %d) .. '}')
end
"""


@contextmanager
def serving(name: str, store: Path, *, granian: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Run an application in its own process, and wait until it answers."""
    environment = os.environ | {"TESSELLA_BENCH_APP": name, "TESSELLA_BENCH_STORE": str(store)}
    command = [sys.executable, str(Path(__file__).with_name("serve_apps.py")), str(PORT)]
    if granian:
        command = [str(Path(sys.executable).with_name("granian")), "--interface", "asgi", "--port", str(PORT),
                   "--loop", "uvloop", "--no-ws", "--log-level", "warning", "serve_apps:app"]  # fmt: skip
    process = subprocess.Popen(command, env=environment, cwd=Path(__file__).parent)
    try:
        until = time.monotonic() + 120
        while asked() is None:
            if process.poll() is not None or time.monotonic() > until:
                sys.exit(f"The application {name} did not start.")
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


def asked(user: int = 1) -> float | None:
    """Return the seconds of one request; None if there was no answer."""
    body = json.dumps({"user": user}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/recommend", body, {"Content-Type": "application/json"}
    )
    start = time.perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
    except (urllib.error.URLError, OSError):
        return None
    return time.perf_counter() - start


def wrk(seconds: float, script: Path, connections: int = 32) -> dict[str, float]:
    """Return requests per second, and latencies in milliseconds."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s", "--latency", "-s", str(script),
               f"http://127.0.0.1:{PORT}/v1/recommend"]  # fmt: skip
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    units = {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}
    half, slow = (
        float(number) * units[unit]
        for number, unit in (re.search(rf"{share}%\s+([\d.]+)(us|ms|s|m)", said).groups() for share in (50, 99))
    )
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    broken = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", said)
    return {
        "per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", said).group(1)),
        "p50_ms": half,
        "p99_ms": slow,
        "refused": float(bad.group(1)) if bad else 0.0,
        "broken": float(sum(map(int, broken.groups()))) if broken else 0.0,
    }


def figures() -> dict[str, int]:
    """Return the number of answers by status, from the service's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = re.findall(r'tessella_requests_total\{route="POST /v1/recommend",status="(\w+)"\} ([\d.e+]+)', text)
    other = re.findall(r'tessella_requests_total\{route="other",status="(\w+)"\} ([\d.e+]+)', text)
    counts: dict[str, int] = {}
    for status, count in [*found, *other]:
        counts[status] = counts.get(status, 0) + int(float(count))
    return counts


def memory(process: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process in MiB."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


def races(store: Path, script: Path, options: argparse.Namespace) -> dict[str, object]:
    """Measure the service and the applications that do nothing, in turns."""
    found: dict[str, list[dict[str, float]]] = {"service": [], "bare": [], "starlette": []}
    for turn in range(options.turns):
        for name, listed in found.items():
            with serving(name, store):
                wrk(1, script)
                listed.append(wrk(options.seconds, script))
            if sys.stderr.isatty():
                print(f"\r\033[K{turn + 1}/{options.turns} {name}", end="", file=sys.stderr)
    ratios = {
        name: statistics.median(
            ours["per_second"] / theirs["per_second"]
            for ours, theirs in zip(found["service"], found[name], strict=True)
        )
        for name in ("bare", "starlette")
    }
    slow = statistics.median(one["p99_ms"] / one["p50_ms"] for one in found["service"])
    speeds = {name: statistics.median(one["per_second"] for one in listed) for name, listed in found.items()}
    listed = ", ".join(f"{name} {speed:,.0f}/s" for name, speed in speeds.items())
    print(f"\n{listed}")
    print(f"of a bare ASGI application: {ratios['bare']:.2f}{measure.goal(ratios['bare'], least=BARE_GOAL)}")
    print(f"of a Starlette no-op: {ratios['starlette']:.2f}{measure.goal(ratios['starlette'], least=STARLETTE_GOAL)}")
    print(f"p99 over p50: {slow:.2f}{measure.goal(slow, most=SLOW_GOAL)}")
    return {"part": "race", "runs": found, "ratios": ratios, "p99_over_p50": slow}


def by_granian(store: Path, script: Path, options: argparse.Namespace) -> dict[str, object]:
    """Measure the applications under Granian instead of uvicorn."""
    found = {}
    for name in ("service", "bare"):
        with serving(name, store, granian=True):
            wrk(1, script)
            found[name] = wrk(options.seconds, script)
    print(
        f"under Granian: service {found['service']['per_second']:,.0f}/s, "
        f"bare ASGI {found['bare']['per_second']:,.0f}/s"
    )
    return {"part": "granian", "runs": found}


def churn(store: Path, script: Path, options: argparse.Namespace) -> dict[str, object]:
    """Measure requests per second while items are replaced, relative to an idle service, in turns."""
    quiet, busy, rates = [], [], []
    with serving("service", store):
        wrk(1, script)
        for _ in range(options.turns):
            quiet.append(wrk(options.seconds, script))
            command = [
                sys.executable,
                __file__,
                "--replace",
                str(options.seconds),
                "--items",
                str(options.items),
                "--width",
                str(options.width),
            ]
            writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            busy.append(wrk(options.seconds, script))
            rates.append(float(writer.communicate()[0]))
    ratio = statistics.median(one["per_second"] / other["per_second"] for one, other in zip(busy, quiet, strict=True))
    print(
        f"while {statistics.median(rates):,.0f} items/s are replaced: {ratio:.2f}"
        f"{measure.goal(ratio, least=CHURN_GOAL)}"
    )
    return {"part": "churn", "quiet": quiet, "busy": busy, "replaced_per_second": rates, "ratio": ratio}


def replace(seconds: float, n_items: int, width: int) -> None:
    """Replace items at a steady pace over HTTP, and print how many per second were acknowledged."""
    rng = np.random.default_rng(1)
    bodies = []
    for _ in range(50):
        ids = rng.choice(n_items, AT_ONCE, replace=False).tolist()
        vectors = np.round(rng.normal(size=(AT_ONCE, width)) / 3, 4).tolist()
        items = [{"id": item, "factors": vector} for item, vector in zip(ids, vectors, strict=True)]
        bodies.append(json.dumps({"items": items}).encode())
    begun, done, stop = time.monotonic(), [0], threading.Event()

    def work() -> None:
        while not stop.is_set():
            if done[0] * AT_ONCE > (time.monotonic() - begun) * REPLACED:
                time.sleep(0.002)
                continue
            body = bodies[done[0] % len(bodies)]
            done[0] += 1
            request = urllib.request.Request(
                f"http://127.0.0.1:{PORT}/v1/items", body, {"Content-Type": "application/json"}, method="PUT"
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer.read()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    print(done[0] * AT_ONCE / (time.monotonic() - begun))


def overload(store: Path, script: Path, options: argparse.Namespace) -> dict[str, object]:
    """Open twice as many connections as the service accepts before it rejects requests, then rest for a second."""
    with serving("service", store) as process:
        wrk(1, script)
        usual = wrk(5, script)
        connections = int(min(2 * usual["per_second"] * TOO_LATE, 12_000))
        before = figures()
        sizes = []
        first = wrk(5, script, connections)
        begun = time.monotonic()
        while time.monotonic() - begun < options.overload:
            sizes.append(memory(process))
            under = wrk(min(20.0, options.overload), script, connections)
        time.sleep(1)
        after = wrk(3, script)
        counts = {status: count - before.get(status, 0) for status, count in figures().items()}
    wrong = {status: count for status, count in counts.items() if status not in ("200", "429")}
    grown = max(sizes) / sizes[0] - 1
    back = after["per_second"] / usual["per_second"]
    print(
        f"{options.overload:g} s with {connections:,} connections: {counts.get('200', 0):,} answers, "
        f"{counts.get('429', 0):,} rejected, {sum(wrong.values()):,} other errors"
        f"{measure.goal(sum(wrong.values()), most=0)}; broken connections {under['broken']:.0f}; "
        f"memory {sizes[0]:.0f} MiB, {grown:+.1%}; a second later {back:.2f} of the usual speed"
    )
    return {"part": "overload", "connections": connections, "seconds": options.overload, "counts": counts,
            "memory": sizes, "usual": usual, "first": first, "under": under, "after": after}  # fmt: skip


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of one run of wrk")
    parser.add_argument("--overload", type=float, default=600.0, help="seconds of overload")
    parser.add_argument("--parts", default="race,granian,churn,overload")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows only that it works")
    parser.add_argument("--replace", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replace is not None:
        replace(options.replace, options.items, options.width)
        return
    if shutil.which("wrk") is None:
        sys.exit("bench-serve needs wrk, which generates the load; on Debian: apt-get install wrk")
    measure.settle_process()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 32_768)), hard))
    if options.quick:
        options.items, options.turns, options.seconds, options.overload = 5_000, 1, 2.0, 5.0
    parts = {"race": races, "granian": by_granian, "churn": churn, "overload": overload}
    with tempfile.TemporaryDirectory() as folder:
        store, script = Path(folder) / "bench.db", Path(folder) / "ask.lua"
        script.write_text(ASK % (N_USERS - 1))
        items, users = ts.datasets.generated_factors(options.items, N_USERS, options.width)
        rng = np.random.default_rng(0)
        seen = [rng.choice(options.items, N_SEEN, replace=False) for _ in range(N_USERS)]
        with Store.open(store) as made:
            made.publish(items, users, name="a", seen=seen, progress=False)
        for part in options.parts.split(","):
            if part == "granian" and not Path(sys.executable).with_name("granian").exists():
                print("Granian is not installed, so its row is skipped.")
                continue
            measure.record("serve", parts[part](store, script, options), QUICK if options.quick else measure.RESULTS)


if __name__ == "__main__":
    main()
