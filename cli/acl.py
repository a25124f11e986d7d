"""`acl`: the ACL line of a Redis user that may do what its role needs, and no more."""

from __future__ import annotations

from typing import Final

import click

from ..daemon.printing import output_option, say
from ..registry.acl import Role, acl_rules
from ..registry.errors import InvalidInput
from .store_options import namespace_option

_SIX: Final = "6.2"


@click.command()
@click.argument("role", type=click.Choice([role.value for role in Role]))
@click.option("--user", metavar="NAME", help="The name of the user.  [default: <namespace>-<role>]")
@namespace_option
@output_option
@click.option(
    "--server-version",
    type=click.Choice([_SIX, "7"]),
    default="7",
    show_default=True,
    help="7 is for Redis 7 and newer, and for Valkey. Redis 6.2 knows no read-only key patterns.",
)
@click.option("--db", "database", type=click.IntRange(0), default=0, show_default=True, help="The database.")
@click.option(
    "--cluster",
    is_flag=True,
    help="For every node of a Redis Cluster: the user may ask where keys are.",
)
def acl(
    role: str,
    user: str | None,
    namespace: str,
    output: str,
    server_version: str,
    database: int,
    *,
    cluster: bool,
) -> None:
    """Print the ACL SETUSER line of a Redis user with this ROLE in one registry, without asking a server.

    reader: clients, which look up routes and follow changes. hinter: clients that also share which brokers
    they cannot reach; not for Redis 6.2. agent: the process beside a broker, which registers it, renews its
    lease and sweeps. front: a name server front, and operators who change write permission, topics and the
    key-value store. admin: all of that, health, and commands that read the whole registry.

    Replace #SHA256-OF-THE-PASSWORD by # and the output of `printf %s "$PASSWORD" | sha256sum`, or by > and
    the password itself. Pass the line to `redis-cli` on standard input, for the master and for every replica:
    Redis does not replicate users. Then run ACL SAVE, or CONFIG REWRITE.
    """
    try:
        line = acl_rules(
            namespace,
            Role(role),
            user=user,
            database=database,
            read_only_patterns=server_version != _SIX,
            cluster=cluster,
        )
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    say(output, {"role": role, "namespace": namespace, "line": line}, line)
