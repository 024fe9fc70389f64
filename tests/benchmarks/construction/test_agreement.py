from __future__ import annotations

import pytest

from backscroll.benchmarks.construction.agreement import AnnotatorAgreement

# Fourteen raters put ten subjects into five categories: the worked example of Fleiss' kappa, 0.210.
COUNTS = [
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]


def agreement(items: list[list[object]]) -> AnnotatorAgreement:
    built = AnnotatorAgreement()
    for labels in items:
        built.add(labels)
    return built


def test_kappa_equals_the_worked_example() -> None:
    items = [[category for category, count in enumerate(row) for _ in range(count)] for row in COUNTS]
    built = agreement(items)  # type: ignore[arg-type]
    assert built.observed == pytest.approx(0.378, abs=5e-4)
    assert built.kappa == pytest.approx(0.210, abs=5e-4)


def test_full_agreement_on_different_labels_is_one() -> None:
    built = agreement([["a", "a", "a"], ["b", "b", "b"]])
    assert (built.observed, built.kappa) == (1, 1)


def test_kappa_is_undefined_if_all_labels_are_the_same() -> None:
    built = agreement([["a", "a"], ["a", "a"]])
    assert (built.observed, built.kappa) == (1, None)


def test_a_single_annotator_has_no_agreement() -> None:
    built = agreement([["a"], ["b"]])
    assert (built.observed, built.kappa) == (None, None)
