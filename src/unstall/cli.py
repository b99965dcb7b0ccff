"""The command line: argument parsing only, one short function a command, and where errors become exit codes.

In: ``sys.argv``. Out: a call into ``unstall.commands`` and an exit code (docs/exit-codes.md). Nothing heavy is imported
before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperCommand

from unstall.errors import UnstallError
from unstall.lang import Language
from unstall.report import outputs

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h: ours to mend, never a verdict on the profile

app = typer.Typer(
    name="unstall",
    help="Find what stalls your GPU, fix it, prove it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Profiles = Annotated[
    list[str],
    typer.Argument(
        metavar="PROFILE",
        help="Exports (.sqlite), .nsys-rep, .qdstrm, PyTorch traces (.json, .json.gz), nsys stats text; - for stdin.",
    ),
]
LONGEST_S = 1_000_000  # eleven days; the waits of the operating system end at twenty-four, and at infinity


def _a_number(seconds: float | None) -> float | None:
    """Refuse NaN, which older releases of typer let through every range."""
    if seconds is not None and math.isnan(seconds):
        raise typer.BadParameter("needs a number")
    return seconds


def _seconds(name: str, words: str, least: int = 0) -> Any:
    """An option of seconds."""
    return typer.Option(name, min=least, max=LONGEST_S, callback=_a_number, metavar="S", help=words)


Top = Annotated[int, typer.Option("--top", min=0, metavar="N", help="Rows a table shows; 0 for all.")]
Rank = Annotated[Literal["total", "self", "gpu"], typer.Option("--by", help="What ranks the ranges.")]
Step = Annotated[
    str | None, typer.Option("--step", metavar="REGEX", help="Ranges that are the training steps; found without it.")
]
Unprofiled = Annotated[
    float | None,
    typer.Option("--unprofiled-ms", min=1e-6, metavar="X", help="Step time without the profiler, where you know it."),
]
Lang = Annotated[Language, typer.Option("--lang", envvar="UNSTALL_LANG", help="Language of what is said.")]
Sample = Annotated[
    Literal["auto", "none", "process-tree", "system-wide"], typer.Option("--sample", help="CPU samples.")
]
Collector = Annotated[
    Literal["auto", "nsys", "builtin"], typer.Option("--collector", help="nsys where it works, else built in.")
]
KeepReport = Annotated[
    bool, typer.Option("--keep-report/--no-keep-report", help="Keep the .nsys-rep, which cannot be redacted.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep what was read of a profile.")]


def with_outputs(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` one ``--NAME FILE`` for every output of ``unstall.report``; it gets them as keywords."""
    own = inspect.signature(command, eval_str=True)
    kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [
        inspect.Parameter(
            o.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None, typer.Option(f"--{o.name}", metavar="FILE", help=f"Write {o.help} (- for standard output).")
            ],
        )
        for o in outputs()
    ]
    described: Any = command
    described.__signature__ = own.replace(parameters=[*kept, *added])
    described.__annotations__ = {p.name: p.annotation for p in [*kept, *added]}
    return command


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from unstall._version import VERSION

        typer.echo(f"unstall {VERSION}")
        raise typer.Exit


@app.command()
@with_outputs
def report(
    profiles: Profiles,
    *,
    top: Top = 10,
    by: Rank = "total",
    step: Step = None,
    unprofiled_ms: Unprofiled = None,
    no_cache: NoCache = False,
    lang: Lang = "en",
    **targets: str,
) -> None:
    """Say what takes the time and what stalls the GPU.

    Several profiles give one report each. FILE may hold {name}, which becomes the profile's own name.
    """
    from unstall.commands import report as command

    command.run(
        profiles, targets, top=top, by=by, step=step, unprofiled_ms=unprofiled_ms, cache=not no_cache, language=lang
    )


@app.command()
@with_outputs
def demo(
    top: Top = 10,
    by: Rank = "total",
    live: Annotated[bool, typer.Option("--live", help="Only the run made here, with its whole report.")] = False,
    recorded: Annotated[bool, typer.Option("--recorded", help="Only the recorded run: nothing runs here.")] = False,
    lang: Lang = "en",
    **targets: str,
) -> None:
    """Show the whole loop in a minute: a run recorded on an H200, and the same run here; the fix tried on both.

    Needs no GPU, no nsys and no torch; it uses what there is of them.
    """
    from unstall.commands import demo as command

    if live and not recorded:
        raise typer.Exit(command.run_live(targets, top=top, by=by, language=lang))
    command.run(targets, top=top, by=by, live=not recorded, language=lang)


class _RunCommand(TyperCommand):
    """``run``: options end where the program begins, and all between ``--nsys-args`` and ``--`` is one value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from unstall.commands.run import join_nsys_args

        parsed: list[str] = super().parse_args(ctx, join_nsys_args(args))
        return parsed


@app.command(cls=_RunCommand, context_settings={"allow_interspersed_args": False})
@with_outputs
def run(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENTS]", help="What to run.")],
    *,
    auto: Annotated[bool, typer.Option("--auto", help="Ranges for PyTorch training without an edit.")] = False,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="A:B", help="Capture training steps A to B-1 only.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="DIR", help="Folder of the capture [unstall-out/NAME-TIME].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an older capture in that folder.")] = False,
    collector: Collector = "auto",
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="LIST", help="What nsys traces [cuda,nvtx,osrt,python-gil].")
    ] = None,
    sample: Sample = "auto",
    gpu_metrics: Annotated[
        str, typer.Option("--gpu-metrics", metavar="DEVICES", help="Sample GPU metrics of these devices.")
    ] = "",
    graph_nodes: Annotated[
        bool, typer.Option("--graph-nodes", help="Every node of CUDA graphs; slows the program.")
    ] = False,
    delay: Annotated[float, _seconds("--delay", "Seconds before capturing; not with --steps.")] = 0,
    duration: Annotated[float, _seconds("--duration", "Seconds to capture; then the program is ended.")] = 0,
    calibrate: Annotated[float, _seconds("--calibrate", "First run S seconds without a profiler.")] = 0,
    nsys_args: Annotated[
        str, typer.Option("--nsys-args", metavar="… --", help="All up to -- goes to nsys profile as it is.")
    ] = "",
    keep_report: KeepReport = True,
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Take environment and names out of the .sqlite.")
    ] = True,
    top: Top = 10,
    by: Rank = "total",
    step: Step = None,
    lang: Lang = "en",
    **targets: str,
) -> None:
    """Run a program, capture a profile of it, and report. Exits with the program's own code."""
    from unstall.commands import run as implementation

    options = implementation.asked(
        auto=auto, steps=steps, output=output, force=force, collector=collector, trace=trace, sample=sample,
        gpu_metrics=gpu_metrics, graph_nodes=graph_nodes, delay=delay, duration=duration, calibrate=calibrate,
        nsys_args=nsys_args, keep_report=keep_report, redact=redact,
    )  # fmt: skip
    raise typer.Exit(implementation.run(command, targets, options=options, top=top, by=by, step=step, language=lang))


@app.command("try", context_settings={"allow_interspersed_args": False})
def try_(
    command: Annotated[list[str], typer.Argument(metavar="PROGRAM [ARGUMENTS]", help="What to run.")],
    *,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="P", help="Candidates from its findings; else a quick capture.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="This remedy, or those of this finding's code.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All remedies, whatever the findings say.")] = False,
    budget: Annotated[float, _seconds("--budget", "Seconds for all runs together.", least=1)] = 300,
    steps: Annotated[int, typer.Option("--steps", min=15, metavar="N", help="End each run after N steps.")] = 100,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON (- for standard output).")
    ] = None,
    lang: Lang = "en",
) -> None:
    """Run a program with and without each fix, unprofiled and unedited, and rank the fixes by what they gain."""
    from unstall.commands import try_ as implementation

    raise typer.Exit(
        implementation.run(
            command,
            profile=profile,
            only=only or [],
            everything=everything,
            budget=budget,
            steps=steps,
            json=json,
            language=lang,
        )
    )


class _KernelCommand(TyperCommand):
    """``kernel``: everything behind ``--`` is the program; before it, options and the kernel's name in any order."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["program"] = args[at + 1 :]
        parsed: list[str] = super().parse_args(ctx, args[:at])
        return parsed


@app.command("kernel", cls=_KernelCommand)
def kernel(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME] -- PROGRAM …", help="A kernel (regex); without it, the one that matters."),
    ] = None,
    *,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="P", help="Choose the kernel from it; else a quick capture.")
    ] = None,
    skip: Annotated[
        int | None, typer.Option("--skip", min=0, metavar="N", help="Launches of it left out first.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, metavar="N", help="Launches measured [3].")] = None,
    inside: Annotated[
        str | None, typer.Option("--range", metavar="NAME", help="Only launches inside this NVTX range (push/pop).")
    ] = None,
    keep_running: Annotated[
        bool, typer.Option("--keep-running", help="Let the program run to its end after the measurement.")
    ] = False,
    read: Annotated[
        str | None, typer.Option("--read", metavar="CSV", help="Judge what ncu --csv printed; runs nothing.")
    ] = None,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Keep what ncu measured, for --read.")
    ] = None,
    json: Json = None,
    lang: Lang = "en",
) -> None:
    """Say why a kernel is slow, with Nsight Compute: the one named, or the one that matters."""
    from unstall.commands import kernel as implementation

    raise typer.Exit(
        implementation.run(
            ctx.meta["program"], name=name, profile=profile, skip=skip, count=count, inside=inside,
            keep_running=keep_running, read=read, csv=csv, json=json, language=lang,
        )
    )  # fmt: skip


@app.command()
def fix(
    script: Annotated[str, typer.Argument(metavar="TRAIN.py", help="The script to mend.")],
    *,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="P", help="Only what its findings call for.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help="This remedy, or those of this finding's code.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Worker processes of a DataLoader.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write it; the old script stays as TRAIN.py.bak.")] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON (- for standard output).")
    ] = None,
    lang: Lang = "en",
) -> None:
    """Show what the findings call for as a patch of the script. Writes nothing without --apply."""
    from unstall.commands import fix as implementation

    implementation.run(script, profile=profile, only=only or [], workers=workers, apply=apply, json=json, language=lang)


@app.command()
def doctor(
    json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON (- for standard output).")
    ] = None,
    lang: Lang = "en",
) -> None:
    """Say what can be collected on this machine, what is missing, and the command that brings it."""
    from unstall.commands import doctor as implementation

    implementation.run(json, language=lang)


@app.command()
def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="A finding's code; without it, all of them.")
    ] = None,
    lang: Lang = "en",
) -> None:
    """Say what a finding means, why it costs time, how to fix it, and when it is a false alarm."""
    from unstall.commands import explain as implementation

    implementation.run(code, language=lang)


FailIf = Annotated[
    list[str] | None,
    typer.Option("--fail-if", metavar="EXPR", help="Exit 1 if so: slower, 'step_ms > 30', 'ratio < 0.95' …"),
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="FILE", help="Limits in TOML or JSON; exit 1 if one is broken.")
]
Margin = Annotated[
    float | None, typer.Option("--margin", metavar="X", help="What 'no difference' rules out [0.05, that is 5 %].")
]
AcrossGpus = Annotated[bool, typer.Option("--across-gpus", help="Give a verdict on two different GPUs as well.")]
Json = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write it as JSON (- for standard output).")]
Markdown = Annotated[
    str | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown (- for standard output).")
]
Html = Annotated[
    str | None, typer.Option("--html", metavar="FILE", help="Write it as one page (- for standard output).")
]
SIDE = "Profile, report JSON, baseline, or step times in ms, one a line."
KEPT = "unstall-baseline.json"


@app.command()
def compare(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=SIDE)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The same of the other side.")],
    *,
    fail_if: FailIf = None,
    budget: Budget = None,
    top: Top = 10,
    step: Step = None,
    margin: Margin = None,
    across_gpus: AcrossGpus = False,
    no_cache: NoCache = False,
    json: Json = None,
    markdown: Markdown = None,
    html: Html = None,
    lang: Lang = "en",
) -> None:
    """Say which side is faster, how sure that is, what moved."""
    from unstall.commands import compare as implementation

    implementation.run(
        before, after, fail_if=fail_if or [], budget=budget, json=json, markdown=markdown, html=html, top=top,
        step=step, margin=margin, across_gpus=across_gpus, cache=not no_cache, language=lang,
    )  # fmt: skip


baseline = typer.Typer(help="Keep a run's figures in the repository, and check others against them.")
app.add_typer(baseline, name="baseline", no_args_is_help=True)


@baseline.command("save")
def baseline_save(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help=SIDE)],
    output: Annotated[str, typer.Option("--output", metavar="FILE", help="Where the baseline goes.")] = KEPT,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    step: Step = None,
    no_cache: NoCache = False,
) -> None:
    """Write what a comparison needs of a run as JSON, without paths and host names."""
    from unstall.commands import compare as implementation

    implementation.save(profile, output, force=force, step=step, cache=not no_cache)


@baseline.command("check")
def baseline_check(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help=SIDE)],
    *,
    against: Annotated[str, typer.Option("--baseline", metavar="FILE", help="What `save` wrote.")] = KEPT,
    fail_if: FailIf = None,
    budget: Budget = None,
    top: Top = 10,
    step: Step = None,
    margin: Margin = None,
    across_gpus: AcrossGpus = False,
    no_cache: NoCache = False,
    json: Json = None,
    markdown: Markdown = None,
    html: Html = None,
    lang: Lang = "en",
) -> None:
    """Compare a run with the baseline. Exit 1 if it is slower, or if the gates that are named fail."""
    from unstall.commands import compare as implementation

    implementation.run(
        against, profile, fail_if=fail_if or ([] if budget else ["slower"]), budget=budget, json=json,
        markdown=markdown, html=html, top=top, step=step, margin=margin, across_gpus=across_gpus, cache=not no_cache,
        language=lang,
    )  # fmt: skip


@app.command()
def ranks(
    places: Annotated[
        list[str],
        typer.Argument(metavar="PLACE", help="Folders, captures, patterns or addresses (s3://…): one capture a rank."),
    ],
    *,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Processes that read [as many as fit].")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Read on the workers of this Dask scheduler.")
    ] = None,
    patience: Annotated[float, _seconds("--patience", "Seconds until a capture is given up.", least=1)] = 600,
    top: Top = 10,
    step: Step = None,
    no_cache: NoCache = False,
    json: Json = None,
    markdown: Markdown = None,
    html: Html = None,
    lang: Lang = "en",
) -> None:
    """Merge the captures of many ranks: who makes the others wait, why, what that costs everyone."""
    from unstall.commands import ranks as implementation

    implementation.run(
        places, {"json": json, "markdown": markdown, "html": html}, workers=workers, scheduler=scheduler, step=step,
        cache=not no_cache, patience=patience, top=top, language=lang,
    )  # fmt: skip


@app.command()
def redact(
    profile: Annotated[str, typer.Argument(metavar="PROFILE", help="An export (.sqlite).")],
    output: Annotated[str, typer.Option("--output", metavar="CLEAN", help="Where the copy goes.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Copy a profile without environment variables, command lines, host and user names."""
    from unstall.commands import redact as implementation

    implementation.run(profile, output, force=force)


def main() -> NoReturn:
    """Run the command line. The one place where an error becomes a line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the locale cannot show is no reason to fail
    try:
        code = app(prog_name="unstall", standalone_mode=False)
    except UnstallError as error:
        _fail(str(error), error.exit_code)
    except typer.Abort:
        _fail("interrupted", 130)
    except Exception as error:
        from unstall.commands import usage

        if usage.is_usage(error):
            sys.exit(usage.told(error, _fail))
        _crash(error)
    sys.exit(code if isinstance(code, int) else 0)


def _crash(error: Exception) -> NoReturn:
    """What we did not foresee: one line, the traceback only on request."""
    if os.environ.get("UNSTALL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    what = f"internal error: {type(error).__name__}: {error}"
    _fail(f"{what}. A fault of unstall: report it with the traceback that UNSTALL_DEBUG=1 shows", INTERNAL_ERROR)


def _fail(line: str, code: int) -> NoReturn:
    from unstall.report.text import shorten, visible

    print(f"unstall: {shorten(visible(line), 1000)}", file=sys.stderr)
    sys.exit(code)
