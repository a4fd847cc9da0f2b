"""Tool arguments as LangChain reads them: the names that count, with aliases, and the defaults that it would fill in.

Tests: tests/adapters/langchain/test_arguments.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from langchain_core.tools import BaseTool
from pydantic import AliasChoices, AliasPath, BaseModel, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from sayso.adapters.kit import fill_defaults


@dataclass(frozen=True)
class ToolArguments:
    """What a tool makes of the arguments that a model gives: a person is shown, and a rule judges, what will run."""

    tool: BaseTool
    names: frozenset[str]
    takes_more: bool  # than its schema names
    aliases: tuple[frozenset[str], ...]  # all names of one argument, for each that has several
    defaults: Mapping[str, Any]
    inner_aliases: tuple[frozenset[str], ...] = ()  # of the models inside its arguments

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that the tool reads, with its defaults.

        Raises:
            ValueError: an argument is given under two names.
        """
        args = dict(given) if given.keys() <= self.names else self._without_ignored(given)
        if self.inner_aliases:
            _refuse_doubles(list(args.values()), self.inner_aliases)
        absent = {name: each for name, each in self.defaults.items() if name not in args}
        for names in self.aliases:
            if _is_given(names, args):
                absent = {name: each for name, each in absent.items() if name not in names}
        return {**args, **absent}

    def parsed(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the function of the tool gets them: `5` is `5.0` for one that takes a float."""
        schema = self.tool.args_schema
        if not isinstance(schema, type) or not issubclass(schema, BaseModel):
            return args
        try:
            model = schema.model_validate(dict(args))
        except ValidationError:  # the tool says so, too
            return args
        return {name: getattr(model, name) for name in model.model_fields_set}

    def _without_ignored(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out what LangChain ignores, or injects itself whatever the model gives."""
        # LangChain has no public name for this; it is what it shows to the start check.
        more = self.tool._filter_injected_args(dict(given)) if self.takes_more else {}  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return {name: each for name, each in given.items() if name in self.names or name in more}


def tool_arguments(tool: BaseTool, schema: Mapping[str, Any]) -> ToolArguments:
    """Return how a tool reads its arguments, which are those of this JSON Schema."""
    named = cast("Mapping[str, Any]", schema.get("properties") or {})
    defaults = fill_defaults({}, schema)
    own = tool.args_schema
    if isinstance(own, dict):
        return ToolArguments(tool, frozenset(named), takes_more=True, aliases=(), defaults=defaults)
    parses = own is not None  # else the tool gets the arguments as they are
    model = own if own is not None else tool.get_input_schema()
    if not issubclass(model, BaseModel):  # of Pydantic 1
        return ToolArguments(tool, frozenset(named), takes_more=True, aliases=(), defaults={})
    fields = {name: field for name, field in model.model_fields.items() if name in named}
    aliases = _aliases(fields) if parses else ()
    inner = tuple(each for inner in _models_in(model, set()) for each in _aliases(inner.model_fields)) if parses else ()
    kept = {name: each for name, each in defaults.items() if _is_kept(model, name, each, parses=parses)}
    takes_more = not parses or _sees_all(model)
    names = frozenset(named).union(*aliases)
    return ToolArguments(tool, names, takes_more=takes_more, aliases=aliases, defaults=kept, inner_aliases=inner)


def _is_given(names: frozenset[str], args: Mapping[str, Any]) -> bool:
    """Whether an argument is given, under one of its names.

    Raises:
        ValueError: it is given under two.
    """
    found = sorted(names & args.keys())
    if len(found) > 1:
        raise ValueError(f"{' and '.join(map(repr, found))} name one argument; nobody could know which will run")
    return bool(found)


def _refuse_doubles(value: object, aliases: Iterable[frozenset[str]]) -> None:
    """Refuse what is given under two names anywhere inside an argument."""
    inner = value
    if isinstance(value, Mapping):
        for names in aliases:
            _is_given(names, cast("Mapping[str, Any]", value))
        inner = list(cast("Mapping[str, Any]", value).values())
    for each in cast("Iterable[object]", inner if isinstance(inner, list | tuple) else ()):
        _refuse_doubles(each, aliases)


def _models_in(kind: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - an annotation
    """Yield the models inside a model or another annotation, at any depth."""
    inner: Iterable[Any] = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        inner = () if kind in seen else [field.annotation for field in kind.model_fields.values()]
        seen.add(kind)
    for each in inner:
        if isinstance(each, type) and issubclass(each, BaseModel) and each not in seen:
            yield each
        yield from _models_in(each, seen)


def _aliases(fields: Mapping[str, FieldInfo]) -> tuple[frozenset[str], ...]:
    return tuple(filter(None, (_names_of(name, field) for name, field in fields.items())))


def _names_of(name: str, field: FieldInfo) -> frozenset[str]:
    """Return all names of an argument, or none if it has only one."""
    alias = field.validation_alias or field.alias
    choices = alias.choices if isinstance(alias, AliasChoices) else filter(None, [alias])
    known = {name, *(str(each.path[0]) if isinstance(each, AliasPath) else each for each in choices)}
    return frozenset(known if len(known) > 1 else ())


def _sees_all(model: type[BaseModel]) -> bool:
    """Whether a model may do something with arguments that it does not name: keep, refuse or rename them."""
    validators = model.__pydantic_decorators__.model_validators.values()
    return model.model_config.get("extra", "ignore") != "ignore" or any(
        each.info.mode != "after" for each in validators
    )


def _is_kept(model: type[BaseModel], name: str, default: object, *, parses: bool) -> bool:
    """Whether a tool that is given its default, as its schema has it, gets what it would get without.

    A default may not pass its own validation, and the JSON of a secret or a date is another value.
    """
    field = model.model_fields.get(name)
    if field is None or name in _validated(model):
        return False
    try:
        read = _parsed(model, field, default) if parses else default
        own = field.get_default()
    except (PydanticUserError, ValueError, TypeError, LookupError, AttributeError):
        return False
    return type(read) is type(own) and bool(read == own)


def _parsed(model: type[BaseModel], field: FieldInfo, value: object) -> object:
    adapter: TypeAdapter[Any] = TypeAdapter(field.rebuild_annotation())
    return adapter.validate_python(value, strict=model.model_config.get("strict"))


def _validated(model: type[BaseModel]) -> Iterator[str]:
    """Yield the fields that have validators."""
    for each in model.__pydantic_decorators__.field_validators.values():
        yield from model.model_fields if "*" in each.info.fields else each.info.fields
