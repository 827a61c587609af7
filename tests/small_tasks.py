"""One data set for each kind of task."""

TASKS = {
    "graph regression": "ZINC",
    "graph classification": "MUTAG",
    "multi-label with missing labels": "ogbg-molpcba",
    "node classification, ROC-AUC": "minesweeper",
    "node classification in many graphs": "PascalVOC-SP",
    "link ranking": "PCQM-Contact",
    "next tokens": "ogbg-code2",
}
