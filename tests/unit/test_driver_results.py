"""What a `CUresult` becomes."""

from __future__ import annotations

import pytest

from torpor.driver.results import check, failure, result_name
from torpor.errors import DriverMissing, NoRights, NoSpace, Refused, TorporError, WrongState


@pytest.mark.parametrize(
    ("code", "name", "kind"),
    [
        (2, "CUDA_ERROR_OUT_OF_MEMORY", NoSpace),
        (100, "CUDA_ERROR_NO_DEVICE", DriverMissing),
        (401, "CUDA_ERROR_ILLEGAL_STATE", WrongState),
        (800, "CUDA_ERROR_NOT_PERMITTED", NoRights),
        (801, "CUDA_ERROR_NOT_SUPPORTED", Refused),
        (999, "CUDA_ERROR_UNKNOWN", TorporError),
        (77777, "CUresult 77777", TorporError),
    ],
)
def test_it_names_the_call_and_the_result(code: int, name: str, kind: type[TorporError]) -> None:
    error = failure("cuMemCreate", code)
    assert type(error) is kind
    assert result_name(code) == name
    assert error.message.startswith(f"cuMemCreate returned {name} ({code})")
    assert error.details == {"call": "cuMemCreate", "result": name, "result_code": code}


def test_values_are_unpacked_as_the_bindings_give_them() -> None:
    assert check("call", (0,)) is None
    assert check("call", (0, 5)) == 5
    assert check("call", (0, 5, 6)) == (5, 6)
    with pytest.raises(WrongState):
        check("call", (600,))
