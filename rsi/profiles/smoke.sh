#!/usr/bin/env bash
# The whole pipeline with the smoke profile, in a copy of this checkout: smoke.sh DIRECTORY. A second `dvc repro` must then do nothing.
set -euo pipefail
root=$(git rev-parse --show-toplevel)
copy=$(realpath -m "$1")
rm -rf "$copy"
mkdir -p "$copy"
cd "$root"
git ls-files -z --cached --others --exclude-standard -- . ':!data' | while IFS= read -r -d '' f; do [[ -e $f ]] && printf '%s\0' "$f"; done | tar --null -T - -cf - | tar -xf - -C "$copy"
cd "$copy"
git init --quiet . && git add -A && git -c user.name=smoke -c user.email=smoke@localhost commit --quiet -m smoke
export PYTHONPATH="$copy"
cp rsi/profiles/smoke.yaml params.yaml
rm -f dvc.lock
start=$SECONDS
dvc repro
echo "smoke: first dvc repro took $((SECONDS - start)) s"
start=$SECONDS
again=$(dvc repro 2>&1)
if grep -q "^Running stage" <<< "$again"; then
  echo "$again"
  echo "smoke: FAILED, the second dvc repro ran stages again" >&2
  exit 1
fi
echo "smoke: second dvc repro did nothing, in $((SECONDS - start)) s"
