"""`completion`: the script by which a shell completes the words of commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

_SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_SHAREDROUTES_COMPLETE"
"""In which the script, as click writes it, says what it wants to know."""


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes the words of `sharedroutes` in your shell.

    bash, in ~/.bashrc: `eval "$(sharedroutes completion bash)"`; zsh, in ~/.zshrc: `eval "$(sharedroutes
    completion zsh)"`; fish: `sharedroutes completion fish > ~/.config/fish/completions/sharedroutes.fish`.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.ClickException(f"click knows no completion for {shell}")
    root = context.find_root()
    click.echo(made(root.command, {}, "sharedroutes", _VARIABLE).source())
