"""A tree that is written down while it is read answers the same when it is played back."""

import sys

import pytest
from hardware_trees import CPUS, amd_card, hybrid_intel, write
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.cpu import read_cpu
from app.hardware.drm import read_cards
from app.hardware.files import read_text
from app.hardware.tree import PlayedTree, RecordingTree, TreePath, TreeRecord, children

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="such trees are of Linux")


def played(record):
    return TreePath(PlayedTree(record))


def test_what_was_read_is_played_back_without_the_tree(tmp_path):
    hybrid_intel(tmp_path)
    amd_card(tmp_path)
    tree = RecordingTree(tmp_path)
    live = TreePath(tree)
    cpu, cards = read_cpu(live, "linux"), read_cards(live)
    links, memories = [card.link() for card in cards], [card.memory(shared=True) for card in cards]
    again = played(tree.record)
    assert read_cpu(again, "linux") == cpu
    assert [card.link() for card in read_cards(again)] == links
    assert [card.memory(shared=True) for card in read_cards(again)] == memories
    assert [card.driver for card in read_cards(again)] == [card.driver for card in cards]
    assert not any(str(tmp_path) in path for path in (*tree.record.files, *tree.record.links.values()))


def test_a_missing_file_stays_missing_and_a_refused_one_refused(tmp_path):
    secret = write(tmp_path, "sys/secret", "x")
    tree = RecordingTree(tmp_path)
    root = TreePath(tree)

    class Refusing(RecordingTree):
        def read(self, path):
            self._refuse(path, PermissionError(13, "Permission denied"))
            raise PermissionError(13, "Permission denied")

    refusing = Refusing(tmp_path)
    assert secret.exists()
    assert read_text(TreePath(refusing) / "sys/secret") is None
    assert read_text(root / "sys/none") is None
    with pytest.raises(PermissionError, match="denied"):
        (played(refusing.record) / "sys/secret").read_bytes()
    with pytest.raises(FileNotFoundError):
        (played(tree.record) / "sys/none").read_bytes()


def test_a_file_that_was_only_looked_for_is_there_and_has_no_contents(tmp_path):
    write(tmp_path, f"{CPUS}/online", "0-1")
    tree = RecordingTree(tmp_path)
    assert (TreePath(tree) / CPUS / "online").exists()
    again = played(tree.record) / CPUS / "online"
    assert again.exists()
    assert not again.is_dir()
    assert read_text(again) is None


def test_links_lead_on_also_through_folders_and_a_circle_ends():
    record = TreeRecord(
        files={"sys/devices/pci/card/vendor": b"0x1002"},
        links={"sys/class/card0": "sys/devices/pci/card/drm", "sys/devices/pci/card/drm/device": "sys/devices/pci/card"}
        | {"a": "b", "b": "a"},
    )
    root = played(record)
    assert read_text(root / "sys/class/card0/device/vendor") == "0x1002"
    assert (root / "sys/class/card0/device").resolve().name == "card"
    assert not (root / "a").exists()
    assert read_text(root / "a/b") is None


def test_a_folder_lists_what_was_recorded_below_it():
    root = played(TreeRecord(files={"sys/x/a": b"1"}, folders={"sys/x": ["b"]}))
    assert [child.name for child in children(root / "sys/x")] == ["a", "b"]
    assert children(root / "sys/none") == []
    assert (root / "sys").is_dir()


def test_a_folder_is_above_what_is_in_it_and_the_root_above_itself():
    root = played(TreeRecord())
    path = root / "sys/fs/cgroup"
    assert path.parent == root / "sys/fs"
    assert path.parts == ("/", "sys", "fs", "cgroup")
    assert path.parent.parent.parent.parent == root


NAMES = st.text(alphabet="ab./", max_size=8)


@given(st.dictionaries(NAMES, NAMES, max_size=6), st.dictionaries(NAMES, st.binary(max_size=4), max_size=6), NAMES)
def test_any_record_can_be_walked(links, files, path):
    place = played(TreeRecord(files=dict(files), links=links)) / path
    place.exists(), place.is_dir(), place.resolve(), read_text(place), children(place)
