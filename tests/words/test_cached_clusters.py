"""The cache of Brown clusters: its key, damaged files, and folders."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from lmzoo.core.disk_cache import cache_folder
from lmzoo.words import brown
from lmzoo.words.brown import brown_clusters, cached_brown_clusters


def random_text(seed: int) -> Tensor:
    """(300,) tokens of twelve words."""
    tokens = torch.randint(12, (300,), generator=torch.Generator().manual_seed(seed))
    tokens[-1] = 0
    return tokens


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def forbid_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brown, "brown_clusters", lambda *_: pytest.fail("computed again"))


def test_cache_is_read_and_keyed_by_all_that_matters(cache: Path, monkeypatch: pytest.MonkeyPatch):
    tokens, other = random_text(seed=0), random_text(seed=1)
    nearly = torch.cat([tokens[:-2], (tokens[-2:-1] + 1) % 12, tokens[-1:]])
    cases = [(tokens, 12, 3), (tokens, 12, 4), (tokens, 13, 3), (other, 12, 3), (nearly, 12, 3)]
    found = [cached_brown_clusters(*case) for case in cases]
    assert [f.tolist() for f in found] == [brown_clusters(*case).tolist() for case in cases]
    assert len(list(cache.iterdir())) == len(cases)
    forbid_computing(monkeypatch)
    assert [cached_brown_clusters(*case).tolist() for case in cases] == [f.tolist() for f in found]
    monkeypatch.setattr(brown, "VERSION", brown.VERSION + 1)
    with pytest.raises(pytest.fail.Exception):
        cached_brown_clusters(*cases[0])


def test_corrupt_cache_is_computed_again(cache: Path, monkeypatch: pytest.MonkeyPatch):
    tokens = random_text(seed=0)
    found = cached_brown_clusters(tokens, 12, 3)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    flipped = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    for corrupt in (b"", b"\n", whole[:-8], whole[:30], flipped):
        file.write_bytes(corrupt)
        assert torch.equal(cached_brown_clusters(tokens, 12, 3), found)
        assert file.read_bytes() == whole
    forbid_computing(monkeypatch)
    assert torch.equal(cached_brown_clusters(tokens, 12, 3), found)


def test_unusable_cache_folder_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tokens = random_text(seed=0)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "file" / "cache"))
    assert torch.equal(cached_brown_clusters(tokens, 12, 3), brown_clusters(tokens, 12, 3))

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LMZOO_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert torch.equal(cached_brown_clusters(tokens, 12, 3), brown_clusters(tokens, 12, 3))


def test_cache_folder_by_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("LMZOO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path("/home/somebody/.cache/lmzoo")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    assert cache_folder() == Path("/fast/lmzoo")
    monkeypatch.setenv("LMZOO_CACHE", "/here")
    assert cache_folder() == Path("/here")
