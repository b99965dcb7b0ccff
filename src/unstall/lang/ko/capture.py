"""Korean of what loading and analysing say of a capture: its warnings, what it lacks and how to collect it.

In: nothing. Out: ``HEARD``.
"""

from __future__ import annotations

HEARD = {
    "nsys lost CUDA events: {made} were produced, {kept} are in the file, and it reports errors in processing them. "
    "What the GPU did is mostly not here. Profile again; with another release of nsys, or without NVTX "
    "(--trace=cuda,osrt), it may stay (neither has been tried).": "nsys가 CUDA 이벤트를 잃었습니다. "
    "{made}개가 만들어졌고 파일에는 {kept}개가 있으며, 처리 중 오류가 났다고 합니다. GPU가 한 일은 대부분 여기에 "
    "없습니다. 다시 프로파일링하십시오. 다른 버전의 nsys를 쓰거나 NVTX 없이 수집하면(--trace=cuda,osrt) 남을 수도 "
    "있습니다(둘 다 시도해 보지 않았습니다).",
    # what a capture lacks: the thing, that it is missing, how to collect it
    "GPU work": "GPU 작업",
    "CUDA calls": "CUDA 호출",
    "NVTX ranges": "NVTX 구간",
    "OS runtime calls (file I/O, locks)": "OS 런타임 호출(파일 I/O, 락)",
    "GIL waits": "GIL 대기",
    "CPU samples": "CPU 샘플",
    "CPU samples: none": "CPU 샘플: 없습니다",
    "no CUDA rows in this capture": "이 캡처에 CUDA 행이 없습니다",
    "not traced": "추적하지 않았습니다",
    "none traced": "추적된 것이 없습니다",
    "needs GPU work": "GPU 작업이 필요합니다",
    "needs GPU copies": "GPU 복사가 필요합니다",
    "needs CUDA calls": "CUDA 호출이 필요합니다",
    "needs NVTX ranges": "NVTX 구간이 필요합니다",
    "needs OS runtime calls": "OS 런타임 호출이 필요합니다",
    "needs GIL waits": "GIL 대기가 필요합니다",
    "needs CPU samples": "CPU 샘플이 필요합니다",
    "nsys lost most CUDA events (see the warnings)": "nsys가 CUDA 이벤트를 대부분 잃었습니다(경고를 보십시오)",
    "traced, and none seen": "추적했으나 하나도 없습니다",
    "the program made no CUDA call, or there is no GPU (see the warnings)": (
        "프로그램이 CUDA를 호출하지 않았거나 GPU가 없습니다(경고를 보십시오)"
    ),
    "this nsys may hang with them": "이 nsys는 이것을 받다가 멈출 수 있습니다",
    "a newer one (2023.1 or later) collects them, or `unstall run --collector builtin`": (
        "더 새로운 nsys(2023.1 이상) 또는 `unstall run --collector builtin`으로 수집하십시오"
    ),
    "collect with `unstall run --collector builtin`": "`unstall run --collector builtin`으로 수집하십시오",
    "needs the table {table}": "{table} 표가 필요합니다",
    "collect with `--trace=cuda` on a machine with a GPU": "GPU가 있는 장비에서 `--trace=cuda`로 수집하십시오",
    "collect with `--trace=cuda`": "`--trace=cuda`로 수집하십시오",
    "collect with `--trace=nvtx`, or `unstall run --auto` for a script without them": (
        "`--trace=nvtx`로, 구간이 없는 스크립트라면 `unstall run --auto`로 수집하십시오"
    ),
    "collect with `--trace=nvtx`, or `unstall run --auto` when it has none": (
        "`--trace=nvtx`로, 구간이 없다면 `unstall run --auto`로 수집하십시오"
    ),
    "collect with `--trace=osrt`": "`--trace=osrt`로 수집하십시오",
    "collect with `--trace=python-gil` (nsys 2023.4 or newer)": "`--trace=python-gil`로 수집하십시오(nsys 2023.4 이상)",
    "collect with `--sample=process-tree` where the kernel allows it": (
        "운영체제 커널이 허용하면 `--sample=process-tree`로 수집하십시오"
    ),
    "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] on a machine with a GPU": (
        "GPU가 있는 장비에서 activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]로 수집하십시오"
    ),
    "collect with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]": (
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]로 수집하십시오"
    ),
    "collect with ProfilerActivity.CPU, call prof.step() once a step, name phases with record_function": (
        "ProfilerActivity.CPU로 수집하고, 스텝마다 prof.step()을 한 번 호출하고, 단계에는 record_function으로 이름을 "
        "붙이십시오"
    ),
    "collect with with_stack=True (slow), or `unstall run -- python train.py`": (
        "with_stack=True(느림) 또는 `unstall run -- python train.py`로 수집하십시오"
    ),
    "PyTorch's profiler does not record them": "PyTorch 프로파일러는 기록하지 않습니다",
    "`unstall run -- python train.py` does, with nsys": "`unstall run -- python train.py`는 nsys로 기록합니다",
    "the built-in collector does not record them": "내장 수집기는 기록하지 않습니다",
    "`unstall run` does where nsys is (see `unstall doctor`)": (
        "nsys가 있으면 `unstall run`이 기록합니다(`unstall doctor` 참고)"
    ),
    "the built-in collector sees those of torch on a machine with a GPU, nsys all (see `unstall doctor`)": (
        "GPU가 있는 장비에서 내장 수집기는 torch의 것을, nsys는 모두를 봅니다(`unstall doctor` 참고)"
    ),
    "annotate the program (unstall.annotate), or {command} for a script without ranges": (
        "프로그램에 주석(unstall.annotate)을 다십시오. 구간이 없는 스크립트라면 {command} 명령으로 수집하십시오"
    ),
    "the program ended before the first sample was due": "첫 샘플을 얻기 전에 프로그램이 끝났습니다",
    # what is wrong with a capture
    "{n} of {n_all} processes with steps: only the {n_seen} with most work were examined": (
        "스텝이 있는 프로세스 {n_all}개 중 {n}개: 작업이 가장 많은 {n_seen}개만 조사했습니다"
    ),
    "capture fewer at once for the others": "나머지를 보려면 한 번에 더 적은 프로세스를 캡처하십시오",
    "No repeating step was found: totals cover the whole capture, warm-up included. Name the steps with --step "
    "REGEX, or annotate them (unstall.step, or {command}).": (
        "되풀이되는 스텝을 찾지 못했습니다: 합계는 워밍업을 포함한 캡처 전체의 것입니다. --step REGEX로 스텝을 "
        "지정하거나 주석(annotate)을 다십시오(unstall.step 또는 {command})."
    ),
    "No repeating step was found, although --auto was on: totals cover the whole capture, warm-up included. Write "
    "`with unstall.step(i):` in the loop, or name a range that comes once a step with --step REGEX.": (
        "--auto를 켰지만 되풀이되는 스텝을 찾지 못했습니다: 합계는 워밍업을 포함한 캡처 전체의 것입니다. 반복문에 "
        "`with unstall.step(i):`를 쓰거나, 스텝마다 한 번 나오는 구간을 --step REGEX로 지정하십시오."
    ),
    "{n} processes ({pids}) share GPU {device}: not at the same time, though: no steady step of one meets work of "
    "another": (
        "프로세스 {n}개({pids})가 GPU {device} 하나를 함께 쓰지만, 같은 때는 아닙니다: 정상 상태 스텝이 다른 "
        "프로세스의 작업과 겹치지 않습니다"
    ),
    "{n} processes ({pids}) share GPU {device}: each one's step includes waiting for the other's kernels": (
        "프로세스 {n}개({pids})가 GPU {device} 하나를 함께 씁니다: 각자의 스텝에는 다른 프로세스의 커널을 기다리는 "
        "시간이 들어 있습니다"
    ),
    "Process {pid} drives {n} GPUs (busy in a step: {work}): GPU busy, GPU idle and where a step goes are of the first "
    "of them": (
        "프로세스 {pid}: GPU {n}개를 씁니다(스텝마다 가동: {work}). GPU 가동, GPU 유휴, 시간이 가는 곳은 그중 첫째 "
        "GPU의 것입니다"
    ),
    "{n} CUDA graph replays are recorded as one row each: what runs inside is not visible. Collect with "
    "`--cuda-graph-trace=node` to see the kernels.": (
        "CUDA 그래프 재생 {n}번이 각각 한 행으로 기록되어 있습니다: 안에서 무엇이 실행되는지 보이지 않습니다. 커널을 "
        "보려면 `--cuda-graph-trace=node`로 수집하십시오."
    ),
    "The step takes {traced} ms under the profiler, of which the GPU works {busy} ms: {given} ms without the "
    "profiler cannot be of this run, and predictions start there. Is it in milliseconds?": (
        "스텝은 프로파일러 아래에서 {traced} ms 걸리고 그중 GPU가 일하는 시간은 {busy} ms입니다: 프로파일러 없이 "
        "{given} ms라는 값은 이 실행의 것일 수 없는데, 예측은 거기서 출발합니다. 밀리초 단위가 맞습니까?"
    ),
    "The step takes {traced} ms under the profiler: {given} ms without it is another run's or not in milliseconds, "
    "unless threads contend (for the GIL, for a lock) and wait less while they are traced. Predictions start there.": (
        "스텝은 프로파일러 아래에서 {traced} ms 걸립니다: 프로파일러 없이 {given} ms라는 값은 다른 실행의 것이거나 "
        "밀리초 단위가 아닙니다. 다만 GIL이나 락을 다투는 스레드는 추적하는 동안 덜 기다릴 수 있습니다. 예측은 "
        "거기서 출발합니다."
    ),
    "The step takes {traced} ms under the profiler and {given} ms without it, as the run itself measured: something "
    "waits less while it is traced, as threads that contend for the GIL do. Such waits are longer than shown here, and "
    "what their remedy brings is best measured (unstall try).": (
        "스텝은 프로파일러 아래에서 {traced} ms, 실행이 직접 잰 바로는 프로파일러 없이 {given} ms 걸립니다: GIL을 "
        "다투는 스레드처럼, 추적하는 동안 덜 기다리는 것이 있습니다. 그런 대기는 여기 보이는 것보다 길고, 해결책의 "
        "효과는 직접 재는 것이 가장 확실합니다(unstall try)."
    ),
    "NVTX ranges that overlap others without nesting: {n} ({names}). They are totalled, but have no self time and no "
    "GPU time.": (
        "포함 관계 없이 다른 구간과 겹치는 NVTX 구간: {n}개({names}). 합계에는 넣지만 자체 시간과 GPU 시간은 없습니다."
    ),
    "The export does not say the {what:said} of some rows, which are kept as {what:said} {number}: {tables:each}.": (
        "내보낸 파일이 일부 행의 {what:said} 번호를 알려 주지 않습니다. {what:said} {number}의 것으로 둡니다: "
        "{tables:each}."
    ),
    "The export does not say the GPU of some rows: {tables:each}. {found} are put on the GPU of their context, {lost} "
    "on an unknown one.": (
        "내보낸 파일이 일부 행의 GPU를 알려 주지 않습니다: {tables:each}. {found}행은 그 컨텍스트의 GPU에, {lost}행은 "
        "알 수 없는 GPU에 둡니다."
    ),
    "process": "프로세스",
    "thread": "스레드",
    "{n} in {table}": "{table} {n}행",
    "Rows without a time, left out: {tables:each}.": "시각이 없는 행 제외: {tables:each}.",
    "Rows before the capture began (negative time), left out: {tables:each}.": (
        "캡처가 시작되기 전(음수 시각)의 행 제외: {tables:each}."
    ),
    "Rows with a time or a length that no capture can have, left out: {tables:each}.": (
        "어떤 캡처에도 있을 수 없는 시각이나 길이의 행 제외: {tables:each}."
    ),
    "Rows that end before they start, left out: {tables:each}.": "시작하기 전에 끝나는 행 제외: {tables:each}.",
    "Rows with something other than a possible number where one belongs (kept, that value unknown): {tables:each}.": (
        "숫자 자리에 있을 수 없는 값이 있는 행(행은 두고 그 값은 알 수 없음으로 함): {tables:each}."
    ),
    "Rows whose name the file does not hold (kept as [unknown]): {tables:each}.": (
        "파일에 이름이 없는 행([unknown]으로 둠): {tables:each}."
    ),
    "Rows of an NVTX event type unknown here, left out: {tables:each}.": (
        "여기서 모르는 종류의 NVTX 이벤트 행 제외: {tables:each}."
    ),
    "NVTX rows that are not ranges, kept apart: {kinds:each}.": "구간이 아니어서 따로 둔 NVTX 행: {kinds:each}.",
    "{n} category name": "범주 이름 {n}개",
    "{n} category names": "범주 이름 {n}개",
    "{n} mark": "마크 {n}개",
    "{n} marks": "마크 {n}개",
    "{n} thread name": "스레드 이름 {n}개",
    "{n} thread names": "스레드 이름 {n}개",
    "{n} domain name": "도메인 이름 {n}개",
    "{n} domain names": "도메인 이름 {n}개",
    "{n} domain end": "도메인 끝 {n}개",
    "{n} domain ends": "도메인 끝 {n}개",
    "NVTX ranges never closed: {n} ({names}). Their time is unknown.": (
        "닫히지 않은 NVTX 구간: {n}개({names}). 그 시간은 알 수 없습니다."
    ),
    "NVTX ranges that end on another thread: {n} ({names}). They nest in no thread.": (
        "다른 스레드에서 끝나는 NVTX 구간: {n}개({names}). 어느 스레드의 구간에도 포함되지 않습니다."
    ),
    "NVTX started but not one range was recorded, and {nsys} reports an incompatible NVTX payload extension: "
    "probably pip nvtx 0.2.12 or newer under an older nsys. Install nvtx==0.2.11 (pip install 'nvtx<0.2.12'), or "
    "profile with a newer nsys.": (
        "NVTX가 시작되었지만 구간이 하나도 기록되지 않았고, {nsys} 쪽에서 호환되지 않는 NVTX payload 확장을 "
        "보고합니다: 아마 오래된 nsys 아래의 pip nvtx 0.2.12 이상입니다. nvtx==0.2.11을 설치하거나(pip install "
        "'nvtx<0.2.12') 더 새로운 nsys로 프로파일링하십시오."
    ),
    "NVTX was in use but not one range was recorded under {nsys}: probably pip nvtx 0.2.12 or newer, which this nsys "
    "cannot read. Install nvtx==0.2.11 (pip install 'nvtx<0.2.12'), or profile with a newer nsys.": (
        "NVTX를 썼지만 {nsys} 아래에서 구간이 하나도 기록되지 않았습니다: 아마 이 nsys가 읽지 못하는 pip nvtx 0.2.12 "
        "이상입니다. nvtx==0.2.11을 설치하거나(pip install 'nvtx<0.2.12') 더 새로운 nsys로 프로파일링하십시오."
    ),
    "The capture holds no events: the program ended before it began, or a capture range was never entered.": (
        "캡처에 이벤트가 없습니다: 캡처가 시작되기 전에 프로그램이 끝났거나, 캡처 구간에 들어간 적이 없습니다."
    ),
    "CUDA tracing was asked for and nothing of it is in the file: the program did no GPU work, or it could not be "
    "seen (another profiler such as torch.profiler was active, or this nsys does not know the driver).": (
        "CUDA 추적을 요청했지만 파일에 아무것도 없습니다: 프로그램이 GPU 작업을 하지 않았거나, 볼 수 "
        "없었습니다(torch.profiler 같은 다른 프로파일러가 켜져 있었거나, 이 nsys가 드라이버를 모릅니다)."
    ),
    "The timeline could not be made: {error}.": "타임라인을 만들지 못했습니다: {error}.",
    # PyTorch's profiler
    "Every Python call was recorded (with_stack=True), which makes the host much slower than it is: host times are "
    "too long. Its calls are shown as samples.": (
        "모든 Python 호출이 기록되어(with_stack=True) 호스트가 실제보다 훨씬 느립니다: 호스트 시간이 너무 깁니다. "
        "Python 호출은 샘플로 표시합니다."
    ),
    "The machine has a GPU and the trace holds nothing of it: the program did no GPU work while it was recorded, or "
    "the profiler ran without torch.profiler.ProfilerActivity.CUDA.": (
        "장비에는 GPU가 있지만 트레이스에는 그 기록이 없습니다: 기록하는 동안 프로그램이 GPU 작업을 하지 않았거나, "
        "프로파일러가 torch.profiler.ProfilerActivity.CUDA 없이 실행되었습니다."
    ),
    "The trace has no annotations: call prof.step() once a step, and name phases with "
    "torch.profiler.record_function, to see steps and what the host does in them.": (
        "트레이스에 주석(annotation)이 없습니다: 스텝과 그 안에서 호스트가 하는 일을 보려면 스텝마다 prof.step()을 한 "
        "번 호출하고, 단계에는 torch.profiler.record_function으로 이름을 붙이십시오."
    ),
    # the text of nsys stats
    "A table": "어떤 표",
    "nsys reported: {error}": "nsys의 보고: {error}",
    "The text speaks of several profiles: {first} is reported, and not {others}.": (
        "텍스트에 프로파일이 여럿 있습니다: 보고하는 것은 {first}, 보고하지 않는 것은 {others}입니다."
    ),
    "Printed more than once, the first is reported: {reports}.": "여러 번 출력되어 첫 번째 것을 보고합니다: {reports}.",
    "Shares are of the sum of the rows listed, wrappers left out: a table has no wall time and no nesting, so ranges "
    "inside other ranges count twice, and warm-up is included.": (
        "비중은 감싸는 구간을 뺀, 나열한 행의 합에 대한 것입니다: 표에는 경과 시간도 포함 관계도 없으므로 다른 구간 "
        "안의 구간은 두 번 세고 워밍업도 들어 있습니다."
    ),
    "nsys skipped it: {reason}": "nsys가 건너뛰었습니다: {reason}",
    "no {report} in the text; add it with `nsys stats --report {report}`": (
        "텍스트에 {report} 표가 없습니다. `nsys stats --report {report}` 명령으로 추가하십시오"
    ),
    "no numbered step ranges in the text, and a table of sums holds no single times of others": (
        "텍스트에 번호가 붙은 스텝 구간이 없고, 합계의 표에는 다른 구간의 낱낱의 시간이 없습니다"
    ),
    "a table of sums holds no times; give the profile itself: `unstall report FILE.nsys-rep`, or its .sqlite": (
        "합계의 표에는 시각이 없습니다. 프로파일 자체를 주십시오: `unstall report FILE.nsys-rep` 또는 그 .sqlite"
    ),
    "{n} characters are not valid {encoding} and show as \ufffd: names that hold them may be wrong.": (
        "글자 {n}개가 올바른 {encoding} 부호가 아니어서 \ufffd 기호로 표시됩니다: 그 글자가 든 이름은 틀릴 수 있습니다."
    ),
    "The text ends in the middle of a table: rows behind it are missing.": (
        "텍스트가 표 중간에서 끝납니다: 그 뒤의 행이 없습니다."
    ),
    "The text ends in the middle of a row: that row is left out, and rows behind it are missing.": (
        "텍스트가 행 중간에서 끝납니다: 그 행은 제외했고, 그 뒤의 행은 없습니다."
    ),
    "Rows without numbers where numbers belong, left out: {n}.": "숫자 자리에 숫자가 없어 제외한 행: {n}개.",
    "Damaged rows left out: {n}. They begin like a row and do not fit the header.": (
        "손상된 행 {n}개를 제외했습니다: 행처럼 시작하지만 머리글과 맞지 않습니다."
    ),
    "{report:said} was printed in milliseconds or seconds and is rounded; `--timeunit ns` is exact.": (
        "{report:said}: 밀리초나 초로 출력되어 반올림되어 있습니다. `--timeunit ns`로 출력하면 정확합니다."
    ),
    "{n} names are cut off (…) as the console shows them: rows that look the same are kept apart.": (
        "이름 {n}개가 콘솔에 표시된 대로 잘려 있습니다(…): 같아 보이는 행도 따로 둡니다."
    ),
    "Step times are those of the host's own {wrapper} ranges: gaps between them are not in a table, and where the "
    "GPU is the limit the host runs ahead and they say nothing of it.": (
        "스텝 시간은 호스트의 {wrapper} 구간의 시간입니다: 구간 사이의 틈은 표에 없고, GPU가 한계이면 호스트가 앞서 "
        "나가므로 GPU에 대해서는 아무것도 말해 주지 않습니다."
    ),
    "The table is sorted by time and cut off: at least {n} of {n_all} steps are missing, the shortest ones, so the "
    "step time shown is too long.": (
        "표가 시간순으로 정렬되고 잘려 있습니다: 스텝 {n_all}개 중 적어도 {n}개, 그것도 가장 짧은 것들이 없으므로 "
        "표시된 스텝 시간은 너무 깁니다."
    ),
    "The text has no nvtx_sum: only ranges that launched GPU work from their own thread are listed.": (
        "텍스트에 nvtx_sum 표가 없습니다: 자기 스레드에서 GPU 작업을 실행한 구간만 나열합니다."
    ),
    "Rows of the GIL trace are kept apart from the ranges: {rows}.": "GIL 추적의 행은 구간과 따로 둡니다: {rows}.",
    "A table has no nesting: {which}, numbered and each occurring once, is taken for a wrapper around the loop body "
    "and left out of the shares.": (
        "표에는 포함 관계가 없습니다: 번호가 붙고 한 번씩만 나오는 {which} 구간은 반복문 본문을 감싸는 구간으로 보고 "
        "비중에서 제외합니다."
    ),
    "A table has no nesting: {which}, by name, count and total, is taken for a wrapper around the loop body and left "
    "out of the shares.": (
        "표에는 포함 관계가 없습니다: 이름과 횟수와 합계로 보아 {which} 구간은 반복문 본문을 감싸는 구간으로 보고 "
        "비중에서 제외합니다."
    ),
}
