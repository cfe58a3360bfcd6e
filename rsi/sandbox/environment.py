"""What a process in the sandbox finds in its environment: fixed, so that equal commands print equal things."""

from __future__ import annotations

_DATE = "2024-01-01T00:00:00+0000"
_COMMON = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "TZ": "UTC",
    "TERM": "dumb",
    "TIME_STYLE": "+",  # ls without times
    "PAGER": "cat",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@sandbox",
    "GIT_AUTHOR_DATE": _DATE,
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@sandbox",
    "GIT_COMMITTER_DATE": _DATE,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
}
_ADVICE = (
    "detachedHead",
    "addEmbeddedRepo",
    "addIgnoredFile",
    "addEmptyPathspec",
    "statusHints",
    "skippedCherryPicks",
    "mergeConflict",
    "pushUpdateRejected",
    "waitingForEditor",
)
_GIT = {
    "init.defaultBranch": "main",
    "safe.directory": "*",
    "gc.auto": "0",
    "maintenance.auto": "false",
    **{f"advice.{name}": "false" for name in _ADVICE},
}
# In the verifier a repository of the agent's must not run programs of the agent's choosing (GIT_ALLOW_PROTOCOL below: a partial
# clone fetches what it lacks, by a program that its own configuration names).
_GIT_VERIFIER = {**_GIT, "core.fsmonitor": "false", "core.hooksPath": "/dev/null"}


def _git(config: dict[str, str]) -> dict[str, str]:
    """Configuration through the environment wins over files, and leaves none lying around."""
    entries = {"GIT_CONFIG_COUNT": str(len(config))}
    for i, (key, value) in enumerate(config.items()):
        entries |= {f"GIT_CONFIG_KEY_{i}": key, f"GIT_CONFIG_VALUE_{i}": value}
    return entries


AGENT_ENV = {**_COMMON, **_git(_GIT), "HOME": "/root", "USER": "root", "SHELL": "/bin/bash"}
# The agent owns /root, /tmp and /app: no start-up file, module or plugin from there may decide the verdict.
VERIFIER_ENV = {
    **_COMMON,
    **_git(_GIT_VERIFIER),
    "HOME": "/logs/home",
    "TMPDIR": "/logs/tmp",
    "USER": "root",
    "SHELL": "/bin/bash",
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
}
