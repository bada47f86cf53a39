"""Minimise a smooth convex f over the hull of many atoms, with a proved gap.

Names are loaded when first used: numba costs 0.3 s to import.
"""

# SPDX-License-Identifier: Apache-2.0
__version__ = "0.1.0"

TYPE_CHECKING = False  # as of `typing`, which takes as long to import as all else here
if TYPE_CHECKING:
    from wolfhound.catalogue.loading import load as load
    from wolfhound.catalogue.warming import warm_up as warm_up
    from wolfhound.core.contracts import Status as Status
    from wolfhound.core.threads import get_threads as get_threads
    from wolfhound.core.threads import set_threads as set_threads
    from wolfhound.core.weights import Cone as Cone
    from wolfhound.core.weights import Hull as Hull
    from wolfhound.data.atoms import ArrayAtoms as ArrayAtoms
    from wolfhound.data.atoms import ConcatAtoms as ConcatAtoms
    from wolfhound.data.atoms import FileAtoms as FileAtoms
    from wolfhound.data.atoms import MappedAtoms as MappedAtoms
    from wolfhound.data.encoding import Missing as Missing
    from wolfhound.data.encoding import TableAtoms as TableAtoms
    from wolfhound.data.encoding import TableReport as TableReport
    from wolfhound.data.encoding import encode as encode
    from wolfhound.data.readers import read_atoms as read_atoms
    from wolfhound.designs.criteria import AOptimal as AOptimal
    from wolfhound.designs.criteria import DOptimal as DOptimal
    from wolfhound.designs.criteria import IOptimal as IOptimal
    from wolfhound.designs.design import design as design
    from wolfhound.designs.ellipsoid import enclosing_ellipsoid as enclosing_ellipsoid
    from wolfhound.designs.factors import Factors as Factors
    from wolfhound.designs.factors import Interactions as Interactions
    from wolfhound.designs.factors import LinearModel as LinearModel
    from wolfhound.designs.factors import Quadratic as Quadratic
    from wolfhound.designs.result import Design as Design
    from wolfhound.herding.herd import herd as herd
    from wolfhound.herding.in_features import herd_in_features as herd_in_features
    from wolfhound.herding.kernels import KERNELS as KERNELS
    from wolfhound.herding.kernels import Gaussian as Gaussian
    from wolfhound.herding.kernels import Laplace as Laplace
    from wolfhound.herding.kernels import Linear as Linear
    from wolfhound.herding.result import HerdResult as HerdResult
    from wolfhound.herding.stein import Stein as Stein
    from wolfhound.many.result import ManyResult as ManyResult
    from wolfhound.many.solve import minimize_many as minimize_many
    from wolfhound.methods.directions import Away as Away
    from wolfhound.methods.directions import BlendedPairwise as BlendedPairwise
    from wolfhound.methods.directions import Pairwise as Pairwise
    from wolfhound.methods.directions import Vanilla as Vanilla
    from wolfhound.methods.frank_wolfe import FrankWolfe as FrankWolfe
    from wolfhound.methods.fully_corrective import FullyCorrective as FullyCorrective
    from wolfhound.methods.steps import Adaptive as Adaptive
    from wolfhound.methods.steps import Clipped as Clipped
    from wolfhound.methods.steps import LineSearch as LineSearch
    from wolfhound.methods.steps import OpenLoop as OpenLoop
    from wolfhound.methods.steps import ShortStep as ShortStep
    from wolfhound.mixtures.families import Binomial as Binomial
    from wolfhound.mixtures.families import Normal as Normal
    from wolfhound.mixtures.families import NormalMeanScale as NormalMeanScale
    from wolfhound.mixtures.families import NormalScales as NormalScales
    from wolfhound.mixtures.families import Poisson as Poisson
    from wolfhound.mixtures.families import StudentT as StudentT
    from wolfhound.mixtures.fit import MixtureFit as MixtureFit
    from wolfhound.mixtures.npmle import npmle as npmle
    from wolfhound.mixtures.weights import WeightsFit as WeightsFit
    from wolfhound.mixtures.weights import fit_weights as fit_weights
    from wolfhound.objectives.custom import Custom as Custom
    from wolfhound.objectives.likelihood import MixtureLikelihood as MixtureLikelihood
    from wolfhound.objectives.linear import Huber as Huber
    from wolfhound.objectives.linear import LeastSquares as LeastSquares
    from wolfhound.objectives.linear import Logistic as Logistic
    from wolfhound.objectives.plain import SquaredDistance as SquaredDistance
    from wolfhound.oracles.clusters import ClusterIndex as ClusterIndex
    from wolfhound.oracles.faiss_index import FaissIndex as FaissIndex
    from wolfhound.oracles.forms import FormScan as FormScan
    from wolfhound.oracles.hashes import CrossPolytope as CrossPolytope
    from wolfhound.oracles.hashes import SimHash as SimHash
    from wolfhound.oracles.indexes import INDEXES as INDEXES
    from wolfhound.oracles.int8.file_scan import Int8FileScan as Int8FileScan
    from wolfhound.oracles.int8.scan import Int8Scan as Int8Scan
    from wolfhound.oracles.lsh import LshIndex as LshIndex
    from wolfhound.oracles.promises import Ladder as Ladder
    from wolfhound.oracles.scan import Scan as Scan
    from wolfhound.oracles.sharded import Sharded as Sharded
    from wolfhound.oracles.subset import RandomSubset as RandomSubset
    from wolfhound.oracles.wrappers import Audited as Audited
    from wolfhound.oracles.wrappers import Tiered as Tiered
    from wolfhound.paper.adaptive import QuantizedQueries as QuantizedQueries
    from wolfhound.paper.projected import Projected as Projected
    from wolfhound.paper.sublinear_frank_wolfe import Halving as Halving
    from wolfhound.paper.sublinear_frank_wolfe import SublinearFrankWolfe as SublinearFrankWolfe
    from wolfhound.planning.plan import choose_oracle as choose_oracle
    from wolfhound.planning.plan import plan as plan
    from wolfhound.show.compare import plot as plot
    from wolfhound.show.report import report as report
    from wolfhound.solve.minimize import minimize as minimize
    from wolfhound.solve.nnls import NnlsResult as NnlsResult
    from wolfhound.solve.nnls import nnls as nnls
    from wolfhound.solve.result import Result as Result
    from wolfhound.solve.result import Trace as Trace

_NAMES = {
    "catalogue.loading": ("load",),
    "catalogue.warming": ("warm_up",),
    "core.contracts": ("Status",),
    "core.threads": ("get_threads", "set_threads"),
    "core.weights": ("Cone", "Hull"),
    "data.atoms": ("ArrayAtoms", "ConcatAtoms", "FileAtoms", "MappedAtoms"),
    "data.encoding": ("Missing", "TableAtoms", "TableReport", "encode"),
    "data.readers": ("read_atoms",),
    "designs.criteria": ("AOptimal", "DOptimal", "IOptimal"),
    "designs.design": ("design",),
    "designs.ellipsoid": ("enclosing_ellipsoid",),
    "designs.factors": ("Factors", "Interactions", "LinearModel", "Quadratic"),
    "designs.result": ("Design",),
    "herding.herd": ("herd",),
    "herding.in_features": ("herd_in_features",),
    "herding.kernels": ("KERNELS", "Gaussian", "Laplace", "Linear"),
    "herding.result": ("HerdResult",),
    "herding.stein": ("Stein",),
    "many.result": ("ManyResult",),
    "many.solve": ("minimize_many",),
    "methods.directions": ("Away", "BlendedPairwise", "Pairwise", "Vanilla"),
    "methods.frank_wolfe": ("FrankWolfe",),
    "methods.fully_corrective": ("FullyCorrective",),
    "methods.steps": ("Adaptive", "Clipped", "LineSearch", "OpenLoop", "ShortStep"),
    "mixtures.families": ("Binomial", "Normal", "NormalMeanScale", "NormalScales", "Poisson", "StudentT"),
    "mixtures.fit": ("MixtureFit",),
    "mixtures.npmle": ("npmle",),
    "mixtures.weights": ("WeightsFit", "fit_weights"),
    "objectives.custom": ("Custom",),
    "objectives.likelihood": ("MixtureLikelihood",),
    "objectives.linear": ("Huber", "LeastSquares", "Logistic"),
    "objectives.plain": ("SquaredDistance",),
    "oracles.clusters": ("ClusterIndex",),
    "oracles.faiss_index": ("FaissIndex",),
    "oracles.forms": ("FormScan",),
    "oracles.hashes": ("CrossPolytope", "SimHash"),
    "oracles.indexes": ("INDEXES",),
    "oracles.int8.file_scan": ("Int8FileScan",),
    "oracles.int8.scan": ("Int8Scan",),
    "oracles.lsh": ("LshIndex",),
    "oracles.promises": ("Ladder",),
    "oracles.scan": ("Scan",),
    "oracles.sharded": ("Sharded",),
    "oracles.subset": ("RandomSubset",),
    "oracles.wrappers": ("Audited", "Tiered"),
    "paper.adaptive": ("QuantizedQueries",),
    "paper.projected": ("Projected",),
    "paper.sublinear_frank_wolfe": ("Halving", "SublinearFrankWolfe"),
    "planning.plan": ("choose_oracle", "plan"),
    "show.compare": ("plot",),
    "show.report": ("report",),
    "solve.minimize": ("minimize",),
    "solve.nnls": ("NnlsResult", "nnls"),
    "solve.result": ("Result", "Trace"),
}
_MODULE_OF = {name: f"wolfhound.{module}" for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604 - all strings


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # a typed __getattr__ would let mypy accept any name

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used (PEP 562)."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'wolfhound' has no attribute {name!r}")
        import importlib  # noqa: PLC0415

        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
