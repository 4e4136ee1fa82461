"""``bridgehead plan``: what moves when."""

from __future__ import annotations

from cyclopts import App

app = App(name="plan", help="Make, check, explain and compile plans of moves.")
app.command("bridgehead.cli.plan_make:make_plan_file", name="make", help="Make a plan, or name the smallest conflict.")
app.command("bridgehead.cli.plan_check:check_plan_file", name="check", help="Say whether a plan keeps every rule.")
app.command("bridgehead.cli.plan_compile:compile_plan", name="compile", help="Turn a plan into a runbook that the engine executes.")
app.command("bridgehead.cli.plan_explain:explain_plan", name="explain", help="Say why a plan is as it is, and what binds.")
app.command("bridgehead.cli.plan_explain:diff_plans", name="diff", help="Compare two plans by identity.")
app.command("bridgehead.cli.plan_show:show_plan", name="show", help="Show a plan, and write it as page, calendar, list and task sheets.")
app.command("bridgehead.cli.plan_what_if:plan_what_if", name="what-if", help="Say what another policy, or a wider limit, would buy.")
