"""The table of layers and its proxy per lane."""

import pytest
from PySide6.QtCore import QMimeData, QModelIndex, Qt
from ui_factories import make_experts

from app.engine.protocol import Loaded
from app.placement.plan import Plan
from app.ui.lanes.heat import heat_map
from app.ui.lanes.mime import MIME_TYPE, Dragged, pack, unpack
from app.ui.lanes.model import BYTES, EXPERTS, LANE, LAYER, LOADED_LANE, UNCOUNTED, LaneProxy, LayersModel, heat_of

MOVE = Qt.DropAction.MoveAction


def plan_of(lanes):
    return Plan(model_files=("m.gguf",), gpu=None, expert_lanes=lanes, n_ctx=512)


def loaded_as(lanes, **fields):
    return Loaded(
        **{
            "seconds": 1.0,
            "n_ctx": 512,
            "buffers": (),
            "expert_layers": lanes,
            "differences": (),
            "expert_device": True,
            **fields,
        }
    )


@pytest.fixture
def layers(qapp, make_facts):
    """Four layers of eight experts: the first on the GPU, the others on the CPU."""
    made = LayersModel()
    made.show(make_facts(layers=4), plan_of({0: "Vulkan0", 1: "CPU", 2: "CPU", 3: "CPU"}))
    return made


def column(model, role):
    return [model.index(row, 0).data(role) for row in range(model.rowCount())]


def test_the_model_and_its_proxies_keep_qts_rules(layers, qtmodeltester, make_facts):
    for model in (layers, LaneProxy(layers, "CPU"), LaneProxy(layers, "disk")):
        qtmodeltester.check(model)
    layers.show(make_facts(layers=4), plan_of({0: "CPU", 1: "Vulkan0", 2: "disk", 3: "CPU"}))
    layers.show(make_facts(layers=2), plan_of({0: "CPU", 1: "CPU"}))
    layers.show(None, None)
    assert layers.rowCount() == 0


def test_a_row_tells_its_layer_lane_and_bytes(layers):
    assert column(layers, Qt.ItemDataRole.DisplayRole) == ["Layer 0", "Layer 1", "Layer 2", "Layer 3"]
    assert column(layers, LAYER) == [0, 1, 2, 3]
    assert column(layers, LANE) == ["Vulkan0", "CPU", "CPU", "CPU"]
    assert column(layers, BYTES) == [8 * 1024**2] * 4
    assert column(layers, EXPERTS) == [8] * 4
    assert layers.index(0).data(Qt.ItemDataRole.EditRole) is None


def test_layers_are_named_by_their_index_in_the_file_and_not_by_row(qapp, make_facts):
    facts = make_facts(layers=6, moe_layers=(3, 5))
    model = LayersModel()
    model.show(facts, plan_of({5: "CPU", 3: "CPU"}))
    assert column(model, LAYER) == [3, 5]
    assert model.layer_row(5).row() == 1
    assert not model.layer_row(4).isValid()


def test_a_changed_lane_is_told_without_a_reset(layers, make_facts, qtbot):
    facts = layers._facts
    resets = []
    layers.modelAboutToBeReset.connect(lambda: resets.append(1))
    with qtbot.waitSignal(layers.dataChanged) as told:
        layers.show(facts, plan_of({0: "Vulkan0", 1: "CPU", 2: "Vulkan0", 3: "CPU"}))
    assert (told.args[0].row(), told.args[1].row()) == (2, 2)
    assert not resets
    layers.show(make_facts(layers=4), plan_of(dict.fromkeys(range(4), "CPU")))
    assert resets


def test_each_lane_shows_its_own_layers_in_order_and_follows_moves(layers):
    gpu, cpu, disk = (LaneProxy(layers, lane) for lane in ("Vulkan0", "CPU", "disk"))
    assert (gpu.layers(), cpu.layers(), disk.layers()) == ((0,), (1, 2, 3), ())
    layers.show(layers._facts, plan_of({0: "CPU", 1: "CPU", 2: "Vulkan0", 3: "disk"}))
    assert (gpu.layers(), cpu.layers(), disk.layers()) == ((2,), (0, 1), (3,))
    assert cpu.row_of(1).row() == 1
    assert not cpu.row_of(2).isValid()


def test_a_drag_carries_its_layers_and_its_model(layers):
    data = LaneProxy(layers, "CPU").mimeData([LaneProxy(layers, "CPU").index(0, 0)])
    assert data is not None
    proxy = LaneProxy(layers, "CPU")
    data = proxy.mimeData([proxy.index(2, 0), proxy.index(0, 0)])
    assert data.formats() == [MIME_TYPE]
    assert unpack(data, layers.fingerprint) == (1, 3)


def test_a_drop_asks_for_the_layers_that_come_from_elsewhere(layers, qtbot):
    gpu, root = LaneProxy(layers, "Vulkan0"), QModelIndex()
    data = pack(Dragged(model=layers.fingerprint, layers=(0, 2)))
    assert gpu.canDropMimeData(data, MOVE, -1, -1, root)
    with qtbot.waitSignal(gpu.move_wanted) as wanted:
        assert gpu.dropMimeData(data, MOVE, -1, -1, root)
    assert wanted.args == [(2,), "Vulkan0"]


@pytest.mark.parametrize(
    "layers_of", [lambda model: pack(Dragged(model="another model", layers=(1,))), lambda model: text_drag()]
)
def test_a_foreign_drag_is_not_taken(layers, layers_of, qtbot):
    gpu = LaneProxy(layers, "Vulkan0")
    data = layers_of(layers)
    assert not gpu.canDropMimeData(data, MOVE, -1, -1, QModelIndex())
    with qtbot.assertNotEmitted(gpu.move_wanted):
        assert not gpu.dropMimeData(data, MOVE, -1, -1, QModelIndex())


def text_drag():
    data = QMimeData()
    data.setText("layers")
    data.setData(MIME_TYPE, b"not a drag of ours")
    return data


def test_layers_move_and_are_never_copied(layers, qtbot):
    gpu = LaneProxy(layers, "Vulkan0")
    data = pack(Dragged(model=layers.fingerprint, layers=(2,)))
    assert layers.supportedDropActions() == MOVE
    assert layers.supportedDragActions() == MOVE
    with qtbot.assertNotEmitted(gpu.move_wanted):
        assert not gpu.dropMimeData(data, Qt.DropAction.CopyAction, -1, -1, QModelIndex())
    assert not layers.removeRows(0, 1)


def test_heat_reaches_its_rows_and_a_gpu_layer_says_why_it_has_none(layers):
    lanes = {0: "Vulkan0", 1: "CPU", 2: "CPU", 3: "CPU"}
    layers.set_loaded(loaded_as(lanes), plan_of(lanes))
    layers.set_heat(heat_map(dict.fromkeys((1, 2, 3), make_experts((9, 1, 0, 0, 0, 0, 0, 0)))))
    assert column(layers, UNCOUNTED) == ["not counted on the GPU", "", "", ""]
    assert heat_of(layers.index(0)) is None
    assert heat_of(layers.index(1)).counts[0] == 9
    assert "hottest experts: 0 (90 %), 1 (10 %)" in layers.layer_tip(1)
    assert "not counted on the GPU" in layers.expert_tip(0, 3)
    assert layers.expert_tip(1, 0).startswith("Layer 1, expert 0: routed 9 times, 90 % of this layer")


def test_counting_follows_the_loaded_lane_and_not_the_edited_one(layers):
    loaded = {0: "Vulkan0", 1: "CPU", 2: "CPU", 3: "CPU"}
    layers.set_loaded(loaded_as(loaded), plan_of(loaded))
    layers.show(layers._facts, plan_of({0: "CPU", 1: "Vulkan0", 2: "CPU", 3: "CPU"}))
    assert column(layers, UNCOUNTED) == ["not counted on the GPU", "", "", ""]
    assert column(layers, LOADED_LANE) == ["Vulkan0", "CPU", "CPU", "CPU"]
    assert "loaded in the CPU lane" in layers.layer_tip(1)


def test_without_the_native_device_every_row_says_why_it_is_not_counted(layers):
    lanes = dict.fromkeys(range(4), "CPU")
    layers.set_loaded(loaded_as(lanes, expert_device=False, reason="ggml is too new"), plan_of(lanes))
    assert column(layers, UNCOUNTED) == ["not counted: ggml is too new"] * 4


def test_nothing_is_said_to_be_uncounted_while_nothing_is_loaded(layers):
    assert column(layers, UNCOUNTED) == [""] * 4
    assert column(layers, LOADED_LANE) == [None] * 4
    assert "no routing counted yet" in layers.layer_tip(0)


def test_a_row_is_spoken_with_size_and_lane(layers):
    spoken = layers.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken.startswith("Layer 0, 8.0 MiB of experts, Vulkan0 lane")


def test_a_row_and_its_experts_are_spoken_with_residency_and_pins(layers):
    experts = make_experts((9, 1, 0, 0, 0, 0, 0, 0), lanes="gmcccccc", pins="gacaaaaa", slots=2)
    layers.set_heat(heat_map({1: experts}))
    spoken = layers.index(1).data(Qt.ItemDataRole.AccessibleTextRole)
    assert "1 of 8 experts in the GPU pool, 1 being copied there" in spoken
    assert "1 kept on the GPU by you, 1 kept on the CPU by you" in spoken
    assert layers.expert_tip(1, 0).endswith("CPU lane, now in the GPU pool, kept on the GPU by you")
    assert layers.expert_tip(1, 1).endswith("being copied to the GPU pool")
    assert layers.expert_tip(1, 2).endswith("now computed on the CPU, kept on the CPU by you")
