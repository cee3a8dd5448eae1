from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from voiceeval_engine.domains import registry
from voiceeval_engine.domains.registry import Domain, DomainError, load_domain


@pytest.fixture(autouse=True)
def _forget_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_loaded", {})


def test_a_domain_that_nobody_provides_is_an_error_that_names_it() -> None:
    with pytest.raises(DomainError, match="'nowhere' has no tools"):
        load_domain("nowhere")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise RuntimeError('broken on purpose')", "broken on purpose"),
        ("DOMAIN = 3", "is not a"),
        ("", "is not a"),
        ("raise SystemExit(3)", "cannot be loaded"),
    ],
)
def test_a_module_that_cannot_be_used_is_blamed(
    code: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    name = f"voiceeval_test_domain_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DomainError, match=error):
        load_domain("mine", name)


def test_an_installed_package_can_provide_a_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "voiceeval_engine.domains.cafe:DOMAIN", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.ENTRY_POINT_GROUP else [])
    domain = load_domain("theirs")
    assert isinstance(domain, Domain)
    assert load_domain("theirs") is domain
