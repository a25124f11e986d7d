"""`python -m sharedroutes.broker_agent`: the agent without the rest of the command line."""

try:
    from .process.command import agent_command
except ModuleNotFoundError:
    from ..extras import check

    check("the broker agent", "agent")
    raise

agent_command(prog_name="python -m sharedroutes.broker_agent")
