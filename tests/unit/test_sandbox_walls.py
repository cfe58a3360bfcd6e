"""What an agent cannot see, reach or share, and the limits that bind it; in real sandboxes."""

from __future__ import annotations

import os
import time

from rsi.sandbox import make_pool
from tests.unit.boxes import gone, make_task


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


def test_equal_commands_print_nothing_of_the_hosts_clock(start):
    """Nor after a verification, which mounts a /proc of its own."""
    look = "cat /proc/uptime /proc/stat; ps ax -o user,pid,pcpu,start,time,args; ps -ef; ps ax -o lstart= > l; cut -c 1-10,20- l"
    one, two = start(), start()
    first = one.run(look, 5).output
    time.sleep(1.2)
    assert one.verify(final=False).valid
    later = two.run(look, 5).output
    assert first == later, (first, later)
    assert "31536000.00" in first and "root" in first and time.strftime("%Y") not in first
    for path in ("/proc/uptime", "/proc/stat"):
        assert one.run(f"(echo x > {path}) 2>/dev/null", 5).exit_code == 1
    assert one.run("ls -A /root; nproc", 5).output == f"{len(os.sched_getaffinity(0))}\n"


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


def test_a_repository_of_the_agents_runs_no_program_in_the_verifier(start):
    """A partial clone fetches what it lacks with a program that its own configuration names: the verifier's git fetches nothing."""
    test = "cd /app && git -C r cat-file -e HEAD:a && r=1 || r=0\n[[ -e /app/ran ]] && r=1\n{ echo $r > /logs/verifier/reward.txt; } 2>/dev/null\n"
    setup = "git init -q r; cd r; echo a > a; git add a; git commit -qm a"
    box = start(test=test, setup=setup)
    assert box.verify().strict  # an honest repository is read
    box.run(
        "printf 'touch /app/ran\\n' > /tmp/evil.sh; cd r; git config core.repositoryformatversion 1; git config extensions.partialclone origin; "
        "git config remote.origin.promisor true; git config remote.origin.url /tmp/x; git config remote.origin.uploadpack 'bash /tmp/evil.sh'; "
        "git config protocol.allow always; echo 1111111111111111111111111111111111111111 > .git/refs/heads/main; cd ..", 5)
    verdict = box.verify()
    assert verdict.valid and not verdict.strict and "ran" not in box.run("ls", 5).output.split()
    box.run("git -C r cat-file -e HEAD:a", 5)
    assert "ran" in box.run("ls", 5).output.split()  # the trap is a real one
