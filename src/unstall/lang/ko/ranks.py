"""Korean of ``unstall ranks``: who is late, why, what it costs; headings and columns of its outputs.

In: nothing. Out: ``TEXTS``, and ``HEARD`` for the warnings.
"""

from __future__ import annotations

TEXTS = {
    # why
    "its own compute takes longer for the same work (a slower or throttled GPU, or larger inputs)": (
        "같은 작업에 자체 연산이 더 오래 걸림(느리거나 스로틀링된 GPU, 또는 더 큰 입력)"
    ),
    "it has more compute to do: more operations a step than the others": (
        "연산량이 더 많음: 스텝당 작업 수가 다른 랭크보다 많음"
    ),
    "its data loading": "데이터 로딩",
    "its saving or logging": "저장 또는 로그",
    "its file I/O": "파일 I/O",
    "its copies between host and GPU": "호스트와 GPU 사이의 복사",
    "its host: Python, launching or waiting on the CPU": "호스트: Python, 실행 호출 또는 CPU에서의 대기",
    "its memory allocation": "메모리 할당",
    "another process on its GPU": "같은 GPU를 쓰는 다른 프로세스",
    "garbage collection in its Python": "Python의 가비지 컬렉션",
    "the network between the ranks: even the rank that came last needs longer than usual": (
        "랭크 사이의 네트워크: 마지막에 온 랭크조차 평소보다 오래 걸림"
    ),
    "the captures do not tell": "캡처로는 알 수 없음",
    "late: {cause}": "뒤처짐: {cause}",
    "compute": "연산",
    "more work": "더 많은 연산",
    "saving": "저장",
    "copies": "복사",
    "garbage collection": "가비지 컬렉션",
    "network": "네트워크",
    "allocation": "할당",
    "other process": "다른 프로세스",
    # the verdict
    "Where the ranks wait for each other cannot be told from these captures.": (
        "랭크들이 서로를 어디에서 기다리는지 이 캡처로는 알 수 없습니다."
    ),
    "The captures do not all look like ranks of one job: see the warnings.": (
        "모두 한 작업의 랭크로 보이지는 않는 캡처입니다. 경고를 보십시오."
    ),
    "No rank makes the others wait.": "다른 랭크를 기다리게 하는 랭크가 없습니다.",
    "{count} of {all} matched steps": "맞춘 스텝 {all}개 중 {count}개",
    "The network costs {cost} a step in {steps}{who}: {lost} of the time of all ranks.": (
        "네트워크가 {steps}에서 스텝당 {cost}를 씁니다{who}. 모든 랭크 시간의 {lost}입니다."
    ),
    "Rank {rank} is late: the others wait {cost} of a {step} step for it, {lost} of the time of all ranks.": (
        "뒤처진 랭크 {rank}: 다른 랭크가 {step} 스텝 중 {cost} 동안 기다립니다. 모든 랭크 시간의 {lost}입니다."
    ),
    "Rank {rank} is late in {steps} ({some}): the others wait {cost} each time, {lost} of the time of all ranks.": (
        "뒤처진 랭크 {rank}({steps}: {some}): 다른 랭크가 매번 {cost} 기다립니다. 모든 랭크 시간의 {lost}입니다."
    ),
    "Why: {cause}.": "이유: {cause}.",
    "Why: {cause}, {excess} more than the median rank, mostly in {name}.": (
        "이유: {cause}, 중앙값 랭크보다 {excess} 더 걸림, 주로 {name}."
    ),
    "Why: {cause}, {excess} more than the median rank.": "이유: {cause}, 중앙값 랭크보다 {excess} 더 걸림.",
    " between ranks {some}": "(랭크 {some} 사이)",
    "Steps take {low} on rank {fast} and {high} on rank {slow}.": (
        "스텝은 랭크 {fast}에서 {low}, 랭크 {slow}에서 {high} 걸립니다."
    ),
    "Waiting by turns takes {wait} of a {step} step ({lost}).": (
        "번갈아 기다리는 시간은 {step} 스텝 중 {wait}입니다({lost})."
    ),
    "Exposed communication: {moved} a step.": "노출된 통신: 스텝당 {moved}.",
    # the job
    "{count} ranks": "랭크 {count}개",
    "1 rank": "랭크 1개",
    "{count} hosts": "호스트 {count}개",
    "1 host": "호스트 1개",
    "{read} of {files} files read": "파일 {files}개 중 {read}개 읽음",
    "{count} matched steps": "맞춘 스텝 {count}개",
    "Clocks aligned by the ends of common collectives, which then agree to {residual}.": (
        "공통 집합 통신이 끝난 시각으로 시계를 맞추었고, 그 뒤의 차이는 {residual}입니다."
    ),
    "The captures' own wall clocks are up to {skew} apart.": "캡처에 저장된 벽시계는 최대 {skew} 차이가 납니다.",
    "Times are put side by side by the wall clock that each capture stores; its error is not known.": (
        "각 캡처에 저장된 벽시계로 시각을 나란히 놓았으며, 그 오차는 알 수 없습니다."
    ),
    "Only some captures share collectives that align their clocks; the others have a stored wall clock or none.": (
        "일부 캡처만 시계를 맞출 집합 통신을 공유합니다. 나머지는 저장된 벽시계만 있거나 시계가 없습니다."
    ),
    "The captures have no common clock: only durations are compared.": (
        "캡처에 공통 시계가 없습니다. 걸린 시간만 비교합니다."
    ),
    # headings and columns
    "ALSO": "그 밖에",
    "Also": "그 밖에",
    "most lost first": "손실이 큰 순서",
    "RANKS": "랭크",
    "Ranks": "랭크",
    "Ranks, ms a step": "랭크, 스텝당 ms",
    "ms a step": "스텝당 ms",
    "ms a step; own: without waiting; costs: what the others wait for it": (
        "스텝당 ms; 자체: 대기 제외; 비용: 다른 랭크가 이 랭크를 기다린 시간"
    ),
    "rank": "랭크",
    "ranks": "랭크",
    "step": "스텝",
    "steps": "스텝 수",
    "own": "자체",
    "waits": "대기",
    "costs": "비용",
    "GPU": "GPU",
    "loading": "로딩",
    "last %": "마지막 %",
    "first to look at": "먼저 볼 것",
    "… {count} more ranks: --top 0 shows all": "… 랭크 {count}개 더 있음: --top 0으로 모두 표시",
    "… {count} more: --top 0 shows all": "… {count}개 더 있음: --top 0으로 모두 표시",
    "RANK BY STEP": "랭크 × 스텝",
    "Rank by step": "랭크 × 스텝",
    "a step": "스텝당",
    "a step without waiting": "대기를 뺀 스텝",
    "{what}, steps {first} to {last}; from {low} (light) to {high} (dark)": (
        "{what}, 스텝 {first}–{last}; {low}(밝음)부터 {high}(어두움)까지"
    ),
    "COLLECTIVES": "집합 통신",
    "Collectives": "집합 통신",
    "collective": "집합 통신",
    "waiting: beyond the rank that came last": "대기: 마지막에 온 랭크보다 더 걸린 시간",
    "ms": "ms",
    "transfer ms": "전송 ms",
    "waiting ms": "대기 ms",
    "exposed ms a step": "스텝당 노출 ms",
    "mostly last": "주로 마지막",
    "CLOCKS": "시계",
    "Clocks": "시계",
    "NOT READ": "읽지 못함",
    "Not read": "읽지 못함",
    "WARNINGS": "경고",
    "Warnings": "경고",
    "rank {rank}, ": "랭크 {rank}, ",
    # the page
    "Skip to the map": "지도로 건너뛰기",
    "Sections": "구역",
    "Map": "지도",
    "Switch between dark and light": "어두운 화면과 밝은 화면 전환",
    "Verdict": "판정",
    "ranks that cost the others most come first": "다른 랭크에 가장 큰 비용을 주는 랭크부터",
    "What is shown": "표시할 값",
    "waiting for a later rank": "늦은 랭크를 기다림",
    "the whole step": "스텝 전체",
    "Heat map of rank by step; arrow keys move from cell to cell": "랭크 × 스텝 열지도, 화살표 키로 칸을 이동",
    "Point at a cell, or move with the arrow keys.": "칸을 가리키거나 화살표 키로 이동하십시오.",
    "No step is matched on several ranks, so there is nothing to draw.": (
        "여러 랭크 사이에 맞춘 스텝이 없어 그릴 것이 없습니다."
    ),
    "where its step goes": "스텝의 시간 내역",
    "{count} more ranks are in the JSON.": "랭크 {count}개가 JSON에 더 있습니다.",
    "The map and sorting need scripts; the tables do not.": "지도와 정렬에는 스크립트가 필요합니다.",
    "rank [rank], step [step]: [period] ms, of which [wait] ms waiting": (
        "랭크 [rank], 스텝 [step]: [period] ms, 그중 대기 [wait] ms"
    ),
    "rank [rank], step [step]: [period] ms": "랭크 [rank], 스텝 [step]: [period] ms",
    "rank [rank], step [step]: not captured": "랭크 [rank], 스텝 [step]: 캡처되지 않음",
}

HEARD = {
    "No collective and no phase was found in which the ranks wait for each other: steps are compared, waits are "
    "unknown.": (
        "랭크들이 서로를 기다리는 집합 통신이나 단계를 찾지 못했습니다. 스텝만 비교하며, 대기는 알 수 없습니다."
    ),
    "The captures hold no collectives of a GPU: ranks are taken to meet in {phase}, and what it takes beyond the "
    "shortest is waiting.": (
        "캡처에 GPU의 집합 통신이 없습니다. 랭크들이 {phase}에서 만난다고 보고, 가장 짧은 것보다 더 걸린 시간을 대기로 "
        "셉니다."
    ),
    "Most collectives of ranks {some} are shared by nobody: their waits are unknown.": (
        "랭크 {some}의 집합 통신은 대부분 다른 랭크와 짝이 없어 대기를 알 수 없습니다."
    ),
    "Not all captures can be put on one clock: waits come from durations, which need none.": (
        "모든 캡처를 한 시계에 놓을 수는 없습니다. 대기는 시계가 필요 없는 걸린 시간에서 구합니다."
    ),
    "{name} was named {n} times: it is read once.": "{name}: {n}번 지정되었지만 한 번만 읽습니다.",
    "{other} is the same file as {name}: it is read once.": "{other}, {name}: 같은 파일이므로 한 번만 읽습니다.",
    "{n} files were named more than once ({names}): each is read once.": (
        "파일 {n}개({names})가 여러 번 지정되었지만 한 번씩만 읽습니다."
    ),
    "Ranks {others} do not look like ranks of the same job as {core}: {why:said}. Steps are matched and waits are told "
    "among ranks {core_} only.": (
        "랭크 {others}: 같은 작업의 랭크로 보이지 않습니다(기준: 랭크 {core}). {why:said}. 스텝을 맞추고 대기를 알리는 "
        "것은 랭크 {core_} 사이뿐입니다."
    ),
    "The captures do not look like ranks of one job: {why:said}. Their steps are not matched, and nobody is charged "
    "with waiting.": (
        "한 작업의 랭크들로 보이지 않는 캡처입니다: {why:said}. 스텝을 서로 맞추지 않았고, 대기를 누구에게도 물리지 "
        "않았습니다."
    ),
    "rank {later} was captured {n_days} days after the capture of rank {earlier} had ended": (
        "랭크 {earlier}의 캡처가 끝나고 {n_days}일 뒤에 랭크 {later} 캡처"
    ),
    "rank {later} was captured {n_hours} hours after the capture of rank {earlier} had ended": (
        "랭크 {earlier}의 캡처가 끝나고 {n_hours}시간 뒤에 랭크 {later} 캡처"
    ),
    "rank {later} was captured {n_minutes} minutes after the capture of rank {earlier} had ended": (
        "랭크 {earlier}의 캡처가 끝나고 {n_minutes}분 뒤에 랭크 {later} 캡처"
    ),
    "rank {later} was captured {n_seconds} s after the capture of rank {earlier} had ended": (
        "랭크 {earlier}의 캡처가 끝나고 {n_seconds}초 뒤에 랭크 {later} 캡처"
    ),
    "rank {n_one} is {program} and rank {n_two} is {other}": (
        "프로그램이 다름: 랭크 {n_one} {program}, 랭크 {n_two} {other}"
    ),
    "steps of rank {n_one} are {steps} and of rank {n_two} {other}": (
        "스텝의 이름이 다름: 랭크 {n_one} {steps}, 랭크 {n_two} {other}"
    ),
    "{gpu} on rank {n_one} and {other} on rank {n_two}": "GPU가 다름: 랭크 {n_one} {gpu}, 랭크 {n_two} {other}",
    "{n_steps} steps on rank {n_one} and {n_other} on rank {n_two}": (
        "스텝 수가 다름: 랭크 {n_one} {n_steps}개, 랭크 {n_two} {n_other}개"
    ),
    "no collective of rank {n_one} is one of rank {n_two}": "랭크 {n_one}, 랭크 {n_two}: 공통인 집합 통신이 없음",
    "No file for ranks {some}.": "랭크 {some}의 파일이 없습니다.",
    "No steps were found in the captures of ranks {some}.": "랭크 {some}의 캡처에서 스텝을 찾지 못했습니다.",
    "Neither the capture nor its name tells the rank of {count} files ({names}): numbered in order.": (
        "파일 {count}개({names})의 랭크는 캡처로도 이름으로도 알 수 없어 순서대로 번호를 붙였습니다."
    ),
    "{count} captures hold several processes with steps: they are numbered by GPU, which need not be their rank.": (
        "캡처 {count}개에 스텝이 있는 프로세스가 여럿입니다. GPU 순서로 번호를 붙였으며, 랭크와 다를 수 있습니다."
    ),
    "{n} files are called after another rank than their capture tells ({name}: rank {rank}): the capture is "
    "believed.": ("파일 {n}개의 이름에 든 랭크가 캡처의 랭크와 다릅니다({name}: 랭크 {rank}). 캡처를 믿습니다."),
    "{name} holds a placeholder that nsys did not fill: the variable was not set where it ran, and ranks may have "
    "overwritten each other's file.": (
        "{name}: nsys가 채우지 못한 자리표가 이름에 있습니다. 실행한 곳에 그 변수가 없었고, 랭크들이 서로의 파일을 "
        "덮어썼을 수 있습니다."
    ),
    "{ranks} in the environment of several captures: ranks are taken from the files' names.": (
        "여러 캡처의 환경에 {ranks} 값이 있습니다. 랭크는 파일 이름에서 얻었습니다."
    ),
}
