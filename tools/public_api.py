"""Lists the public names of the packages with their signatures in docs/public_api.txt.

`python -m tools.public_api` rewrites the list; `--check` shows how it would change, and ends with 1.
Whoever changes that file changes what users may call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from griffe import Alias, Attribute, Class, ExprCall, Function, GriffeLoader, Object

from tools.pages import DOCS, ROOT, write

LIST: Final = DOCS / "public_api.txt"
_HEAD: Final = "# What users may call, made by `make generate`. What is not listed is private.\n"
_SAID: Final = {"__init__", "__call__"}


def public_api() -> str:
    """Return the list: a block a package that has `__all__`, a line a name, and below a class its members."""
    loader = GriffeLoader(search_paths=[ROOT / "src"])
    root = loader.load("sharedroutes")
    loader.resolve_aliases(external=False)
    blocks = [f"{package.path}\n{''.join(_names(package))}" for package in _packages(root) if package.exports]
    return "\n".join((_HEAD, *blocks))


def _packages(package: Object | Alias) -> Iterator[Object | Alias]:
    yield package
    for name, module in sorted(package.modules.items()):
        if module.is_init_module and name != "cli":
            yield from _packages(module)


def _names(package: Object | Alias) -> Iterator[str]:
    for name in sorted(str(export) for export in package.exports or ()):
        one = _target(package[name])
        if one.is_module:  # a function with the name of its module: Python finds the function
            one = _target(one[name])
        yield from (f"  {line}\n" for line in _lines(name, one))


def _lines(name: str, one: Object) -> Iterator[str]:
    if isinstance(one, Class):
        bases = ", ".join(str(base) for base in one.bases)
        yield f"class {name}({bases})" if bases else f"class {name}"
        for member, found in _members(one):
            yield from (f"  {line}" for line in _lines(member, found))
    elif isinstance(one, Function):
        parameters = one.signature(return_type=True, name=name)
        yield f"async {parameters}" if "async" in one.labels else parameters
    elif isinstance(one, Attribute):
        typed = f"{name}: {one.annotation}" if one.annotation else name
        if one.value is None or one.labels == {"instance-attribute"}:
            yield typed
        else:  # what a call makes is said by the type
            yield f"{typed} = {'...' if isinstance(one.value, ExprCall) else one.value}"


def _members(owner: Class) -> Iterator[tuple[str, Object]]:
    """Yield what a class offers, by name; the fields of a dataclass stand in order, as its parameters do."""
    own = owner.members if "dataclass" in owner.labels else dict(sorted(owner.members.items()))
    for name, member in (*own.items(), *sorted(owner.inherited_members.items())):
        said = name in _SAID and "dataclass" not in owner.labels
        if said or not name.startswith("_"):
            yield name, _target(member)


def _target(one: Object | Alias) -> Object:
    return one.final_target if isinstance(one, Alias) else one


if __name__ == "__main__":
    sys.exit(write({LIST: public_api()}))
