"""Spark: recommends to all users on a cluster, in the format of `ALSModel.recommendForAllUsers`.

Needs PySpark 4 on the driver and on every executor: ``pip install 'tessella[spark]'``.
"""

try:
    import pyarrow  # noqa: F401
    import pyspark.sql
except ImportError:
    raise ImportError("tessella.spark needs pyspark; install it with: pip install 'tessella[spark]'") from None
if not hasattr(pyspark.sql.DataFrame, "toArrow"):
    raise ImportError(
        f"tessella.spark needs PySpark 4, but {pyspark.__version__} is installed; run: pip install 'tessella[spark]'"
    )

from tessella.spark.all_users import recommend_all
from tessella.spark.als import Factors, from_als

__all__ = ["Factors", "from_als", "recommend_all"]
