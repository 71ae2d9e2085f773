"""The list of local models, and the words that mean one."""

from pathlib import Path

import pytest

from app.errors import AppError, ErrorCode
from app.library.demo import demo_model_path
from app.library.folders import models_folder
from app.library.models import LocalModel, local_models, resolve


def put(name, size):
    path = models_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def test_without_a_models_folder_there_are_no_models():
    assert local_models() == ()


def test_models_are_found_in_subfolders_and_listed_by_name():
    beta, alpha = put("beta.gguf", 5), put("deep/er/Alpha.GGUF", 7)
    put("notes.txt", 1)
    put("beta.gguf.part", 1)
    assert local_models() == (
        LocalModel(path=alpha, name="Alpha", bytes=7),
        LocalModel(path=beta, name="beta", bytes=5),
    )


def test_a_model_in_parts_is_one_row_that_begins_with_its_first_part():
    put("big-00002-of-00003.gguf", 20)
    put("big-00003-of-00003.gguf", 30)
    first = put("big-00001-of-00003.gguf", 10)
    assert local_models() == (LocalModel(path=first, name="big", bytes=60),)


def test_models_of_the_same_name_are_not_mixed_up():
    put("big.gguf", 1)
    put("big-00001-of-00002.gguf", 2)
    put("big-00001-of-00003.gguf", 4)
    put("other/big-00001-of-00002.gguf", 8)
    assert sorted(model.bytes for model in local_models()) == [1, 2, 4, 8]


def test_a_file_that_cannot_be_examined_is_left_out_and_logged(caplog):
    kept = put("kept.gguf", 3)
    (models_folder() / "dangling.gguf").symlink_to(models_folder() / "nowhere.gguf")
    assert [model.path for model in local_models()] == [kept]
    assert "dangling" in caplog.text


def test_the_demo_model_is_listed_with_the_others():
    demo = put(demo_model_path().name, 4)
    assert demo == demo_model_path()
    assert [model.path for model in local_models()] == [demo]


def test_the_word_demo_means_the_demo_model():
    demo = put(demo_model_path().name, 4)
    assert resolve("demo") == demo


def test_the_word_demo_says_how_to_build_it_where_it_is_not():
    with pytest.raises(AppError) as missing:
        resolve("demo")
    assert missing.value.code is ErrorCode.FILE_MISSING
    assert "expert-lanes demo" in missing.value.message


def test_any_other_word_is_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert resolve("~/models/a b.gguf") == tmp_path / "models" / "a b.gguf"
    assert resolve("./demo") == Path.cwd() / "demo"
    assert resolve("模型.gguf") == Path.cwd() / "模型.gguf"
