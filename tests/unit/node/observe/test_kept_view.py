"""A node keeps its view in its folder; an error in it never ends the node."""

from dataclasses import replace

from benchmarks.page.server import MadeUp, node_view
from node.observe.kept_view import KeptView
from node.observe.run_folder import RunFolder
from node.runtime.record.own_figures import OwnFigures
from node.storage.folder_lock import VIEW
from node.training.figures.class_figures import ClassFigure, ClassFigures, Tenth
from node.training.figures.headline import Alone

SHOWN = node_view(peers=2, ended=4)


async def test_the_view_is_written_at_once_and_a_last_time_at_the_end(tmp_path):
    source = MadeUp(SHOWN)
    kept = KeptView(source, tmp_path / VIEW)
    async with kept.while_running():
        first = RunFolder(tmp_path).read()
        source.ended = True
    assert not first.ended
    await kept.write()
    assert RunFolder(tmp_path).read() == replace(SHOWN, ended=True, history=(), folder=str(tmp_path))


async def test_what_the_own_rows_show_comes_back_from_the_folder(tmp_path):
    figure = ClassFigure("yes", 10, 4, None, 3, (0.0, 1.0))
    found = ClassFigures((figure,), (Tenth(0.5, 0.25, 4),), "yes")
    own = OwnFigures(Alone("auc", 0.75, 1.0), found, ("ward",))
    await KeptView(MadeUp(replace(SHOWN, own=own)), tmp_path / VIEW).write()
    assert RunFolder(tmp_path).read().own == own


async def test_a_full_disk_costs_the_file_and_nothing_else(tmp_path, caplog):
    (tmp_path / VIEW).mkdir()
    (tmp_path / VIEW / "in the way").touch()
    await KeptView(MadeUp(SHOWN), tmp_path / VIEW).write()
    assert "the view cannot be kept" in caplog.text
    assert list(tmp_path.iterdir()) == [tmp_path / VIEW]
