"""`python -m sharedroutes.nameserver`: the front without the rest of the command line."""

try:
    from .command import nameserver_command
except ModuleNotFoundError:
    from ..extras import check

    check("the name server", "nameserver")
    raise

nameserver_command(prog_name="python -m sharedroutes.nameserver")
