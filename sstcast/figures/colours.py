"""The colour maps of all pictures: samples of five maps of cmocean, with straight lines between them.

cmocean is by Thyng et al. (2016), Oceanography 29(3), doi:10.5670/oceanog.2016.66, copyright (c) 2015 Kristen M.
Thyng, MIT licence. It is not installed, because its last version, 4.0.3, passes an argument that matplotlib
removes in 3.13.
"""

import numpy as np
from matplotlib.colors import Colormap, LinearSegmentedColormap

# Colours at 32 even steps of each half. The dark ends of balance and delta are cropped by 12 % of the map, because
# black at one end looks like black at the other.
MAP_COLOURS = {
    "amp": (
        "f1edecefe8e7ede3e1ebdfdce9dad6e7d5d0e5cfc9e4cbc3e2c6bde1c1b8dfbdb2deb8acdcb4a6dbafa1d9aa9bd8a695"
        "d6a08ed59c88d49782d2927dd18e77d08971ce856ccd8066cb7c61ca775bc87155c66d50c5684ac36346c25e41c0593c"
        "c0583bbe5336bc4e32ba492fb8442bb63f29b33826b03325ae2d24aa2824a72424a31f259f1b269b1727971428921128"
        "8c0f29870e29810e297c0e29770e28710e276c0f26670f24610e225c0e21560e1e510d1c4b0c19460b17410a143c0912"
    ),
    "balance": (
        "263276283683293b8f29409c2745a9224bb51654bd0d5cbe0a64be106bbc1972bb2279bb2b7fba3585ba3e8bba4791ba"
        "5399ba5d9ebb68a4bc73a9bd7eaebf8ab3c195b8c49fbdc7aac3cbb5c8cfc1cfd4ccd5d8d5dadddfe0e2e9e7e7f1ecec"
        "f0ebeaede3e1e9dbd7e6d2cde3cac2e1c2b8deb8acdbb0a1d9a897d6a08dd49883d19079cf876fcd7f65ca775cc76f53"
        "c46547c15c3fbe5437bb4b30b7422ab33826ae2f24a92624a21e259b1727911129880f297f0e29760e286c0f26650f24"
    ),
    "delta": (
        "243576263984263e912245991e4d9c1c559d1b5e9f1c65a01e6ca12073a2247aa42881a52c87a7318ea93795aa3d9bac"
        "47a3ae51aaaf5dafb16bb5b379bab687bfb994c4bda0c9c1adcfc6b9d4cbc7dbd1d2e1d7dde8dbe8eee0f3f5e3fefbd7"
        "fefbcaf9f3bbf5eaacf0e29debda8ee5d37fdeca6bd7c45ccfbe4ec6b840bcb333b1af27a6aa1d9aa6138ea20b829e06"
        "72980665940a598f0f4c8b153f861a33801f277b231d7527146f290d692b0b612d0d5a2d10542c134d2b164629174127"
    ),
    "thermal": (
        "04233305263b052943072b4b082e540b305d0f326a1433741a347f21348a2a339333339b3c339f4435a04b379f52399d"
        "593d9b5f3f996542976a4595704794754a927a4c91804e8f85518e8b538d92558b97578a9d5988a35b86a95d84af5f82"
        "b15f82b7617fbd637cc36579c96775ce6971d66c6cdb6e68e07163e5745eea7859ee7b54f1804ff4854bf68a47f88f43"
        "fa9640fb9c3efca33dfca93cfcaf3cfbb63dfbbc3efac340f8c943f7d045f5d849f3df4cf1e650eeed53ebf457e8fa5b"
    ),
    "matter": (
        "feedb0fde8abfde2a5fcdca0fbd79bfbd196faca90fac58bf9bf86f8ba82f7b47df7af79f6a975f5a471f49f6df39969"
        "f19265f08d62ef875fed825cec7c5aea7758e97256e76c55e56754e26253df5b53dc5653d95153d64d54d34855cf4456"
        "ce4356ca3f58c63c59c2385abe355cb9325db32e5faf2b60aa2961a52662a024629b2263962163911f638c1e63861d63"
        "801b627a1b62751a6170195f6a195e65185c5f185a5a17575517554f165249154e44144b3e13483912453411412f0f3e"
    ),
}
# Heatwave categories (Hobday et al. 2018, doi:10.5670/oceanog.2018.205), from light to dark, so that they can be
# distinguished without colour vision.
CATEGORY_COLOURS = ("#dfe8ee", "#ffc866", "#ff6900", "#9e0000", "#2d0000")
PLACES = np.concatenate([np.linspace(0, 127, 32), np.linspace(128, 255, 32)]).round() / 255


def colour_map(name: str) -> Colormap:
    """Return one of the `MAP_COLOURS` as a colour map of 256 colours."""
    text = MAP_COLOURS[name]
    colours = [f"#{text[first : first + 6]}" for first in range(0, len(text), 6)]
    return LinearSegmentedColormap.from_list(name, list(zip(PLACES, colours, strict=True)), 256)
