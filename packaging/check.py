"""Build what is released and try it: `make package`.

Builds the sdist, and from it a wheel for each Python before the stable ABI and one for all others. Installs each into
an empty environment of each Python it is for, runs tests/smoke.py there, and checks names, contents, ABI and metadata
with the tools of tools.txt. Prints the size of each file and the time of `import tessella` beside that of
`import numpy, scipy.sparse`. Ends with 1 at the first thing that is wrong.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
FIRST_STABLE = (3, 12)
SUPPORTED = [(3, minor) for minor in (11, 12, 13, 14)]
LARGEST_WHEEL, LARGEST_SDIST = 1_500_000, 2_000_000  # bytes; well above what is needed, below a stray data set
NUMPY, TESSELLA, HELP = "import numpy, scipy.sparse", "import tessella", "tessella --help"
MOST_TIMES = 2.0  # that tessella may take to import, in imports of numpy and scipy.sparse
HEAVY = ("typer", "rich", "matplotlib", "pyarrow", "starlette", "scipy.linalg")  # `import tessella` does without
Version = tuple[int, int]


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command and give what it printed; end with that if it fails."""
    words = [str(word) for word in command]
    ran = subprocess.run(words, cwd=cwd, check=False, text=True, capture_output=True, env={**os.environ, **environment})
    if ran.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def version_of(python: str | Path) -> Version | None:
    """The version of an interpreter, if it is one that runs and can make environments."""
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-c", code], check=False, text=True, capture_output=True)
    except OSError:
        return None
    return tuple(map(int, ran.stdout.split())) if ran.returncode == 0 else None


def interpreters(named: list[str]) -> dict[Version, Path]:
    """One interpreter of each supported version: those that are named, this one, and what is on the path or pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[Version, Path] = {}
    places: list[str | Path] = [*named, sys.executable]
    for major, minor in SUPPORTED:
        places += [f"python{major}.{minor}", *sorted(pyenv.glob(f"{major}.{minor}.*/bin/python"))]
    for place in places:
        path = shutil.which(place)
        version = version_of(path) if path else None
        if path and version in SUPPORTED:
            found.setdefault(version, Path(path))
        elif place in named:
            sys.exit(f"{place} is no interpreter of Python 3.11 to 3.14 with venv.")
    return dict(sorted(found.items()))


def environment(python: Path, folder: Path) -> Path:
    """The interpreter of an empty environment."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def build(pythons: dict[Version, Path], scratch: Path) -> tuple[Path, dict[Path, list[Version]]]:
    """The sdist, and each wheel with the versions of Python it is for."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST)
    (sdist,) = DIST.glob("*.tar.gz")
    unpacked = scratch / "source"
    shutil.unpack_archive(sdist, unpacked, filter="data")
    (source,) = unpacked.iterdir()
    stable = [version for version in pythons if version >= FIRST_STABLE]
    wheels: dict[Path, list[Version]] = {}
    for versions in [*([version] for version in pythons if version < FIRST_STABLE), *([stable] if stable else [])]:
        before = set(DIST.glob("*.whl"))
        builder = environment(pythons[versions[0]], scratch / "build")
        run(builder, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build")
        run(builder, "-m", "build", "--wheel", "--outdir", DIST, source, TESSELLA_REQUIRE_NATIVE="1")
        shutil.rmtree(scratch / "build")
        (wheel,) = set(DIST.glob("*.whl")) - before
        wheels[wheel] = versions
    return sdist, wheels


def install(file: Path, python: Path, folder: Path) -> Path:
    """Install a file into an empty environment and run the smoke test there; gives its interpreter."""
    installed = environment(python, folder)
    pip = (installed, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, file, TESSELLA_REQUIRE_NATIVE="1")
    run(installed, ROOT / "tests" / "smoke.py", cwd=folder)
    print(f"  {file.name} works on {run(installed, '--version').strip()}", flush=True)
    return installed


def start_times(python: Path, turns: int = 15) -> dict[str, float]:
    """Seconds that fresh processes take to start, in turns: the median, without the time of an empty one."""
    commands: dict[str, list[str | Path]] = {code: [python, "-c", code] for code in ("", NUMPY, TESSELLA)}
    commands[HELP] = [python.with_name("tessella"), "--help"]
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(turns + 2):  # the first two fill caches
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if turn >= 2:
                seconds[name].append(time.perf_counter() - start)
    nothing = statistics.median(seconds.pop(""))
    return {name: statistics.median(taken) - nothing for name, taken in seconds.items()}


def check_imports(python: Path) -> None:
    """Print how long it takes to start; what is heavy must not be imported."""
    code = f"{NUMPY}, sys; known = {{*sys.modules}}; {TESSELLA}; print(*({{*sys.modules}} - known) & {{*{HEAVY!r}}})"
    heavy = run(python, "-c", code).split()
    if heavy:
        sys.exit(f"import tessella imports {', '.join(heavy)}, which is for those who use it.")
    times = start_times(python)
    ratio = times[TESSELLA] / times[NUMPY]
    print("  " + ", ".join(f"{name!r} {1000 * seconds:.0f} ms" for name, seconds in times.items()))
    print(f"  import tessella takes {ratio:.2f} times as long as import numpy, scipy.sparse (at most {MOST_TIMES:g})")
    if ratio > MOST_TIMES:
        sys.exit("That is too long.")


def check_sizes(sdist: Path, wheels: list[Path]) -> None:
    """Print how large files are; none may be much larger than it has to be."""
    for file in (sdist, *wheels):
        size, most = file.stat().st_size, LARGEST_SDIST if file == sdist else LARGEST_WHEEL
        print(f"  {file.name}: {size / 1000:,.0f} kB")
        if size > most:
            sys.exit(f"{file.name} has more than {most / 1000:,.0f} kB; what went into it?")


def check_files(sdist: Path, wheels: list[Path]) -> None:
    """Run the tools that know what files of a release have to be like."""
    tools = Path(sys.executable).parent
    stable = [wheel for wheel in wheels if "-abi3-" in wheel.name]
    commands: list[list[str | Path]] = [
        ["twine", "check", "--strict", sdist, *wheels],
        ["check-wheel-contents", *wheels],
        ["check-sdist"],
        ["validate-pyproject", "pyproject.toml"],
        ["cffconvert", "--validate"],
        *([["abi3audit", "--strict", *stable]] if stable else []),
    ]
    for tool, *arguments in commands:
        run(tools / tool, *arguments)
        print(f"  {tool}: passed", flush=True)


def main() -> None:
    """Build, install, check."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("pythons", nargs="*", help="interpreters beside those that are found")
    pythons = interpreters(reader.parse_args().pythons)
    print(f"Python {', '.join(f'{major}.{minor}' for major, minor in pythons)}; not found here, so not tried: ", end="")
    print(", ".join(f"{major}.{minor}" for major, minor in SUPPORTED if (major, minor) not in pythons) or "none")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        sdist, wheels = build(pythons, scratch)
        check_files(sdist, list(wheels))
        check_sizes(sdist, list(wheels))
        oldest = min(pythons)
        install(sdist, pythons[oldest], scratch / "sdist")
        for wheel, versions in wheels.items():
            for version in versions:
                tried = install(wheel, pythons[version], scratch / f"wheel-{version[1]}")
                if version == oldest:
                    check_imports(tried)


if __name__ == "__main__":
    main()
