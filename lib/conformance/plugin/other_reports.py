# SPDX-License-Identifier: Apache-2.0
"""JUnit's and Allure's files, made to agree with the suite's report."""

from pathlib import Path

import pytest

from conformance.report import allure_results, allure_words, junit
from conformance.report.run import RunReport


def agree(config: pytest.Config, report: RunReport) -> None:
    """Change pytest's JUnit file and Allure's results to agree with the report."""
    path = getattr(config.option, "xmlpath", None)
    if path and Path(path).exists():
        junit.mend(Path(path), report)
        junit.write_claims(report, Path(path).with_name(f"{Path(path).stem}-claims.xml"))
    results = getattr(config.option, "allure_report_dir", None)
    if results:
        folder = Path(results)
        allure_results.write_surroundings(report, folder)
        allure_results.add_missing(report, folder)
        allure_words.retell(report, folder)
