"""Alert rules for Prometheus, made for the rhythm of the watch (R1, R13)."""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.recovery.watch.scene import DAY_S

_STALE_LOOKS: Final = 5
_WHERE: Final = "{{ $labels.workload }} at {{ $labels.site }}"
_FINDING: Final = "{{ $labels.code }} {{ $labels.subject }}"


class AlertRule(msgspec.Struct, frozen=True):
    """One rule. ``for_s``: how long it must hold; ``severity``: ``page`` wakes somebody, ``ticket`` waits for the morning."""

    name: str
    expr: str
    for_s: float
    severity: str
    summary: str


def alert_rules(*, every_s: float = 30.0, lead_s: float = 900.0) -> tuple[AlertRule, ...]:
    """The rules. ``every_s``: time between two looks; ``lead_s``: how long before a miss somebody is called."""
    return (*_of_the_watch(every_s), *_of_loss(every_s, lead_s), *_of_recovery(every_s), *_of_findings(every_s), *_of_sites(every_s))


def _of_the_watch(every_s: float) -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            "BridgeheadWatchSilent",
            f"time() - bridgehead_watch_last_look_timestamp_seconds > {_STALE_LOOKS * every_s:g}",
            0,
            "page",
            "The watch of {{ $labels.estate }} has not looked for {{ $value | humanizeDuration }}: nothing is known.",
        ),
        AlertRule(
            "BridgeheadWatchAbsent",
            "absent(bridgehead_watch_last_look_timestamp_seconds)",
            2 * every_s,
            "page",
            "No watch is scraped: whether anything can be recovered is not known.",
        ),
    )


def _of_loss(every_s: float, lead_s: float) -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            "BridgeheadRpoMissed",
            "bridgehead_loss_seconds > on (estate, observer, workload, site, recovery_site) bridgehead_rpo_objective_seconds",
            0,
            "page",
            f"Losing its site now would lose {{{{ $value | humanizeDuration }}}} of {_WHERE}, more than its RPO.",
        ),
        AlertRule(
            "BridgeheadRpoSoon",
            f"bridgehead_rpo_breaks_timestamp_seconds - time() < {lead_s:g}"
            " and on (estate, observer, workload, site, recovery_site)"
            " (bridgehead_copy_due_timestamp_seconds > bridgehead_rpo_breaks_timestamp_seconds"
            " or bridgehead_rpo_breaks_timestamp_seconds unless bridgehead_copy_due_timestamp_seconds)",
            2 * every_s,
            "page",
            f"The RPO of {_WHERE} is missed in {{{{ $value | humanizeDuration }}}}, and no copy is due before.",
        ),
        AlertRule(
            "BridgeheadRpoBurns",
            "bridgehead_rpo_burn_rate > 0.5 unless on (estate, observer, workload, site, recovery_site)"
            " (bridgehead_loss_worst_seconds <= on (estate, observer, workload, site, recovery_site) bridgehead_rpo_objective_seconds)",
            10 * every_s,
            "ticket",
            f"Of each second that {_WHERE} works, {{{{ $value | humanize }}}} s went uncopied for an hour; its cycle does not explain it.",
        ),
    )


def _of_recovery(every_s: float) -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            "BridgeheadRtoMissed",
            "bridgehead_recovery_seconds > on (estate, observer, workload, site, recovery_site) bridgehead_rto_objective_seconds",
            2 * every_s,
            "page",
            f"{_WHERE} would work again after {{{{ $value | humanizeDuration }}}}, later than its RTO.",
        ),
        AlertRule(
            "BridgeheadDrillDue",
            f"time() - bridgehead_drill_timestamp_seconds > {7 * DAY_S:g} or bridgehead_drill_passed == 0",
            2 * every_s,
            "ticket",
            f"A restore of {_WHERE} at {{{{ $labels.recovery_site }}}} was not tested for a week, or failed.",
        ),
    )


def _of_findings(every_s: float) -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            "BridgeheadFindingFails",
            'bridgehead_finding_status{code!="WCH-SITE"} == 2',
            2 * every_s,
            "ticket",
            f"{_FINDING} fails: `bridgehead watch` says why.",
        ),
        AlertRule(
            "BridgeheadFindingUnknown",
            "bridgehead_finding_status == 1",
            _STALE_LOOKS * every_s,
            "ticket",
            f"{_FINDING} is not known, which is not the same as good.",
        ),
        AlertRule(
            "BridgeheadFindingForeseen",
            "bridgehead_finding_foreseen == 1",
            2 * every_s,
            "ticket",
            f"{_FINDING} passes, and will not for long.",
        ),
    )


def _of_sites(every_s: float) -> tuple[AlertRule, ...]:
    return (
        AlertRule(
            "BridgeheadSiteSilent",
            'bridgehead_site_state{state=~"silent|unknown"} == 1',
            2 * every_s,
            "page",
            "{{ $labels.site }} is {{ $labels.state }}: that is no evidence of its loss. Find out.",
        ),
        AlertRule(
            "BridgeheadSiteLost",
            'bridgehead_site_state{state="lost"} == 1 or bridgehead_site_grace_left_seconds == 0',
            0,
            "page",
            "{{ $labels.site }} is lost, or silent beyond its grace: fence it off before anything is started elsewhere.",
        ),
    )


GROUP: Final = "bridgehead-watch"


def rules_document(rules: tuple[AlertRule, ...]) -> dict[str, object]:
    """The rules file of Prometheus, as plain values for YAML."""
    return {
        "groups": [
            {
                "name": GROUP,
                "rules": [
                    {
                        "alert": rule.name,
                        "expr": rule.expr,
                        **({"for": f"{rule.for_s:g}s"} if rule.for_s else {}),
                        "labels": {"severity": rule.severity},
                        "annotations": {"summary": rule.summary},
                    }
                    for rule in rules
                ],
            }
        ]
    }
