"""tests/test.sh: one line per named check, bash builtins wherever possible (a few milliseconds each)."""

from __future__ import annotations

from collections.abc import Sequence

from rsi.tasks.step import Check

# `-p`: neither BASH_ENV nor exported functions of the caller are read. Only `staged` and `committed` start a process.
PREAMBLE = r"""#!/bin/bash -p
unalias -a; PATH=/usr/bin:/bin; export LC_ALL=C; unset CDPATH GLOBIGNORE; cd /app || exit 0
tests= passed=0 total=0 reward=1
t() {
  local s=passed; ((total += 1))
  if (($3 == 0)); then ((passed += 1)); else s=failed; [[ $2 == final ]] && reward=0; fi
  tests+="${tests:+,}{\"name\":\"$1\",\"status\":\"$s\",\"duration\":0,\"tags\":[\"$2\"]}"
}
read_lines() { L=(); [[ -f $1 && -r $1 ]] && mapfile -t -n 1000 L < "$1"; }
same() { local IFS=$'\n'; read_lines "$1" && shift && [[ ${L[*]} == "$*" && ${#L[@]} == "$#" ]]; }
alike() { read_lines "$1" && same "$2" "${L[@]}"; }
has() { local x; read_lines "$1" && for x in "${L[@]}"; do [[ $x == "$2" ]] && return; done; return 1; }
words() { local w f=$1; shift; read_lines "$f" && for w; do [[ " ${L[*]} " == *" $w "* ]] || return 1; done; }
digits() { read_lines "$1" && [[ ${L[*]} == +([0-9]) ]]; }
soon() { local i z; exec {z}<> <(:); for i in {1..75}; do "$@" && return; read -rt 0.004 -u $z; done; return 1; }
git() {
  GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null command git -c safe.directory='*' -c core.fsmonitor=false \
    -c core.hooksPath=/dev/null "$@"
}
staged() { [[ -n $(git -C "$1" ls-files -- "$2" 2> /dev/null) ]]; }
committed() { git -C "$1" cat-file -e "HEAD:$2" 2> /dev/null; }
"""

END = r"""[[ -d /logs/verifier ]] || mkdir -p /logs/verifier
summary="\"tests\":$total,\"passed\":$passed,\"failed\":$((total - passed)),\"pending\":0,\"skipped\":0,\"other\":0"
printf '{"results":{"tool":{"name":"bash"},"summary":{%s,"start":0,"stop":0},"tests":[%s]}}\n' \
  "$summary" "$tests" > /logs/verifier/ctrf.json
printf '{"reward": %d, "passed": %d, "total": %d}\n' "$reward" "$passed" "$total" > /logs/verifier/reward.json
exit 0
"""


def test_script(checks: Sequence[Check], functions: str = "") -> str:
    """The verifier of `checks` (already named for the whole task). `functions`: extra bash definitions they use."""
    body = "".join(f"{c.test}; t {c.name} {c.kind} $?\n" for c in checks)
    return PREAMBLE + functions + body + END
