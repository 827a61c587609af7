# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Graph benchmarks, and your own graphs
#
# The models that forecast the sea also learn on any other graph. Three short experiments: can a model tell graphs apart
# that look the same to message passing, how do you use a graph of your own, and what does a model say of a molecule?

# %%
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import torch
from rdkit import Chem, RDConfig, RDLogger
from rdkit.Chem import Crippen, Draw
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

import sstcast

sys.path.insert(0, "..")  # the studies lie beside the package, not in it
from studies import wl

# %% [markdown]
# `sstcast benchmark` knows these data sets by name. It downloads raw files that are missing.

# %%
print("\n".join(sstcast.datasets("../data/graphs")[:12]), "\n...")

# %% [markdown]
# ## Beyond message passing
#
# A circular skip link graph is a ring of 41 nodes with a second edge from each node to the node R steps on. In all of
# these graphs, every node has four neighbours that look like itself, so message passing gives all nodes the same
# output. Positional encodings tell the graphs apart.

# %%
graphs, classes = wl.skip_link_graphs(seed=0)
fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, skip in zip(axes, (2, 5, 13), strict=True):
    graph = nx.circulant_graph(wl.NODES, [1, skip])
    nx.draw_networkx(graph, nx.circular_layout(graph), ax=ax, node_size=12, with_labels=False, width=0.4)
    ax.set_title(f"R = {skip}")
    ax.axis("off")

# %%
result = wl.study(models=["MPNN", "MPNN + VN", "MPNN + RWSE", "MPNN + LapPE"], folds=[0], epochs=60).rows()
result.groupby("model", sort=False)["accuracy"].mean().to_frame("accuracy, %")

# %% [markdown]
# Ten classes: 10 % is chance, and neither message passing nor a virtual node gets beyond it. With random-walk or
# Laplacian encodings the same network tells all of them apart.
#
# ## Your own graph
#
# A node classification task: a graph of PyG in a file, and three lines of YAML. The task is a small minesweeper: a field of
# 40 by 40 cells, a fifth of them mines; half of the cells show how many mines are next to them, the others nothing.
# Where are the mines?

# %%
random = np.random.default_rng(0)
side = 40
field = nx.convert_node_labels_to_integers(nx.strong_product(nx.path_graph(side), nx.path_graph(side)))
mines = random.random(side * side) < 0.2
counts = nx.to_numpy_array(field) @ mines
hidden = random.random(side * side) < 0.5
features = np.eye(10)[np.where(hidden, 9, counts).astype(int)]
parts = random.choice(3, size=side * side, p=[0.6, 0.2, 0.2])
folder = Path("../runs/notebook-graphs")
folder.mkdir(parents=True, exist_ok=True)
graph = Data(
    x=torch.tensor(features, dtype=torch.float),
    edge_index=to_undirected(torch.tensor(list(field.edges)).T),
    y=torch.tensor(mines).long(),
    train_mask=torch.tensor(parts == 0),
    val_mask=torch.tensor(parts == 1),
    test_mask=torch.tensor(parts == 2),
)
torch.save(graph, folder / "mines.pt")
(folder / "mines.yaml").write_text("kind: pyg\npath: mines.pt\ntask: node-classification\nmetric: roc-auc\n")
fig, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
axes[0].imshow(np.where(hidden, np.nan, counts).reshape(side, side), cmap="viridis")
axes[0].set_title("what is shown (white: nothing)")
axes[1].imshow(mines.reshape(side, side), cmap="binary")
axes[1].set_title("the mines")
for ax in axes:
    ax.axis("off")
plt.show()

# %%
PLACES = ["runs=../runs/notebook-graphs/runs", "cache=../runs/notebook-graphs/cache"]
rows = {}
for model in ("linear-transformer", "gin", "mpnn", "polynormer"):
    options = [*PLACES, "training.epochs=30", "model.width=32", "training.learning_rate=0.01"]
    if model == "polynormer":
        options += ["model.local_layers=3", "model.global_layers=1", "model.heads=4"]
    (result,) = sstcast.benchmark(str(folder / "mines.yaml"), model, overrides=options)
    rows[model] = {
        "test ROC-AUC": result["test"],
        "parameters": result["parameters"],
        "seconds": result["seconds"],
    }
pd.DataFrame(rows).T.round(3)

# %% [markdown]
# The transformer sees each cell's clue and the mean of all of them, but not which cells are next to each other, so it
# can only guess. Every model that passes messages does better.
#
# ## Molecules
#
# A molecule is a graph of atoms and bonds. How well does it dissolve in fat rather than in water? Crippen's logP, which
# RDKit computes as a sum over atoms, answers that. A network learns it here from 800 molecules of the National Cancer
# Institute that come with RDKit. It sees the graph alone, and no rule of chemistry.

# %%
RDLogger.DisableLog("rdApp.*")
words = Path(RDConfig.RDDataDir, "NCI", "first_5K.smi").read_text().split()
molecules = {text: Chem.MolFromSmiles(text) for text in words[:4000:4]}
molecules = {text: molecule for text, molecule in molecules.items() if molecule and molecule.GetNumAtoms() > 1}
logp = [Crippen.MolLogP(molecule) for molecule in molecules.values()]
pd.DataFrame({"smiles": list(molecules), "logp": logp}).to_csv(folder / "molecules.csv", index=False)
(folder / "molecules.yaml").write_text(
    "kind: smiles_csv\npath: molecules.csv\ntask: graph-regression\ntargets: [logp]\n"
)
options = [*PLACES, "training.epochs=10", "model.width=64", "training.learning_rate=0.002"]
(result,) = sstcast.benchmark(str(folder / "molecules.yaml"), "gine", overrides=options)
print(f"mean absolute error {result['test']:.2f}, standard deviation of logP {np.std(logp):.2f}")

# %% [markdown]
# `predictions.npz` in the folder of the run has what the model says of each test molecule. Here are eight of them, from
# the smallest error to the largest.

# %%
found = np.load("../runs/notebook-graphs/runs/molecules/gine/seed-0/predictions.npz")
said, computed, numbers = found["test_prediction"].ravel(), found["test_target"].ravel(), found["test_index"]
order = np.argsort(np.abs(said - computed))
shown = order[np.linspace(0, len(order) - 1, 8).astype(int)]
how = Draw.MolDrawOptions()
how.drawMolsSameScale = False
Draw.MolsToGridImage(
    [list(molecules.values())[number] for number in numbers[shown]],
    legends=[f"model {said[i]:.1f}, Crippen {computed[i]:.1f}" for i in shown],
    molsPerRow=4,
    subImgSize=(260, 220),
    drawOptions=how,
)

# %%
fig, ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
ends = [computed.min(), computed.max()]
ax.plot(ends, ends, color="0.6", lw=0.8)
ax.plot(computed, said, ".", ms=5)
ax.set(
    xlabel="logP by Crippen's sum over atoms", ylabel="logP by the network", title=f"{len(said)} test molecules"
)
plt.show()

# %% [markdown]
# `docs/benchmarks.md` explains how to use your own SMILES, CSV files of nodes and edges, and graphs in memory.
