"""CPU milliseconds of one whole episode: open with setup, five coreutils commands, verification, close.

Beside it the same commands in a bare `bash -c`, which is the least that running them can cost. Prints JSON.
Usage: python benchmarks/sandbox_episode.py [episodes] [at once]
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rsi.sandbox import make_pool, open_many, run_many, verify_many
from rsi.tasks.task import CheckSpec, Task

SETUP = 'mkdir -p logs out\nfor i in 1 2 3 4 5; do echo "line $i" > logs/$i.log; done\n'
COMMANDS = [
    "ls logs",
    "cat logs/*.log > all.txt",
    "wc -l all.txt",
    "sort -r all.txt > out/sorted.txt",
    "head -n 2 out/sorted.txt",
]
TEST = """read -r first < out/sorted.txt
[[ $first == "line 5" ]] && s=passed r=1 || s=failed r=0
echo '{"results":{"tests":[{"name":"sorted","status":"'$s'"}]}}' > /logs/verifier/ctrf.json
echo $r > /logs/verifier/reward.txt
"""


def make_task(root: Path) -> Task:
    for path, text in (("environment/setup.sh", SETUP), ("tests/test.sh", TEST)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Task("bench", root, "", "bench", checks=(CheckSpec("sorted"),))


class CpuMeter:
    """CPU time of this process and everything it started. A cgroup also counts what nobody waited for."""

    def __init__(self) -> None:
        self._usage, self.how = None, "getrusage (misses what was killed unreaped)"
        with contextlib.suppress(OSError):
            group = Path(f"/sys/fs/cgroup/cpuacct/rsi-bench-{os.getpid()}")
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))
            self._usage, self.how = group / "cpuacct.usage", "cpuacct cgroup"

    def ms(self) -> float:
        if self._usage is not None:
            return int(self._usage.read_text()) / 1e6
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in usages) * 1000

    def close(self) -> None:
        if self._usage is not None:
            Path("/sys/fs/cgroup/cpuacct/cgroup.procs").write_text(str(os.getpid()))
            with contextlib.suppress(OSError):
                self._usage.parent.rmdir()


def main(episodes: int = 192, batch: int = 32) -> dict:
    meter, phases = CpuMeter(), {}
    with tempfile.TemporaryDirectory() as folder, make_pool() as pool:
        task = make_task(Path(folder))

        def step(name: str, action):
            before, started = meter.ms(), time.perf_counter()
            value = action()
            cpu, wall = phases.setdefault(name, [0.0, 0.0])
            phases[name] = [cpu + meter.ms() - before, wall + (time.perf_counter() - started) * 1000]
            return value

        def round_of(n: int) -> None:
            boxes = step("take", lambda: [pool.take() for _ in range(n)])
            assert step("open", lambda: open_many(boxes, [task] * n)) == [None] * n
            for command in COMMANDS:
                results = step("commands", lambda command=command: run_many(boxes, [command] * n, 10))
                assert all(r.exit_code == 0 for r in results), results
            verdicts = step("verify", lambda: verify_many(boxes))
            assert all(v.strict for v in verdicts), verdicts
            step("close", lambda: [box.close() for box in boxes])

        round_of(2)  # the room's own start is paid once in a process
        phases.clear()
        before, started = meter.ms(), time.perf_counter()
        for _ in range(episodes // batch):
            round_of(batch)
        time.sleep(0.3)
        done = episodes // batch * batch
        total, wall = (meter.ms() - before) / done, (time.perf_counter() - started - 0.3) / done * 1000
        script = "\n".join(['cd "$1"', SETUP, *COMMANDS, TEST.replace("/logs/verifier", "$1")])
        before = meter.ms()
        for i in range(done):
            place = Path(folder, f"bare{i}")
            place.mkdir()
            subprocess.run(["bash", "-c", script, "bash", str(place)], check=True, stdout=subprocess.DEVNULL)
        bare = (meter.ms() - before) / done
    meter.close()
    return {
        "episodes": done,
        "at_once": batch,
        "cpu_ms_per_episode": round(total, 2),
        "wall_ms_per_episode": round(wall, 2),
        "bare_bash_cpu_ms": round(bare, 2),
        "measured_by": meter.how,
        "phases_cpu_wall_ms": {k: [round(c / done, 2), round(w / done, 2)] for k, (c, w) in phases.items()},
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:])), indent=1))
