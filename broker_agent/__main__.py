"""`python -m sharedroutes.broker_agent`: the agent without the rest of the command line."""

from .command import agent_command

agent_command(prog_name="python -m sharedroutes.broker_agent")
