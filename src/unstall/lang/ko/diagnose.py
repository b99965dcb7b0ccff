"""Korean of the diagnosis: what rules share, why a rule could not run, headings of an explanation.

In: nothing. Out: ``TEXTS`` and ``HEARD``. What a rule itself says stands in its own file.
"""

from __future__ import annotations

TEXTS = {
    # what limits next
    "GPU compute limits": "GPU 연산이 한계",
    "copies limit": "복사가 한계",
    "communication limits": "통신이 한계",
    "launch overhead limits": "실행 오버헤드가 한계",
    "data loading limits": "데이터 로딩이 한계",
    "These are the figures of pid {pid}; the same in other processes: pid {pids}": (
        "pid {pid}의 수치이며, 다른 프로세스에서도 같음: pid {pids}"
    ),
    # an explanation
    "How to fix": "해결 방법",
    "How safe": "안전성",
    "safety: {safety:said}": "안전성: {safety:said}",
    "safe": "안전",
    "changes-numerics": "수치가 바뀜",
    "manual": "직접 수정",
    "CUDA C++ and others": "CUDA C++와 그 밖",
}

HEARD = {
    "needs repeating steps, and none were found": "되풀이되는 스텝이 필요한데 찾지 못했습니다",
    "name them with --step REGEX, or annotate them": "--step REGEX로 지정하거나 주석(annotate)을 다십시오",
    "needs GPU work, and this capture holds none": "GPU 작업이 필요한데 이 캡처에는 없습니다",
    "the rule failed; see the warnings": "규칙이 실패했습니다. 경고를 보십시오",
    "The rule {code} failed on process {pid}: {error}.": "규칙 {code} 실패, 프로세스 {pid}: {error}.",
    "The rule {name} of {value} could not be loaded: {error}.": "{value}의 규칙 {name} 불러오기 실패: {error}.",
}
