"""The session, the walls and the limits of the bubblewrap sandbox, in real sandboxes; verdict parsing by properties."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsi.sandbox import SandboxError, make_pool, open_many, run_many, verify_many
from rsi.sandbox.output import LIMIT, MARKER, Capped
from rsi.sandbox.probe import CAUSES, describe, explain, probe
from rsi.sandbox.protocol import Verdict
from rsi.sandbox.verdict import ERRORS, invalid, parse_verdict
from rsi.tasks.task import CheckSpec
from tests.unit.test_cases_sandbox import gone, make_task, marked, processes

# ---- the session


@pytest.fixture(scope="module")
def pool():
    with make_pool() as pool:
        yield pool


@pytest.fixture
def start(pool, tmp_path):
    opened = []

    def start(start_script: str = "", **kwargs):
        sandbox = pool.take()
        opened.append(sandbox)
        task = make_task(tmp_path, **kwargs)
        if start_script:
            (tmp_path / "environment" / "start.sh").write_text(start_script)
        sandbox.open(task)
        return sandbox

    yield start
    for sandbox in opened:
        sandbox.close()


def test_state_lives_across_commands(start):
    box = start(setup="echo data > file; cd /tmp; LEAK=1; sleep 0 &")
    assert box.run("pwd; cat file; echo ${LEAK-none}", 5).output == "/app\ndata\nnone\n"
    box.run("mkdir d; cd d; export A='x y'; f() { echo \"f $1\"; }; alias l=ls; sleep 50 & J=$!", 5)
    assert box.run('pwd; echo "$A"; f 1; kill -0 $J && echo runs', 5).output == "/app/d\nx y\nf 1\nruns\n"
    assert box.run("l -d .", 5).output == ".\n"


def test_exit_exec_and_errexit_are_reported_and_the_directory_kept(start):
    box = start()
    box.run("mkdir -p a/'b c'; cd a", 5)
    for command, code in (
        ("cd 'b c'; exit 7", 7),
        ("set -e; false; echo never", 1),
        ("exec bash -c 'exit 9'", 9),
        ("kill -9 $$", 137),
    ):
        result = box.run(command, 5)
        assert (result.exit_code, result.output, result.timed_out) == (code, "", False), command
        assert box.run("pwd", 5).output == "/app/a/b c\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo )",
        "if true; then",
        "echo 'open",
        'echo "$(',
        "cat <<EOF\nx",
        "}",
        "\0\0",
        "",
        "# only a comment",
        "false &&",
        "return 3",
        "echo \\",
        "exec 2>/dev/null; nosuch",
        "x=$(ls",
        "cat <(",
        'echo "$(cat <<EOF\nx\n)',
    ],
)
def test_no_command_text_breaks_the_session(start, command):
    box = start()
    assert not box.run(command, 3).timed_out
    for long in ("echo next", "X=" + 3000 * "x" + "; echo next", "echo $(echo next)"):
        result = box.run(long, 3)
        assert (result.exit_code, result.output) == (0, "next\n")


def test_the_shell_survives_what_it_is_told(start):
    box = start()
    for command in [
        "trap 'echo bye' EXIT",
        "set -x",
        "set -u; echo $nosuch",
        "PROMPT_COMMAND=",
        "unset PWD",
        "exec </dev/null",
        "printf() { :; }; cd() { :; }; read() { :; }",
        "shopt -s extdebug",
        "cat",
        "read x; echo got $x",
        "bash -i -c 'echo inner'",
        "set -o posix",
    ]:
        result = box.run(command, 3)
        assert not result.timed_out, (command, result)
    assert box.run("set +x; unset -f printf cd read; echo next", 3).output.endswith("next\n")


def test_a_shell_that_lost_its_status_pipe_is_replaced(start):
    box = start()
    box.run("cd /tmp", 5)
    for command in ("exec 61>&-", "builtin() { :; }"):
        assert box.run(command, 0.3).timed_out
        assert box.run("pwd", 5).output == "/tmp\n"


def test_kill_everything_is_survived(start):
    box = start()
    result = box.run("trap '' TERM; kill -9 -1; echo on", 5)
    assert not result.timed_out
    assert box.run("echo next", 5).output == "next\n"


def test_no_job_messages_pids_or_times(start):
    box = start()
    outputs = [
        box.run(c, 5).output
        for c in ("true & wait", "sleep 0.05 &", "sleep 0.1; jobs", "kill -9 $! 2>/dev/null; ls -l /app")
    ]
    assert "".join(outputs[:2]) == "" and outputs[3] == "total 0\n"


def test_timeout_keeps_state_and_earlier_jobs(start):
    box = start()
    box.run("X=kept; sleep 77.001 & ", 5)
    for command in (
        "sleep 50; echo no",
        "while :; do sleep 0.01; done",
        "(trap '' INT TERM; sleep 50 & wait; sleep 50)",
        "timeout 60 sleep 50",
        "cat /dev/zero > /dev/null",
        "for i in 1 2 3; do setsid sleep 50 & done; wait",
    ):
        result = box.run(command, 0.3)
        assert (result.exit_code, result.timed_out) == (124, True) and "no" not in result.output, command
        assert box.run("echo $X", 5).output == "kept\n", command
        assert processes(box) == "sleep 77.001\n", command


def test_fork_bomb_is_contained_and_the_verifier_still_runs(start):
    box = start(test="(exit 0)\n/bin/true && echo 1 > /logs/verifier/reward.txt\n")
    box.run("for ((i = 0; i < 200; i++)); do sleep 60.01 & done 2>/dev/null", 1)
    assert box.verify().strict
    result = box.run("b() { b | b & }; b 2>/dev/null; sleep 5", 0.5)
    assert result.timed_out
    assert box.run("echo next", 5).output == "next\n"


def test_start_script_lives_among_the_agents_processes(start):
    box = start("sleep 66.25 &\necho noise\n")
    assert processes(box) == "sleep 66.25\n"
    assert box.run("echo quiet", 5).output == "quiet\n"


def test_failing_setup_is_an_error(start):
    with pytest.raises(SandboxError, match="setup.sh of case exited 4: no luck"):
        start(setup="echo no luck; exit 4")


def test_files(start):
    box = start()
    data = bytes(range(256)) * 1000
    box.put("sub/x.bin", data)
    assert box.get("/app/sub/x.bin") == data
    assert box.run("wc -c < sub/x.bin; stat -c %u sub/x.bin", 5).output == "256000\n0\n"
    for path in ("nosuch", "/app/sub", "/etc/shadow"):
        with pytest.raises(OSError):
            box.get(path)
    box.run("mkfifo pipe", 5)
    for path in ("pipe", "/proc/1/environ"):
        with pytest.raises(OSError):
            box.get(path)
    with pytest.raises(OSError):
        box.put("/usr/x", b"")


def test_git_is_reproducible(start):
    script = (
        "git init -q r && cd r && echo a > f && git add f && git commit -qm one && git rev-parse HEAD && git branch"
    )
    first = start().run(script, 10)
    assert first.exit_code == 0 and first.output.endswith("* main\n")
    assert start().run(script, 10).output == first.output


# ---- the walls


def test_the_agent_never_sees_tests_logs_or_setup(start):
    secret = "needle_5f1c"
    box = start(test=f"# {secret}\nsleep 0.2\necho 1 > /logs/verifier/reward.txt\n", setup=f": {secret}")
    spy = "ls -A /tests /logs; cat /tests/test.sh /logs/verifier/reward.txt; ls /environment /app/environment"
    box.run(f"(for i in $(seq 100); do {spy}; sleep 0.01; done) > spied 2>/dev/null &", 5)
    before = box.run("find / -xdev 2>/dev/null | grep -v spied | sort", 20).output
    assert box.verify(final=False).strict
    assert box.run("find / -xdev 2>/dev/null | grep -v spied | sort", 20).output == before
    found = box.run("cat spied; wait", 5).output.replace("/tests:", "").replace("/logs:", "").strip()
    assert found == "" and secret not in before
    assert (
        box.run("grep -rs --exclude-dir=proc 'needle_''5f1c' /app /tmp /root /var /run /etc /tests /logs", 20).exit_code
        == 1
    )


def test_the_verifier_sees_files_and_servers_but_not_the_agents_environment(start):
    code = "import socket; s = socket.create_server(('127.0.0.1', 8080))\nwhile 1: s.accept()[0].send(b'pong\\n')"
    server = f'exec 2>/dev/null; python3 -c "{code}" &'
    test = """exec 2>/dev/null
read -r answer < /dev/tcp/127.0.0.1/8080
read -r mine < mine.txt
[[ $answer == pong && $mine == data && -z $EVIL && $PWD == /app && $$ -le 3 && $HOME != /root ]] && r=1 || r=0
touch /tests/x && r=0
echo $r > /logs/verifier/reward.txt
"""
    box = start(test=test)
    box.run(
        "export EVIL=1 BASH_ENV=/app/evil ENV=/app/evil; echo 'echo 1 > /logs/verifier/reward.txt; exit' > evil; "
        "cp evil /root/.bashrc; echo data > mine.txt; " + server,
        5,
    )
    box.run("for i in $(seq 50); do (: < /dev/tcp/127.0.0.1/8080) && break; sleep 0.05; done", 5)
    assert box.verify(final=False).reward == 1.0
    assert box.verify().reward == 1.0


def test_verifier_orphans_die(start):
    box = start(test="setsid sleep 88.125 &\necho 1 > /logs/verifier/reward.txt\n")
    assert box.verify().strict
    assert gone("88.125")


def test_pid_1_and_the_verifier_are_out_of_reach(start):
    box = start(test="sleep 0.5\necho 1 > /logs/verifier/reward.txt\n")
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def refused(what, result):
    print(what, "refused" if result < 0 else "ALLOWED")
refused("ptrace", libc.ptrace(16, 1, 0, 0))
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000):
    refused("unshare", libc.unshare(flag))
refused("mount", libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
refused("chroot", libc.chroot(b"/tmp"))
refused("clone", libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000000 | 17, 0, 0, 0, 0))
refused("keyctl", libc.syscall(250 if os.uname().machine == "x86_64" else 219, 0, -3, 0))
for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/root/", "/proc/1/fd/0"):
    try:
        os.listdir(path) if path.endswith("/") else open(path, "rb").read(10)
        print(path, "ALLOWED")
    except OSError:
        print(path, "refused")
print(sorted(p for p in os.listdir("/proc") if p.isdigit() and "test.sh" in open(f"/proc/{p}/cmdline").read()))
"""
    box.put("attack.py", code.encode())
    box.run("(sleep 0.1; python3 attack.py > seen) &", 5)
    assert box.verify().strict
    seen = box.run("sleep 0.2; cat seen", 5).output
    assert "ALLOWED" not in seen and seen.count("refused") == 13 and seen.endswith("[]\n"), seen
    status = box.run("grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp:' /proc/self/status", 5).output.split()
    assert status[1::2] == ["0" * 16] * 4 + ["1", "2"]


def test_host_environment_and_paths_do_not_leak(tmp_path):
    os.environ["RSI_TEST_SECRET"] = "leak_77aa"
    try:
        with make_pool() as pool:
            box = pool.take()
            box.open(make_task(tmp_path))
            text = box.run(
                "env; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/self/mountinfo /proc/self/cgroup 2>/dev/null",
                5,
            ).output
    finally:
        del os.environ["RSI_TEST_SECRET"]
    assert "leak_77aa" not in text and str(tmp_path) not in text and os.getcwd() not in text


def test_no_network_but_a_localhost_of_its_own(start):
    box = start()
    assert box.run("cat /proc/net/dev | grep -c :", 5).output == "1\n"
    code = "import socket; s = socket.create_server(('127.0.0.1', 9999)); import sys; print('bound')"
    assert (
        box.run(f'python3 -c "{code}; import time; sys.stdout.flush(); time.sleep(60)" & sleep 0.3', 5).output
        == "bound\n"
    )
    assert start().run(f'python3 -c "{code}"', 5).output == "bound\n"
    assert box.run("(: < /dev/tcp/1.1.1.1/53) 2>&1", 5).exit_code != 0


def test_episodes_do_not_share_anything_writable(start):
    one, two = start(), start()
    one.run(
        "for d in $(find / \\( -path /proc -o -path /usr \\) -prune -o -type d -writable -print 2>/dev/null); "
        "do touch $d/mark_31; done 2>/dev/null",
        20,
    )
    assert one.run("ls /app/mark_31 /dev/shm/mark_31", 5).exit_code == 0
    assert (
        two.run("find / \\( -path /proc -o -path /usr \\) -prune -o -name mark_31 -print 2>/dev/null", 20).output == ""
    )
    assert (
        two.run(
            "touch /x /usr/x /etc/x /dev/x /tests/x /logs/x /var/x 2>/dev/null; ls -d /x /*/x 2>/dev/null", 5
        ).output
        == ""
    )


# ---- the limits


def test_limits_bind(start):
    box = start(memory_mb=64, storage_mb=8)
    assert box.run("head -c 20M /dev/zero > big; stat -c %s big", 5).output.split()[-1] == str(8 << 20)
    for path in ("/tmp", "/dev/shm", "/root"):
        assert box.run(
            f"rm -f big; for i in 1 2 3 4; do head -c 4M /dev/zero > {path}/f$i; done; "
            f"du -sm {path} | cut -f1; rm {path}/f*",
            5,
        ).output.split()[-1] in ("7", "8")
    assert "MemoryError" in box.run("python3 -c 'bytearray(200 << 20)' 2>&1", 5).output
    assert box.run("i=0; while echo > n$i; do ((i++)); done 2>/dev/null; echo $i", 20).output.split()[-1].isdigit()
    assert box.run("rm -f n*; ulimit -u 1000 2>/dev/null; ulimit -c", 20).output == "0\n"


# ---- ends


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


# ---- output and verdicts, by properties


@given(st.lists(st.binary(max_size=6000), max_size=12))
def test_capped_output(chunks):
    capped, whole = Capped(), b"".join(chunks)
    for chunk in chunks:
        capped.add(chunk)
    text = capped.text()
    assert capped.truncated == (len(whole) > LIMIT) == (MARKER in text)
    if not capped.truncated:
        assert text == whole.decode(errors="replace")
    assert len(text) <= LIMIT + len(MARKER)


@given(st.one_of(st.none(), st.binary()), st.one_of(st.none(), st.binary()), st.one_of(st.none(), st.binary()))
def test_any_bytes_give_a_verdict_and_noise_is_never_zero(reward_json, reward_txt, ctrf):
    verdict = parse_verdict(reward_json, reward_txt, ctrf, (CheckSpec("a"),))
    assert isinstance(verdict, Verdict)
    assert verdict.valid == (verdict.cause == "") and not (verdict.strict and not verdict.valid)
    assert (verdict.reward is None) == (not verdict.valid)


@given(
    st.dictionaries(st.text(), st.tuples(st.booleans(), st.sampled_from(["intermediate", "final"])), min_size=1),
    st.booleans(),
)
def test_strict_is_all_final_checks(checks, honest):
    specs = tuple(CheckSpec(name, kind) for name, (_, kind) in checks.items())
    tests = [{"name": name, "status": "passed" if passed else "failed"} for name, (passed, _) in checks.items()]
    final = [passed for passed, kind in checks.values() if kind == "final"]
    reward = float(all(final)) if honest else float(not all(final))
    verdict = parse_verdict(
        json.dumps({"reward": reward}).encode(), None, json.dumps({"results": {"tests": tests}}).encode(), specs
    )
    if final and not honest:
        assert not verdict.valid and "contradict" in verdict.cause
    else:
        assert verdict.valid and verdict.checks == {name: passed for name, (passed, _) in checks.items()}
        assert list(verdict.checks) == list(checks) and verdict.strict == (reward >= 1)


@given(st.floats())
def test_reward_txt_is_a_finite_number_or_invalid(value):
    verdict = parse_verdict(None, repr(value).encode(), None)
    assert verdict.valid == (value - value == 0)
    assert not verdict.valid or (verdict.reward == value and verdict.strict == (value >= 1))


def test_verdict_corner_cases():
    ctrf = b'{"results":{"tests":[{"name":"a","status":"passed"}]}}'
    assert parse_verdict(b'{"reward": 1, "passed": 3}', b"0", None) == Verdict({}, True, reward=1.0)
    assert (
        parse_verdict(b"1", None, ctrf, (CheckSpec("a"), CheckSpec("b"))).cause
        == "a declared check is not in the report: b"
    )
    assert "contradict" in parse_verdict(b"0", None, ctrf, (CheckSpec("a"),)).cause
    assert parse_verdict(b"1", None, b"{}", ()).cause == "the CTRF report is malformed: '{}'"
    assert parse_verdict(b'{"passed": 3}', None, None).cause == """the reward is not a number: '{"passed": 3}'"""
    assert not parse_verdict(None, b"True", None).valid
    assert all(kind.grade in ("invalid", "verified") for kind in ERRORS.values())
    assert invalid("sandbox", "x") == Verdict(valid=False, cause="infrastructure: x")
