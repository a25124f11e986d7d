"""Options are found in any case, and what makes no sense is refused by its name."""

from __future__ import annotations

import pytest

from sharedroutes.pipeline.errors import BadOption
from sharedroutes.pipeline.sources.options import REGISTRY_OPTIONS, Options, Registry, one_of, registries_of

KNOWN = ("maxRows", "onLoss", "follow")


def options(**given: str) -> Options:
    return Options("some_source", given, KNOWN)


def of_registries(**given: str) -> Options:
    return Options("some_source", given, REGISTRY_OPTIONS)


def test_the_case_of_an_option_does_not_matter() -> None:
    assert options(MAXROWS="7").number("maxRows", 1, low=1) == 7
    assert options(maxrows="7").text("maxRows") == "7"


def test_an_unknown_option_is_named_with_those_that_there_are() -> None:
    with pytest.raises(BadOption, match=r"some_source: there is no option 'maxrow', only maxRows, onLoss"):
        options(maxrow="7")


@pytest.mark.parametrize("text", ["seven", "", "1.5", "0", "11"])
def test_a_number_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match=r"some_source: option maxRows: "):
        options(maxRows=text).number("maxRows", 1, low=1, high=10)


def test_the_first_choice_is_the_default_and_others_are_refused() -> None:
    assert options().choice("onLoss", "fail", "mark") == "fail"
    assert options(onLoss="MARK").choice("onLoss", "fail", "mark") == "mark"
    with pytest.raises(BadOption, match=r"option onLoss: 'ignore' is none of fail, mark"):
        options(onLoss="ignore").choice("onLoss", "fail", "mark")


def test_a_flag_is_true_or_false() -> None:
    assert options().flag("follow", default=True)
    assert not options(follow="False").flag("follow", default=True)
    with pytest.raises(BadOption, match=r"option follow: 'yes'"):
        options(follow="yes").flag("follow", default=False)


def test_without_registries_there_is_one_by_url_and_namespace() -> None:
    found = registries_of(of_registries(url="redis://h:1", namespace="blue"))
    assert found == (Registry("blue", "redis://h:1", "blue"),)
    assert registries_of(of_registries())[0].name == "sharedroutes"


def test_several_registries_have_names_of_their_own() -> None:
    text = '[{"url": "redis://h:1"}, {"name": "south", "url": "redis://h:2", "namespace": "mq"}]'
    found = registries_of(of_registries(registries=text))
    assert found == (
        Registry("sharedroutes", "redis://h:1", "sharedroutes"),
        Registry("south", "redis://h:2", "mq"),
    )
    with pytest.raises(BadOption, match="only one can be written"):
        one_of(of_registries(registries=text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON"),
        ("[]", "is no list"),
        ('{"url": "redis://h"}', "is no list"),
        ('[{"name": "a"}]', "number 1 has name: it takes url"),
        ('[{"url": "redis://h"}, {}]', "number 2 has nothing: it takes url, and perhaps"),
        ('[{"url": "redis://h", "db": "1"}]', "number 1 has url, db: it takes url"),
        ('[{"url": 1}]', "number 1 is no object of texts"),
        ('[{"url": "redis://h"}, {"url": "redis://i"}]', "two have the same name"),
        ('[{"url": "http://h"}]', "Redis URL: expected redis"),
    ],
)
def test_registries_that_make_no_sense_are_refused(text: str, problem: str) -> None:
    with pytest.raises(BadOption, match=f"some_source: option registries: .*{problem}"):
        registries_of(of_registries(registries=text))


def test_a_password_in_a_list_of_registries_is_not_told() -> None:
    with pytest.raises(BadOption) as caught:
        registries_of(of_registries(registries='[{"url": "redis://:secret@h", "db": "1"}]'))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [("namespace", "a b", "'a b' is not 1 to 64"), ("url", "http://h", "Redis URL: expected redis")],
)
def test_a_url_or_a_namespace_that_makes_no_sense_is_refused(option: str, text: str, problem: str) -> None:
    with pytest.raises(BadOption, match=f"some_source: option {option}: {problem}") as caught:
        registries_of(of_registries(**{option: text}))
    assert (caught.value.option, caught.value.what.startswith(problem)) == (option, True)
