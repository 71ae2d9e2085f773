"""The licences of what Qt contains from others: fetched once, whole, or the packages are not made."""

import debian_release
import pytest
import qt_documents


@pytest.fixture
def released(tmp_path, monkeypatch):
    """What Debian's packages tell, by their names; how often they were fetched is in `fetched`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    told = {package: f"of {package}" for package in qt_documents.PACKAGES}
    told["fetched"] = 0

    def unpack(_release, packages, folder, *, dependencies):
        assert not dependencies
        told["fetched"] += 1
        for package in packages:
            place = folder / "usr" / "share" / "doc" / package
            place.mkdir(parents=True)
            (folder / "usr" / "lib").mkdir(exist_ok=True)
            if told[package]:
                (place / "copyright").write_text(told[package])
        return list(packages)

    monkeypatch.setattr(debian_release, "unpack", unpack)
    return told


def test_what_every_source_of_qt_tells_is_laid_under_its_packages_name(released):
    for _ in range(2):
        part = qt_documents.part()
        assert part.texts == {f"{package}/copyright": f"of {package}" for package in qt_documents.PACKAGES}
        assert released["fetched"] == 1, "it is kept"


@pytest.mark.parametrize("package", qt_documents.PACKAGES)
def test_a_package_that_tells_nothing_ends_the_build_by_its_name(released, package):
    released[package] = ""
    with pytest.raises(SystemExit, match=package):
        qt_documents.part()


def test_without_debians_packages_nothing_is_made_and_nothing_is_kept(released, monkeypatch, tmp_path):
    def refuse(*_arguments, **_keywords):
        raise debian_release.NotAvailableError("apt knows no mirror of Debian's")

    monkeypatch.setattr(debian_release, "unpack", refuse)
    with pytest.raises(SystemExit, match="apt knows no mirror"):
        qt_documents.part()
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
