"""How many threads the linear algebra under numpy may use."""

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


def use_one_blas_thread() -> None:
    """Keeps a comparison on the thread that runs it. To be called once, when the service starts.

    The limit holds for the whole process, which is why no query sets it. With two BLAS threads a single query of a
    large scope gains little (memory is the limit), while queries side by side wait for each other's threads: four
    times fewer a second on two cores, and now and then one that takes fifty times as long.
    """
    threadpool_limits(limits=1, user_api="blas")
