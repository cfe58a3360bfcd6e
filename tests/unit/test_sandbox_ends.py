"""Dead sandboxes and rooms, many at once, no orphans, refusals; in real sandboxes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

from rsi.sandbox import SandboxError, make_pool, open_many, run_many, verify_many
from rsi.sandbox.probe import CAUSES, describe, explain, probe
from rsi.tasks.load import load_task
from tests.unit.boxes import gone, make_task, marked


def test_dead_sandboxes_are_errors_beside_living_ones(pool, tmp_path):
    boxes = [pool.take() for _ in range(4)]
    task = make_task(tmp_path, test="echo 1 > /logs/verifier/reward.txt")
    assert open_many(boxes, [task] * 4) == [None] * 4
    boxes[1].close()
    results = run_many(boxes, ["echo $((1 + 1))"] * 4, 5)
    assert isinstance(results[1], SandboxError) and [r.output for i, r in enumerate(results) if i != 1] == ["2\n"] * 3
    verdicts = verify_many(boxes)
    assert [v.valid for v in verdicts] == [True, False, True, True] and verdicts[1].cause.startswith("infrastructure")
    with pytest.raises(SandboxError):
        boxes[1].run("true", 5)
    for box in boxes:
        box.close()
        box.close()


def test_a_task_that_starts_from_an_image_is_refused_by_name_and_not_run_without_it(pool, tmp_path, monkeypatch):
    from rsi.params import load_params
    from rsi.stages import make_tasks

    given, fine = tmp_path / "given" / "imaged", tmp_path / "given" / "fine"
    for root in (given, fine):
        make_task(root)
        (root / "task.toml").write_text('version = "1.0"\n')
        (root / "instruction.md").write_text("Do it.\n")
        (root / "environment/Dockerfile").write_text("FROM ubuntu\nCOPY data /app\n")
    (given / "environment/setup.sh").unlink()
    reason = r"task imaged: it starts from an image \(environment/Dockerfile\).*write what the image adds to /app as environment/setup.sh"
    boxes = [pool.take() for _ in range(2)]
    errors = open_many(boxes, [load_task(given), load_task(fine)])
    assert re.match(reason, str(errors[0])) and errors[1] is None
    for box in boxes:
        box.close()
    params = load_params()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SandboxError, match=rf"(?s)given: 1 of 2 tasks cannot run here:\n{reason}"):
        make_tasks(params.model_copy(update={"tasks": params.tasks.model_copy(update={"pool_path": tmp_path / "given", "suites": {}})}))


def test_many_at_once_each_get_their_own(pool, tmp_path):
    pool.prestart(40)
    boxes = [pool.take() for _ in range(40)]
    assert open_many(boxes, [make_task(tmp_path)] * 40) == [None] * 40
    results = run_many(boxes, [f"sleep 0.05; echo {i} | tee done" for i in range(40)], 20)
    assert [r.output for r in results] == [f"{i}\n" for i in range(40)]
    assert all(v.strict for v in verify_many(boxes))
    for box in boxes:
        box.close()


def test_a_dead_room_is_infrastructure_and_the_pool_recovers(tmp_path):
    task = make_task(tmp_path)
    with make_pool() as pool:
        box = pool.take()
        box.open(task)
        pool._room._process.kill()
        with pytest.raises(SandboxError):
            box.run("sleep 1", 5)
        verdict = box.verify()
        assert not verdict.valid and verdict.cause.startswith("infrastructure")
        box.close()
        pool._room._process.wait()
        again = pool.take()
        again.open(task)
        assert again.run("echo back", 5).output == "back\n"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_orphans_when_the_process_dies(tmp_path, how):
    make_task(tmp_path)
    mark = f"99{how.value}.0625"
    program = f"""
import sys, time
from pathlib import Path
from rsi.sandbox import make_pool
from rsi.tasks.task import Task
pool = make_pool()
pool.prestart(3)
box = pool.take()
box.open(Task("t", Path({str(tmp_path)!r}), "", "f"))
box.run("setsid sleep {mark} & trap '' INT TERM HUP; sleep {mark} & sleep 0.5", 5)
print("up", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        assert len([line for line in marked(mark) if line.startswith("sleep")]) == 2
        process.send_signal(how)
        process.wait()
    assert gone(mark)


def test_probe_and_doctor():
    probe()
    assert describe()["sandbox"] == "works"
    for said, cause, remedy in CAUSES:
        error = str(explain(f"bwrap: {said}"))
        assert cause in error and remedy in error and said in error


def test_the_users_tasks_are_never_what_the_tasks_stage_deletes(tmp_path, monkeypatch):
    """`tasks.pool_path: data/tasks/pool` names the directory that is about to be written anew."""
    from rsi.params import ParamsError, load_params
    from rsi.stages import make_tasks

    params = load_params()
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "data" / "tasks" / "pool" / "mine"
    mine.mkdir(parents=True)
    wrong = ({"pool_path": "data/tasks/pool"}, "data/tasks/pool lies in data"), ({"pool": 99999, "pool_path": None}, "tasks.pool: the generator makes")
    for tasks, field in wrong:
        changed = params.tasks.model_validate({**params.tasks.model_dump(), **tasks, "suites": {}})
        with pytest.raises(ParamsError, match=field):
            make_tasks(params.model_copy(update={"tasks": changed}))
        assert mine.is_dir()
