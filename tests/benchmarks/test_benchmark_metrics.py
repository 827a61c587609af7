"""Metrics against ogb's evaluators, scikit-learn and plain counting."""

from typing import Any

import numpy as np
import pytest
import torch
from ogb.graphproppred import Evaluator
from ogb.linkproppred import Evaluator as LinkEvaluator
from sklearn.metrics import mean_absolute_error, root_mean_squared_error
from small_raw import packed

from sstcast.benchmarks.objectives import (
    END_WORD,
    PREDICTED_WORDS,
    TASKS,
    UNKNOWN_WORD,
    VOCABULARY_SIZE,
    Links,
    Words,
)
from sstcast.benchmarks.registry import find_dataset

METRICS = {name: metric.score for task in TASKS.values() for name, metric in task.metrics.items()}

random = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("name", "metric", "tasks"), [("ogbg-molpcba", "ap", 128), ("ogbg-moltox21", "roc-auc", 12)]
)
def test_ranks_as_ogb_does(name: str, metric: str, tasks: int) -> None:
    target = random.integers(0, 2, (60, tasks)).astype(float)
    prediction = random.normal(size=(60, tasks)) + target
    target[random.random(target.shape) < 0.3] = np.nan
    target[:, 5], target[:, 6], target[:, 7] = 0, 1, np.nan  # no question
    (theirs,) = Evaluator(name).eval({"y_true": target, "y_pred": prediction}).values()
    assert METRICS[metric](prediction, target) == pytest.approx(theirs)


def test_scores_of_known_classes_are_counted() -> None:
    target, prediction = np.append(random.integers(0, 4, 50), -1), random.normal(size=(51, 4))
    guess, truth = prediction[:-1].argmax(1), target[:-1]
    of_class = [(guess == label, truth == label) for label in range(4)]
    assert METRICS["accuracy"](prediction, target) == pytest.approx(np.mean(guess == truth))
    recalls = [guessed[true].mean() for guessed, true in of_class]
    assert METRICS["balanced-accuracy"](prediction, target) == pytest.approx(np.mean(recalls))
    f1 = [2 * (guessed & true).sum() / (guessed.sum() + true.sum()) for guessed, true in of_class]
    assert METRICS["macro-f1"](prediction, target) == pytest.approx(np.mean(f1))


@pytest.mark.parametrize(("metric", "theirs"), [("mae", mean_absolute_error), ("rmse", root_mean_squared_error)])
def test_errors_of_known_targets_as_scikit_learn_has_them(metric: str, theirs: Any) -> None:
    prediction, target = np.array([[1.0, 9], [2, 2], [0, 5]]), np.array([[0.0, np.nan], [2, 4], [3, 3]])
    known = ~np.isnan(target)
    assert METRICS[metric](prediction, target) == pytest.approx(theirs(target[known], prediction[known]))


def test_words_as_ogb_does() -> None:
    words = [f"w{i}" for i in range(VOCABULARY_SIZE)] + ["__UNK__", "__EOS__"]
    guess = random.integers(0, 6, (40, PREDICTED_WORDS))
    guess[random.random(guess.shape) < 0.2] = END_WORD
    guess[random.random(guess.shape) < 0.2] = UNKNOWN_WORD
    truth = np.full((40, 8), -1)
    for row in truth:
        length = random.integers(1, 9)
        row[:length] = random.integers(0, 6, length)
    truth[::5, 0] = VOCABULARY_SIZE + 77  # a word that training does not know
    predicted = [
        [words[w] for w in row[: (row == END_WORD).argmax() if END_WORD in row else None]] for row in guess
    ]
    reference = [[f"w{w}" for w in row if w >= 0] for row in truth]
    theirs = Evaluator("ogbg-code2").eval({"seq_ref": reference, "seq_pred": predicted})
    assert METRICS["f1"](guess, truth) == pytest.approx(theirs["F1"])


def test_words_beyond_the_vocabulary_are_unknown_and_the_rest_is_the_end() -> None:
    graph = {
        "edge_index": torch.zeros(2, 0, dtype=torch.long),
        "num_nodes": 1,
        "y": torch.tensor([[3, VOCABULARY_SIZE + 9, -1]]),
    }
    batch = packed([graph], "graph").batch(torch.tensor([0]))
    out = torch.randn(1, PREDICTED_WORDS * (VOCABULARY_SIZE + 2))
    log = out.view(PREDICTED_WORDS, -1).log_softmax(1)
    expected = -(log[0, 3] + log[1, UNKNOWN_WORD] + log[2:, END_WORD].sum())
    torch.testing.assert_close(Words(batch.y, batch.y, find_dataset("ogbg-code2")).loss(out, batch), expected)


def test_links_are_ranked_among_all_nodes_of_their_graph() -> None:
    """OGB ranks a true tail among given others, which are here the other nodes of the same graph."""
    generator = torch.Generator().manual_seed(1)
    graphs, pairs = [], []
    for nodes, true in ((6, 3), (9, 1), (4, 0)):
        pairs.append(torch.randint(nodes, (2, 5), generator=generator))
        y = (torch.arange(5) < true).float()
        graphs.append({"num_nodes": nodes, "edge_index": torch.zeros(2, 0).long(), "y": y})
    counts = torch.tensor([5, 5, 5])
    batch = packed(graphs, "pair", pairs=torch.cat(pairs, 1), pair_counts=counts).batch(torch.arange(3))
    out = torch.randn(19, 4, generator=generator)
    out[2] = out[1]  # a tie
    means, _ = Links(batch.y, batch.y, find_dataset("PCQM-Contact")).scored_values(out, batch)

    theirs = []
    for part, pair, true in zip(out.split([6, 9, 4]), pairs, (3, 1, 0), strict=True):
        ranks = []
        for source, target in pair[:, :true].T:
            scores = part @ part[source]
            others = torch.cat([scores[:target], scores[target + 1 :]])
            evaluated = LinkEvaluator("ogbl-citation2").eval(
                {"y_pred_pos": scores[target][None], "y_pred_neg": others[None]}
            )
            ranks.append(float(evaluated["mrr_list"]))
        theirs.append(np.mean(ranks) if ranks else 0.0)  # a graph's mean first, as Dwivedi et al. 2022 do
    assert means.tolist() == pytest.approx(theirs)
    assert METRICS["mrr"](means.numpy(), means.numpy()) == pytest.approx(np.mean(theirs))


def test_nodes_with_the_same_vector_are_tied() -> None:
    """Half of the 99 others count as ahead, whatever the order of summation."""
    y, pair = torch.ones(1), torch.tensor([[0], [1]])
    graph = {"num_nodes": 100, "edge_index": torch.zeros(2, 0).long(), "y": y}
    batch = packed([graph], "pair", pairs=pair, pair_counts=torch.tensor([1])).batch(torch.arange(1))
    for seed in range(20):
        out = torch.randn(1, 64, generator=torch.Generator().manual_seed(seed)).expand(100, 64).contiguous()
        means, _ = Links(y, y, find_dataset("PCQM-Contact")).scored_values(out, batch)
        assert means.tolist() == pytest.approx([1 / (1 + 99 / 2)])
