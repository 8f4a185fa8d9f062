"""The chart of lesson 06: every number is in its words, and nothing overlaps or is cut off."""

from itertools import combinations, pairwise

import pytest

from leaselab.chart import WIDTH
from leaselab.cost_chart import CostChart

COSTS = {
    "with both indexes": {10**power: 190 for power in range(3, 7)},
    "without active": {10**power: 4 * 10**power + 140 for power in range(3, 7)},
    "without claimable": {10**power: 26 * 10**power + 110 for power in range(3, 7)},
}


def test_the_words_name_every_line_and_every_number():
    assert CostChart({"flat": {1000: 190, 10000: 200}, "steep": {1000: 4140}}).sentence == (
        "The steps of one claim, by the number of waiting tasks. "
        "flat: 190 for 1,000, 200 for 10,000; steep: 4,140 for 1,000."
    )


@pytest.mark.parametrize("costs", [COSTS, {"one": {1: 1}}, {"one": {999: 1000, 1001: 10**8}}])
def test_no_text_overlaps_another_or_is_cut_off(costs):
    chart = CostChart(costs)
    boxes = [chart._box(text) for text in chart.figure().axes[0].texts]
    assert len(boxes) >= 6
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for box in boxes:
        assert 0 <= box.x0 and box.x1 <= WIDTH and 0 <= box.y0 and box.y1 <= chart.height


def test_ten_times_the_count_is_the_same_way_further_everywhere_on_an_axis():
    chart = CostChart(COSTS)
    places = [chart._place(10**power, 10**power) for power in (3, 4, 5, 6)]
    for values in zip(*places):
        ways = [after - before for before, after in pairwise(values)]
        assert ways == pytest.approx([ways[0]] * 3)
