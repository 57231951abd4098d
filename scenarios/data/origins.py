"""Who publishes each data set, under which licence, and what the publisher asks users to cite."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Licence:
    """The name of a licence and the address of its text; the address is empty if no text is known."""

    name: str
    address: str


@dataclass(frozen=True)
class Origin:
    """The publisher of a data set, the address of its page, the licence, and the source to cite."""

    publisher: str
    address: str
    licence: Licence
    citation: str


_CC_BY = Licence("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/")

DIGITS = Origin(
    "UCI Machine Learning Repository",
    "https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits",
    _CC_BY,
    "Alpaydin & Kaynak 1998, doi:10.24432/C50P49",
)
BREAST_CANCER = Origin(
    "UCI Machine Learning Repository",
    "https://archive.ics.uci.edu/dataset/17/breast+cancer+wisconsin+diagnostic",
    _CC_BY,
    "Wolberg, Mangasarian, Street & Street 1995, doi:10.24432/C5DW2B",
)
MNIST = Origin(
    "Y. LeCun, C. Cortes, C. Burges",
    "http://yann.lecun.com/exdb/mnist/",
    Licence("CC BY-SA 3.0", "https://creativecommons.org/licenses/by-sa/3.0/"),
    "LeCun, Bottou, Bengio & Haffner 1998, Proc. IEEE 86(11)",
)
FASHION_MNIST = Origin(
    "Zalando Research",
    "https://github.com/zalandoresearch/fashion-mnist",
    Licence("MIT", "https://github.com/zalandoresearch/fashion-mnist/blob/master/LICENSE"),
    "Xiao, Rasul & Vollgraf 2017, arXiv:1708.07747",
)
CIFAR_10 = Origin(
    "A. Krizhevsky, University of Toronto",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    Licence("none stated", ""),
    "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
)
NIST = Origin(
    "NIST Special Database 19",
    "https://www.nist.gov/srd/nist-special-database-19",
    Licence("NIST data licence", "https://www.nist.gov/open/license"),
    "Grother & Hanaoka 2016, Special Database 19, 2nd edition; Caldas et al. 2018, arXiv:1812.01097",
)
ADULT = Origin(
    "UCI Machine Learning Repository",
    "https://archive.ics.uci.edu/dataset/2/adult",
    _CC_BY,
    "Becker & Kohavi 1996, doi:10.24432/C5XW20",
)
LOAN = Origin(
    "LendingClub",
    "https://www.lendingclub.com/info/download-data.action",
    Licence("none stated", ""),
    "LendingClub, loans issued from 2007 to 2011 (LoanStats3a)",
)
CRITEO = Origin(
    "Criteo Labs",
    "https://www.kaggle.com/c/criteo-display-ad-challenge",
    Licence("Criteo Labs data terms of use (in the archive; no commercial use)", ""),
    "Criteo Labs 2014, Display Advertising Challenge",
)
