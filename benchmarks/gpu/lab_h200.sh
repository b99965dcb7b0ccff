#!/bin/bash
# The lab in both languages, every cell executed on a GPU, outputs kept. Run in the repository's root:
#   SITE=/tmp/site bash benchmarks/gpu/lab_h200.sh
# SITE holds unstall's dependencies where they are not installed. Executed notebooks go to $OUT (default: a temporary
# folder); `python labs/build.py --take $OUT` then puts their outputs into labs/. Needs no Jupyter: labs/execute.py has an
# executor of its own and uses a kernel only where nbclient and ipykernel are installed.
set -u
PY=${PY:-python3} OUT=${OUT:-$(mktemp -d)}
export PYTHONPATH=$PWD/src${SITE:+:$SITE} UNSTALL_CACHE_DIR=${TMPDIR:-/tmp}/unstall-cache
$PY labs/execute.py labs/profile-then-fix.ipynb labs/profile-then-fix.ko.ipynb --output "$OUT"
code=$?
for notebook in "$OUT"/*.ipynb; do  # what to look at first: verdicts, and what went to standard error
    $PY - "$notebook" <<'EOF'
import json, sys
for cell in json.load(open(sys.argv[1]))["cells"]:
    for output in cell.get("outputs", []):
        if output["output_type"] == "stream" and output["name"] == "stderr":
            print("stderr:", "".join(output["text"])[:300])
        first = "".join(output.get("data", {}).get("text/plain", "")).strip().partition("\n")[0]
        if first and "┌" not in first:
            print("shown:", first[:150])
EOF
done
exit $code
