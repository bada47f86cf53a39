"""Settings of the whole suite: deterministic, and nothing on the screen."""

# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")

# No clocks: on a busy machine examples are slow to draw, too.
settings.register_profile(
    "wolfhound", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("wolfhound")

TESTS = Path(__file__).parent

PLAIN = frozenset(
    """
    browser cli reports
    fuzz/test_forged.py fuzz/test_wrong_calls.py fuzz/test_wrong_commands.py
    oracles/test_persistence.py
    test_any_machine.py test_benchmarks.py test_cluster.py test_columns.py test_data.py test_datasets.py
    test_docs.py test_examples.py test_files.py test_given.py test_herding_benchmarks.py test_identity.py
    test_jit.py test_lying_files.py test_manifest.py test_package.py test_parquet.py test_patience.py
    test_plot.py test_plugins.py test_processes.py test_readers.py test_registry.py test_release.py
    test_sentences.py test_site.py test_stopwatch.py test_store.py test_structure.py test_table_atoms.py
    test_tables.py test_validate.py test_vocabulary.py test_warming.py
    """.split()
)
"""Folders and files of tests that no BLAS, vector width or compiled kernel can change."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `tools/any_machine.py` runs again: all that is not known to be plain, doctests included."""
    for item in items:
        own = item.path.relative_to(TESTS) if item.path.is_relative_to(TESTS) else Path()
        if not {own.as_posix(), *own.parts[:1]} & PLAIN:
            item.add_marker(pytest.mark.numerical)
        if own.name == "test_recorded.py":
            item.add_marker(pytest.mark.recorded)
