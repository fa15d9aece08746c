"""Spark: the top k for all users of a cluster, in the shape of `ALSModel.recommendForAllUsers`.

An extra, for PySpark 4: ``pip install 'tessella[spark]'``, on the driver and on every executor.
"""

try:
    import pyarrow  # noqa: F401
    import pyspark.sql
except ImportError:
    raise ImportError("tessella.spark needs pyspark; get it with: pip install 'tessella[spark]'") from None
if not hasattr(pyspark.sql.DataFrame, "toArrow"):
    raise ImportError(
        f"tessella.spark needs PySpark 4, but this is {pyspark.__version__}; get it with: pip install 'tessella[spark]'"
    )

from tessella.spark.all_users import recommend_all
from tessella.spark.als import Factors, from_als

__all__ = ["Factors", "from_als", "recommend_all"]
