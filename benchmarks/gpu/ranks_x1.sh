#!/bin/bash
# Two ranks on ONE GPU, over gloo (NCCL refuses that): no NCCL kernels, the ranks meet on the host. Under 120 s. In the root:
#   SITE=/tmp/site bash benchmarks/gpu/ranks_x1.sh [CASE …]     slow_loading, more_layers and healthy
CASES=("$@")
[ $# -eq 0 ] && CASES=(slow_loading more_layers healthy)
BACKEND=gloo WINDOW=${WINDOW:-15:35} LIMIT=${LIMIT:-38} MORE="--steps 40 --after 25 --extra 2 ${MORE:-}" \
    exec bash benchmarks/gpu/ranks_x2.sh "${CASES[@]}"
