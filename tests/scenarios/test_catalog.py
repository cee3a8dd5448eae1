from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from voiceeval_engine.scenarios.catalog import Catalog
from voiceeval_engine.scenarios.model import ScenarioError

DOMAIN = "domain: cafe\nagent_prompt: Sell.\nuser_prompt: Buy.\nsuccess_signals: [clean_exit]\n"


def pack(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "domain.yaml").write_text(DOMAIN)
    (folder / "all.yaml").write_text("".join(f"- {{name: {name}, description: From {folder.name}.}}\n" for name in names))
    return folder


def test_names_are_listed_by_prefix_and_embedded_ones_are_left_out_on_request(tmp_path: Path) -> None:
    catalog = Catalog.of_packs([pack(tmp_path / "mine", "shop__b", "shop__a", "alone", "shopping__c")])
    assert catalog.errors == []
    assert catalog.names(include_embedded=False) == ["alone", "shop__a", "shop__b", "shopping__c"]
    assert catalog.names("shop") == ["shop__a", "shop__b"]
    assert {"shop": 2, "shopping": 1}.items() <= catalog.domains().items()
    assert set(catalog.domains()) == {"cafe", "phone_support", "shop", "shopping"}
    assert catalog.is_embedded("cafe__two_lattes")
    assert not catalog.is_embedded("alone")


def test_no_collection_of_garbage_walks_a_pack_that_was_opened(tmp_path: Path) -> None:
    folder, before = pack(tmp_path / "mine", *(f"x__{number}" for number in range(50))), gc.get_freeze_count()
    catalog = Catalog.of_packs([folder])
    assert gc.isenabled()
    assert gc.get_freeze_count() > before + 50
    assert len(catalog.names("x")) == 50


def test_the_first_source_that_has_a_name_provides_it(tmp_path: Path) -> None:
    pack(tmp_path / "one" / "first", "x__1")
    pack(tmp_path / "one" / "second", "x__1", "x__2")
    mine = pack(tmp_path / "two", "cafe__two_lattes")
    catalog = Catalog.of_packs([tmp_path / "one", mine])
    assert catalog.get("x__1").description == "From first."
    assert catalog.get("x__2").description == "From second."
    assert not catalog.is_embedded("cafe__two_lattes")


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    catalog = Catalog.of_packs()
    with pytest.raises(ScenarioError, match="'cafe__two_latte'; did you mean cafe__two_lattes"):
        catalog.get("cafe__two_latte")
    with pytest.raises(ScenarioError, match="--list shows what there is"):
        catalog.get("zzz")


def test_problems_of_all_packs_are_collected(tmp_path: Path) -> None:
    folder = pack(tmp_path / "mine", "good", "bad/name")
    catalog = Catalog.of_packs([folder])
    assert [str(error).startswith(f"{folder}/all.yaml:2: ") for error in catalog.errors] == [True]
    assert "good" in catalog.names()


def test_a_folder_without_a_pack_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is no scenario pack"):
        Catalog.of_packs([tmp_path / "nothing"])


def test_listing_loads_neither_numbers_nor_sound_nor_sockets() -> None:
    code = (
        "import sys\nfrom voiceeval_engine.scenarios.catalog import Catalog\nassert Catalog.of_packs().names()\n"
        "print([name for name in ('numpy', 'soxr', 'websockets', 'google.protobuf') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
