"""One shell an episode: state across commands, whatever a command says, time limits, files; in real sandboxes."""

from __future__ import annotations

import pytest

from rsi.sandbox import SandboxError
from rsi.sandbox.protocol import ShellLost
from tests.unit.boxes import processes


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


def test_what_the_background_says_at_once_belongs_to_the_command_that_started_it(start):
    """Whoever is faster: without waiting for quiet about one in four of these errors came one observation late."""
    for _ in range(15):
        box = start()
        late = [box.run(c, 5).output for c in ("bash none.sh & echo hi", "true", "(cat none & echo $! > pid)")]
        assert late == ["hi\nbash: none.sh: No such file or directory\n", "", "cat: none: No such file or directory\n"]
    name = "ä" * 9  # the kernel cuts names at 15 bytes, here within a letter
    assert box.run(f"cp /bin/sleep {name} && ./{name} 30 & echo here", 5).output == "here\n"
    box.run("mkdir -p d; cd d; (sleep 0.0; kill -9 $$) &", 5)
    result = box.run("pwd; nosuch", 5)  # in a new shell, which is told all that the old one was
    assert (result.output, result.exit_code) == ("/app/d\nbash: nosuch: command not found\n", 127)
    box.run("sleep 50 & yes > /dev/null &", 5)  # the first is quiet, the second never will be: given up on
    assert box.run("echo here", 5).output == "here\n"


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


def test_what_the_shells_line_is_made_to_say_harms_nobody_else(start):
    """The shell's status line is in the agent's hands: forged, flooded or cut, the host goes on and the end state is verified."""
    forged = ["readonly __=abc", r"printf 'Xabc\0' >&61", r"printf 'P\0' >&61", r"printf 'Sx /\0' >&61", r"printf 'P1 99999999999999\0F\0A\0' >&61",
              "printf 'X99999999999\\0' >&61"]
    for command in forged:
        box = start()
        box.run(command, 5)
        box.run("true", 5)
        assert box.run("touch done; true", 5).exit_code in range(256), command
        assert box.verify().strict, command
    box = start()
    box.run("touch done; tr '\\0' y < /dev/zero >&61 & true", 5)
    assert box.run("echo here", 2).output.startswith("here\n") and box.verify().strict  # at worst it times out
    box = start()
    with pytest.raises(ShellLost):
        box.run("touch done; perl -e 'open(S, \"+<&=61\"); shutdown(S, 2)'", 5)
        box.run("true", 5)
    assert box.verify().strict
