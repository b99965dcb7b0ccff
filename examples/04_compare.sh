#!/bin/sh
# Compare two runs, and gate: exit code 1 and one line when it got slower.   sh 04_compare.sh before.sqlite after.sqlite
set -eu
unstall compare "$1" "$2" --markdown comparison.md
unstall baseline save "$1" --output baseline.json
unstall baseline check "$2" --baseline baseline.json --fail-if 'slower or inconclusive'
