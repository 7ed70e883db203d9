"""Hold the tables of rules that translate functions of PyTorch into ONNX operators.

A rule gets the draft of the graph and the arguments of the function. It writes operators, and returns the names of as
many outputs as the function returns tensors. Its signature defines the arguments that it translates: names, types, and
with `Literal` the only values. Everything else is refused, because an unknown argument may change what the function
computes.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import Tensor

from nmt_core.export.recording.draft import Draft, NotRecordableError, Recorded

Function = Callable[..., Any]
_Rule = TypeVar("_Rule", bound=Function)


class Table(dict[Function, Function]):
    """Rules by the functions of PyTorch that they translate."""

    def rule(self, *functions: Function) -> Callable[[_Rule], _Rule]:
        """Register the decorated function as the rule of other functions."""

        def enter(rule: _Rule) -> _Rule:
            self.update(dict.fromkeys(functions, rule))
            return rule

        return enter

    def apply(self, draft: Draft, function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Apply the rule of a function, and return its result.

        Raises:
            NotRecordableError: the function has no rule, or its rule does not take these arguments.
        """
        try:
            if function not in self:
                raise NotRecordableError("this function has no rule")
            bound = _checked(self[function], (draft, *args), kwargs)
            return self[function](*bound.args, **bound.kwargs)
        except NotRecordableError as error:
            words = [_words(one) for one in args] + [f"{name}={_words(one)}" for name, one in kwargs.items()]
            raise NotRecordableError(f"{_name_of(function)}({', '.join(words)}) cannot be recorded: {error}") from None


def _checked(rule: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
    """Return arguments bound to the signature of a rule, after a check of their types."""
    signature, hints = _signature_of(rule)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise NotRecordableError(f"its rule does not match: {error}") from None
    for name, value in bound.arguments.items():
        values = value if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL else [value]
        if not all(_fits(one, hints[name]) for one in values):
            raise NotRecordableError(f"its rule does not take {name}={_words(value)}")
    return bound


@cache
def _signature_of(rule: Function) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(rule), get_type_hints(rule)


def _fits(value: Any, hint: Any) -> bool:
    """Return True if a value has an annotated type."""
    parts = get_args(hint)
    match get_origin(hint):
        case None:
            if hint is float:
                return isinstance(value, int | float) and not isinstance(value, bool)
            return isinstance(value, hint) and not (hint is int and isinstance(value, bool))
        case origin if origin is Literal:
            return any(type(value) is type(one) and value == one for one in parts)
        case origin if origin in (Union, UnionType):
            return any(_fits(value, one) for one in parts)
        case _:  # a sequence
            return isinstance(value, tuple | list) and all(_fits(one, parts[0]) for one in value)


def _name_of(function: Function) -> str:
    """Return the name of a function, or of the attribute that it reads."""
    named: Any = function.__self__ if function.__name__ == "__get__" else function  # type: ignore[attr-defined]
    return str(named.__name__)


def _words(value: Any) -> str:
    if isinstance(value, Tensor) and not isinstance(value, Recorded):
        return f"<a constant: {value.dtype} {list(value.shape)}>"
    return f"[{', '.join(map(_words, value))}]" if isinstance(value, tuple | list) else repr(value)
