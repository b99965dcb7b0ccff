#!/bin/sh
# What takes the time and what stalls the GPU, in the terminal and as files.   sh 01_report.sh run.sqlite
set -eu
unstall report "$1" --top 5
unstall report "$1" --json report.json --markdown report.md
unstall explain "$(python3 -c 'import json; print(json.load(open("report.json"))["findings"][0]["code"])')" | head -n 3
