"""Other libraries, tuned as an expert would tune them; each is a family of methods with a sweep of settings."""

from importlib.metadata import packages_distributions, version

from methods import Family

from peers import brute_force, graphs, inverted_files, scann_tree

FLAT = Family("faiss Flat", "faiss", brute_force.faiss_flat)
IMPLICIT = Family("implicit topk", "implicit", brute_force.implicit_topk)
IVF = Family("faiss IVF ip", "faiss", inverted_files.ivf_ip)
IVF_AUGMENTED = Family("faiss IVF augmented", "faiss", inverted_files.ivf_augmented)
IVF_PQ = Family("faiss IVF-PQ refined", "faiss", inverted_files.ivf_pq_refined)
SCANN = Family("ScaNN", "scann", scann_tree.scann_tree)
HNSWLIB = Family("hnswlib ip", "hnswlib", graphs.hnswlib_ip, slow_to_build=True)
HNSWLIB_AUGMENTED = Family("hnswlib augmented", "hnswlib", graphs.hnswlib_augmented, slow_to_build=True)
USEARCH = Family("usearch ip", "usearch", graphs.usearch_ip, slow_to_build=True)
VOYAGER = Family("voyager ip", "voyager", graphs.voyager_ip, slow_to_build=True)

FAMILIES = (
    FLAT,
    IMPLICIT,
    IVF,
    IVF_AUGMENTED,
    IVF_PQ,
    SCANN,
    HNSWLIB,
    HNSWLIB_AUGMENTED,
    USEARCH,
    VOYAGER,
)


def versions() -> dict[str, str]:
    """Return the versions of the installed packages."""
    known = packages_distributions()
    return {family.package: version(known[family.package][0]) for family in FAMILIES if family.package in known}
