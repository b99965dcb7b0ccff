"""All rules over all processes of a capture: the loop that no rule can break.

In: an analysis. Out: its report with findings, what could not be checked and why, and a line for every rule that
crashed.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unstall.analyze.collecting import in_terms_of
from unstall.diagnose import ranking, registry
from unstall.diagnose.case import Case, cases
from unstall.diagnose.hit import Hit, Skip
from unstall.diagnose.ranking import Ranked
from unstall.diagnose.registry import COLLECT, Rule
from unstall.lang import told
from unstall.model import Analysis, NotChecked, Profile, Report, Warning_

NO_STEPS = "needs repeating steps, and none were found: name them with --step REGEX, or annotate them"
NO_GPU = "needs GPU work, and this capture holds none: collect with `--trace=cuda` on a machine with a GPU"


def diagnose(analysis: Analysis, *, language: str = "en", rules: Iterable[Rule] | None = None) -> Report:
    """See :func:`unstall.diagnose.diagnose`; ``rules`` other than all are for tests."""
    chosen = registry.rules() if rules is None else tuple(rules)
    outcome = _Outcome(analysis.profile, list(registry.broken()))
    seen = list(cases(analysis, language))
    ordered = sorted(chosen, key=lambda r: r.last)  # stable: in order of code otherwise
    for number, case in enumerate(seen):
        for rule in ordered:
            if number == 0 or not rule.once:
                outcome.add(rule, case)
    for rule in ordered if not seen else ():
        outcome.skip(rule, outcome.missing(rule) or NO_STEPS)
    report = analysis.report
    found = msgspec.structs.replace(
        report,
        findings=ranking.settle(outcome.rows, language),
        not_checked=[*report.not_checked, *outcome.not_checked()],
        warnings=[*report.warnings, *outcome.warnings],
    )
    return told(found, language)


class _Outcome:
    """What the rules left behind."""

    def __init__(self, profile: Profile, warnings: list[Warning_]) -> None:
        self.profile, self.warnings = profile, warnings
        self.rows: list[Ranked] = []
        self._skipped: dict[str, NotChecked] = {}
        self._ran: set[str] = set()

    def add(self, rule: Rule, case: Case) -> None:
        """Run one rule on one case."""
        reason = self.missing(rule) or _unfit(rule, case)
        if reason:
            self.skip(rule, reason)
            return
        try:
            skips = [hit for hit in rule.module.check(case) if not self._take(rule, case, hit)]
            if not skips:
                self._ran.add(rule.code)
        except Exception as error:  # one rule's fault must not cost the user the others' findings
            text = f"The rule {rule.code} failed on process {case.pid}: {type(error).__name__}: {error}."
            self.warnings.append(Warning_(code="rule-crashed", text=text))
            self.skip(rule, "the rule failed; see the warnings")

    def _take(self, rule: Rule, case: Case, hit: Hit | Skip) -> bool:
        """Whether it was a hit."""
        if isinstance(hit, Skip):
            self.skip(rule, hit.reason, applies=hit.applies)
            return False
        made = ranking.finding(rule, case, hit)
        if made is not None:
            self.rows.append(made)
            case.best_host_gain = max(case.best_host_gain, made.gain if rule.on_host else 0.0)
        return True

    def missing(self, rule: Rule) -> str:
        """How to collect the first table that a rule needs and the capture lacks; empty when none is missing."""
        absent = next((t for t in rule.tables if self.profile.table(t) is None), None)
        if absent is None:
            return ""
        return in_terms_of(self.profile, absent, COLLECT.get(absent, f"needs the table {absent}"))

    def skip(self, rule: Rule, reason: str, *, applies: bool = True) -> None:
        self._skipped.setdefault(rule.code, NotChecked(code=rule.code, reason=reason, applies=applies))

    def not_checked(self) -> list[NotChecked]:
        """Rules that ran on no process."""
        return [skipped for code, skipped in sorted(self._skipped.items()) if code not in self._ran]


def _unfit(rule: Rule, case: Case) -> str:
    if rule.gpu and case.device is None:
        return in_terms_of(case.profile, "kernels", NO_GPU)
    return NO_STEPS if rule.steps and case.whole else ""
