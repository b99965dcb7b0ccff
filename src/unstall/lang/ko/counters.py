"""Korean: hardware counters under the breakdown."""

from __future__ import annotations

TEXTS = {
    "GPU counters: {means}": "GPU 카운터: {means}",
    "while it computes: {means}": "연산하는 동안: {means}",
    "SMs active {value}": "SM 활성 {value}",
    "instructions issued {value}": "명령 발행 {value}",
    "tensor cores active {value}": "텐서 코어 활성 {value}",
    "DRAM reads {value}": "DRAM 읽기 {value}",
    "DRAM writes {value}": "DRAM 쓰기 {value}",
    "clock {value}": "클럭 {value}",
    "computing hard": "연산 집중",
    "waiting on memory": "메모리 대기",
    "computing lightly": "가벼운 연산",
    "not sampled": "표본 없음",
}
