"""The stand-ins for what Wine lacks are laid once, and anew when another Qt asks for other functions."""

import subprocess

import wine


def test_stand_ins_are_laid_anew_only_where_another_qt_asks_for_other_functions(tmp_path, monkeypatch):
    made = []
    asked = {"icuuc.dll": ("ucnv_open",)}
    monkeypatch.setattr(wine.pe, "imports", lambda _: asked)
    monkeypatch.setattr(wine, "_make_unicode_stub", lambda names, *_: made.append(names))
    monkeypatch.setattr(wine, "_take_c_library", lambda *_: None)
    monkeypatch.setattr(wine, "_FONTS", tmp_path / "none")
    monkeypatch.setattr(wine, "run", lambda *_: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(wine, "wait_for_end", lambda _: None)
    for _ in range(2):
        wine.lay_shims(tmp_path, tmp_path / "Qt6Core.dll")
    assert made == [("ucnv_open",)]
    asked["icuuc.dll"] = ("ucnv_open", "ucal_open")
    for _ in range(2):
        wine.lay_shims(tmp_path, tmp_path / "Qt6Core.dll")
    assert made == [("ucnv_open",), ("ucnv_open", "ucal_open")]
