#!/bin/bash -p
# How many entries of /app are new? One is something, 2 are enough; the file that was there must have stayed.
cd /app || exit 0
shopt -s nullglob
new=0
for entry in *; do [[ $entry == grove.txt ]] || ((new += 1)); done
something=$((new >= 1)) enough=$((new >= 2)) kept=0
[[ -f grove.txt && $(< grove.txt) == grove ]] && kept=1
state() { (($1)) && echo passed || echo failed; }
mkdir -p /logs/verifier
cat > /logs/verifier/ctrf.json << END
{"results": {"tool": {"name": "bash"}, "summary": {"tests": 3, "passed": $((something + enough + kept)), "failed": $((3 - something - enough - kept)),
 "pending": 0, "skipped": 0, "other": 0, "start": 0, "stop": 0}, "tests": [
 {"name": "something", "status": "$(state $something)", "duration": 0, "tags": ["intermediate"]},
 {"name": "enough", "status": "$(state $enough)", "duration": 0, "tags": ["final"]},
 {"name": "kept", "status": "$(state $kept)", "duration": 0, "tags": ["final"]}]}}
END
echo "{\"reward\": $((enough && kept))}" > /logs/verifier/reward.json
