"""Korean of comparisons: verdicts and their reasons, doubts, what moved.

In: nothing. Out: ``TEXTS`` and ``HEARD``.
"""

from __future__ import annotations

TEXTS = {
    "faster": "빨라짐",
    "slower": "느려짐",
    "no difference": "차이 없음",
    "inconclusive": "판정 불가",
    "before / after is {ratio}×, 95 % interval {low}× to {high}×": (
        "변경 전 / 변경 후 = {ratio}×, 95 % 신뢰 구간 {low}×~{high}×"
    ),
    "before / after is {ratio}×, its interval is not known": "변경 전 / 변경 후 = {ratio}×, 신뢰 구간은 알 수 없음",
    "before": "변경 전",
    "after": "변경 후",
    "STEPS": "스텝",
    "median of the steady ones, ms": "정상 상태 스텝의 중앙값, ms",
    "mean of the steady ones, ms": "정상 상태 스텝의 평균, ms",
    "steps": "스텝 수",
    "steady steps": "정상 상태 스텝",
    "ms a step": "스텝당 ms",
    "side": "대상",
    "of": "출처",
    "WHAT MOVED": "달라진 것",
    "What moved, {how}": "달라진 것, {how}",
    "{n} of {all}, ": "{all}개 중 {n}개, ",
    "ms a step; kinds overlap and do not add up": "스텝당 ms; 종류끼리 겹치므로 더할 수 없음",
    "what": "무엇",
    "kind": "종류",
    "change": "변화",
    "none": "없음",
    "category": "분류",
    "api": "API",
}

HEARD = {
    "the log": "로그",
    "without the profiler": "프로파일러 없이",
    "{name}, without the profiler": "{name}, 프로파일러 없이",
    # the verdict's reason
    "one side has no steps": "한쪽에 스텝이 없습니다",
    "the 95 % interval of before / after, {low} to {high}, lies within ±{limit} %": (
        "변경 전 / 변경 후의 95 % 신뢰 구간 {low}~{high} 전체가 ±{limit} % 안에 있습니다"
    ),
    "the whole 95 % interval of before / after, {low} to {high}, lies above 1": (
        "변경 전 / 변경 후의 95 % 신뢰 구간 {low}~{high} 전체가 1보다 큽니다"
    ),
    "the whole 95 % interval of before / after, {low} to {high}, lies below 1": (
        "변경 전 / 변경 후의 95 % 신뢰 구간 {low}~{high} 전체가 1보다 작습니다"
    ),
    "the 95 % interval of before / after, {low} to {high}, rules out a change of {limit} %": (
        "변경 전 / 변경 후의 95 % 신뢰 구간 {low}~{high} 안에 {limit} % 변화는 들어 있지 않습니다"
    ),
    "the 95 % interval, {low} to {high}, holds 1 and changes that matter: more steps would narrow it": (
        "95 % 신뢰 구간 {low}~{high} 안에 1도 있고 의미 있는 변화도 있습니다: 스텝이 더 많으면 좁아집니다"
    ),
    # doubts
    "both sides hold the same step times: one measurement, not two": (
        "두 쪽의 스텝 시간이 똑같습니다: 두 번이 아니라 한 번 측정한 것입니다"
    ),
    "no steady steps in it, so there is nothing to compare": "정상 상태 스텝이 없어 비교할 것이 없습니다",
    "{n} steady step, and fewer than {n_least} cannot tell a change from noise": (
        "정상 상태 스텝 {n}개뿐입니다. {n_least}개보다 적으면 변화와 잡음을 구별할 수 없습니다"
    ),
    "{n} steady steps, and fewer than {n_least} cannot tell a change from noise": (
        "정상 상태 스텝 {n}개뿐입니다. {n_least}개보다 적으면 변화와 잡음을 구별할 수 없습니다"
    ),
    "{n} step times that no step can have were left out": "어떤 스텝에도 있을 수 없는 스텝 시간 {n}개를 제외했습니다",
    "only {n} steady steps; 100 make a 5 % change certain": (
        "정상 상태 스텝이 {n}개뿐입니다. 100개면 5 % 변화가 확실해집니다"
    ),
    "steps were found differently: {before} before, {after} after; name them with --step": (
        "스텝을 찾은 방법이 다릅니다: 변경 전 {before}, 변경 후 {after}. --step으로 지정하십시오"
    ),
    "different GPUs: {before} before, {after} after": "GPU가 다릅니다: 변경 전 {before}, 변경 후 {after}",
    "GPU work {with:said}, none {without:said}: a step that does nothing on the GPU is no faster step": (
        "GPU 작업이 있는 쪽은 {with:said}, 없는 쪽은 {without:said}입니다: GPU에서 아무것도 하지 않는 스텝은 더 빠른 "
        "스텝이 아닙니다"
    ),
    "a profiler on one side only ({side:said}): the interval allows for what it can cost": (
        "한쪽에만 프로파일러가 있습니다({side:said}): 신뢰 구간은 프로파일러가 들일 수 있는 시간을 감안합니다"
    ),
    "different profilers ({before} before, {after} after): the interval allows for it": (
        "프로파일러가 다릅니다(변경 전 {before}, 변경 후 {after}): 신뢰 구간은 이를 감안합니다"
    ),
    "{producer} {before} before, {after} after": "{producer} 버전: 변경 전 {before}, 변경 후 {after}",
    "traced on one side only: {tables:each}": "한쪽에서만 추적했습니다: {tables:each}",
    "{table} (before)": "{table}(변경 전)",
    "{table} (after)": "{table}(변경 후)",
    "rank {before} before, rank {after} after": "변경 전은 랭크 {before}, 변경 후는 랭크 {after}입니다",
    "{n} GPU operations a step before, {n_after} after: another batch or model, or a change that fuses them": (
        "스텝마다 GPU 작업이 변경 전 {n}개, 변경 후 {n_after}개입니다: 배치나 모델이 다르거나, 작업을 융합하는 "
        "변경입니다"
    ),
    "{n} MB copied to the GPU a step before, {n_after} MB after: is it the same batch?": (
        "스텝마다 GPU로 복사한 양이 변경 전 {n} MB, 변경 후 {n_after} MB입니다: 같은 배치입니까?"
    ),
    "the same {n} kernels run {much} % slower after: a clock, a power limit or another tenant of the GPU": (
        "같은 커널 {n}개가 변경 후에 {much} % 느리게 실행됩니다: 클록, 전력 제한, 또는 GPU를 함께 쓰는 다른 작업입니다"
    ),
    "the same {n} kernels run {much} % faster after: a clock, a power limit or another tenant of the GPU": (
        "같은 커널 {n}개가 변경 후에 {much} % 빠르게 실행됩니다: 클록, 전력 제한, 또는 GPU를 함께 쓰는 다른 작업입니다"
    ),
    "the step time drifts ({much} from start to end)": "스텝 시간이 서서히 변합니다(처음부터 끝까지 {much})",
    "{n} steps are worth {n_worth} independent ones, so slowly do they change": (
        "스텝 시간이 아주 천천히 변해서, 스텝 {n}개의 값어치가 독립된 스텝 {n_worth}개와 같습니다"
    ),
    "steps come in bursts, {middle} ms in the middle and {mean} ms on average: means are compared": (
        "스텝이 몰려서 나옵니다(가운데 값 {middle} ms, 평균 {mean} ms): 평균을 비교합니다"
    ),
    "two speeds, about {low} and {high} ms: the median jumps between them": (
        "속도가 둘입니다(약 {low} ms와 {high} ms): 중앙값이 그 사이에서 널뜁니다"
    ),
    "{n} processes have steps, {others}; the slowest, pid {pid}, is compared": (
        "스텝이 있는 프로세스가 {n}개입니다({others}). 가장 느린 pid {pid} 프로세스를 비교합니다"
    ),
    "the first {n} of {n_all} steps left out, slower than steady state": (
        "스텝 {n_all}개 중 처음 {n}개를 제외했습니다. 정상 상태보다 느립니다"
    ),
    "the first {n} of {n_all} steps left out, issued while the GPU still had room in its queue: they say nothing of "
    "its speed": (
        "스텝 {n_all}개 중 처음 {n}개를 제외했습니다. GPU의 큐에 자리가 남아 있을 때 내보낸 것이라 GPU의 속도를 말해 "
        "주지 않습니다"
    ),
    "{n} line is not a step time and left out, the first: line {number}": (
        "스텝 시간이 아닌 줄 {n}개를 제외했습니다. 첫 번째는 {number}번째 줄입니다"
    ),
    "{n} lines are not a step time and left out, the first: line {number}": (
        "스텝 시간이 아닌 줄 {n}개를 제외했습니다. 첫 번째는 {number}번째 줄입니다"
    ),
    "the median step says {median:said}, the mean says {mean:said} ({value}, {low} to {high}): rare long steps "
    "changed (saving, evaluating, accumulating)": (
        "중앙값으로는 {median:said}, 평균으로는 {mean:said}입니다({value}, {low}~{high}): 드물게 나오는 긴 스텝이 "
        "달라졌습니다(저장, 평가, 누적)"
    ),
}
