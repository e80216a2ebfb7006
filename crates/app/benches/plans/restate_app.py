"""A service of Restate: a plan is 4 steps, each of them journaled, and none of them does anything."""

import restate

plan = restate.Service("plan")


@plan.handler()
async def run(ctx: restate.Context, name: str) -> str:
    for step in ("strategize", "execute", "review", "apply"):
        await ctx.run_typed(step, lambda: "ok")
    return name


app = restate.app([plan])
