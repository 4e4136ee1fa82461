"""``bridgehead plan``: what moves when."""

from __future__ import annotations

from cyclopts import App

app = App(name="plan", help="Make, check, explain and compile plans of moves.")
app.command("bridgehead.cli.plan_compile:compile_plan", name="compile", help="Turn a plan into a runbook that the engine executes.")
