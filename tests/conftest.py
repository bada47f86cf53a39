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
settings.register_profile("gate", settings.get_profile("wolfhound"), max_examples=20)
settings.load_profile("wolfhound")

TESTS = Path(__file__).parent

PLAIN = frozenset(
    """
    browser cli show fuzz/test_forged.py fuzz/test_wrong_calls.py fuzz/test_wrong_commands.py
    oracles/test_persistence.py test_any_machine.py data/test_arrow.py test_benchmarks.py
    oracles/test_cluster.py data/test_shipped.py data/test_datasets.py test_docs.py test_examples.py
    data/test_files.py test_gate.py test_herding_benchmarks.py core/test_identity.py
    compiled/test_jit.py data/test_lying_files.py test_package.py test_patience.py show/test_plot.py
    core/test_plugins.py test_processes.py data/test_readers.py core/test_registry.py test_release.py
    test_sentences.py test_site.py core/test_stopwatch.py data/test_store.py test_structure.py
    data/test_table_atoms.py data/test_tables.py core/test_validate.py test_vocabulary.py
    catalogue/test_warming.py
    """.split()
)
"""Folders and files of tests that no BLAS, vector width or compiled kernel can change."""

REST = frozenset(
    """
    browser cli/test_streams.py fuzz/test_attacks.py::test_nothing_is_found
    fuzz/test_judges.py::test_deaths_and_hangs_are_findings
    many/test_pass_solver.py::test_a_memory_limit_is_kept many/test_resume.py::test_a_killed_run_goes_on
    oracles/test_edits.py::test_a_save_of_an_edit_that_is_killed_leaves_the_old_or_the_new
    oracles/test_persistence.py::test_a_save_that_is_killed_on_its_way_leaves_the_old_or_the_new feed
    policy/test_logs.py policy/test_recorded.py test_any_machine.py
    test_benchmarks.py::test_tiny_claim_holds
    oracles/test_cluster.py::test_a_changed_file_is_refused_and_ends_a_run_with_what_is_proved
    oracles/test_cluster.py::test_a_running_cluster_is_joined_and_left
    oracles/test_cluster.py::test_a_worker_that_is_killed_is_started_again
    oracles/test_cluster.py::test_arrays_are_cut_and_any_oracle_is_built
    oracles/test_cluster.py::test_files_of_another_width_are_refused
    oracles/test_cluster.py::test_who_leaves_stops_the_worker
    oracles/test_cluster.py::test_a_shard_that_dies_over_and_over_is_lost
    oracles/test_cluster.py::test_the_command_line test_examples.py
    core/test_plugins.py::test_the_command_line_knows_what_a_plugin_adds
    test_site.py::test_the_site_is_built_whole paper/test_theory_edges.py
    """.split()
)
"""Folders, files and tests that `make test` leaves to `make test-rest`: they take minutes (processes that are
started or killed, training, tiny claims, fresh seeds), and what they look at is looked at by others, too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by the tables above what runs when; what nobody lists is `numerical`, and in the gate."""
    for item in items:
        own = item.path.relative_to(TESTS) if item.path.is_relative_to(TESTS) else Path()
        places = {own.as_posix(), *own.parts[:1]}
        if not places & PLAIN:
            item.add_marker(pytest.mark.numerical)
        if {*places, f"{own.as_posix()}::{item.name.partition('[')[0]}"} & REST:
            item.add_marker(pytest.mark.rest)
        if own.name == "test_recorded.py":
            item.add_marker(pytest.mark.recorded)
