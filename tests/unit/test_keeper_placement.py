"""Blocks into segments and back: nothing lost, nothing twice, whatever the sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torpor.image.manifest import SEGMENT
from torpor.keeper import placement
from torpor.keeper.placement import PlacedBlock

MIB = 1 << 20

blocks = st.lists(
    st.tuples(st.sampled_from(["GPU-a", "GPU-b", "GPU-c"]), st.integers(1, 3), st.integers(1, 300 * MIB)),
    max_size=12,
)


def place(found: list[tuple[str, int, int]]) -> list[tuple[str, PlacedBlock]]:
    return [(uuid, PlacedBlock(pid, number << 32, size, 0)) for number, (uuid, pid, size) in enumerate(found, 1)]


@given(blocks)
def test_every_byte_of_a_block_has_one_place(found: list[tuple[str, int, int]]) -> None:
    rows = placement.rows(place(found))
    pieces = {piece.segment: piece for piece in placement.cut(rows)}
    used: dict[int, list[tuple[int, int]]] = {}
    for (pid, address), extents in placement.extents(rows).items():
        size = next(b.size for r in rows for b in r.blocks if (b.pid, b.address) == (pid, address))
        assert sum(length for _segment, _offset, length in extents) == size
        for segment, offset, length in extents:
            assert offset + length <= pieces[segment].length <= SEGMENT
            used.setdefault(segment, []).append((offset, offset + length))
    assert set(used) == set(pieces)
    for segment, ranges in used.items():
        at = 0
        for start, end in sorted(ranges):
            assert start == at
            at = end
        assert at == pieces[segment].length


@given(blocks)
def test_the_way_in_is_the_way_out(found: list[tuple[str, int, int]]) -> None:
    rows = placement.rows(place(found))
    back = placement.assemble(rows, placement.extents(rows))
    # Blocks that lie in the row as they lie in the segments need one copy per segment, as on the way out.
    assert [piece for pieces in back.values() for piece in pieces] == placement.cut(rows)


def test_blocks_may_go_to_other_gpus_than_they_came_from() -> None:
    first, second = PlacedBlock(1, 0x1000, 8 * MIB, 0), PlacedBlock(1, 0x2000, 4 * MIB, 1)
    rows = placement.rows([("GPU-new", second), ("GPU-other", first)])
    back = placement.assemble(rows, {(1, 0x1000): [(0, 0, 8 * MIB)], (1, 0x2000): [(0, 8 * MIB, 4 * MIB)]})
    assert [(p.uuid, p.offset, p.at, p.length) for p in back[0]] == [
        ("GPU-other", 0, 0, 8 * MIB),
        ("GPU-new", 8 * MIB, 0, 4 * MIB),
    ]
