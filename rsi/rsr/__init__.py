"""RSR, Recursive Self-Rewrite: planner, reviewer, executor, SFT."""


def make_planner(params):
    """(planner, judge) as params.yaml's `rsr.planner` says."""
    if params.planner == "chat":
        from rsi.rsr.chat import ChatJudge, ChatPlanner

        return ChatPlanner(params.chat_url, params.chat_model), ChatJudge(params.chat_url, params.chat_model)
    from rsi.rsr.runbook import ProgrammaticJudge, ProgrammaticPlanner

    return ProgrammaticPlanner(), ProgrammaticJudge()
