# The two commands are `make demo` and `make test`. Each sets up all that it needs in this directory:
# .venv (Spark 3.5 and RayDP), .venv-spark4 (Spark 4) and .cache (the servers that the tests start).
# CONSTRAINTS pins the versions that were tested.

PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
WORKERS ?= 2

export LC_ALL := C.UTF-8
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: demo test check docs setup spark4 java npm clean

demo: setup spark4
	rm -rf build/demo
	.venv/bin/python docs/examples/flights.py build/demo/on-ray
	.venv-spark4/bin/python docs/examples/flights_deferred.py build/demo/on-ray/flights.csv \
		build/demo/deferred --also-read build/demo/on-ray/table

test: setup spark4 npm
	.venv/bin/python -m pytest -n $(WORKERS) --dist loadgroup --ignore tests/integration/hadoop
	.venv-spark4/bin/python -m pytest -n $(WORKERS) --dist loadgroup -m "not one_spark" \
		tests/integration/spark tests/integration/hadoop tests/docs/test_spark_blocks.py

check: setup docs
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

# The site in build/site. A warning is an error, but not with --quiet; nothing is fetched.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

setup: java .venv/ready

spark4: java .venv-spark4/ready

java:
	@.ci/require-java

npm:
	@.ci/require-npm

.venv/ready: pyproject.toml $(CONSTRAINTS) hatch_build.py $(shell find ray_committer/spark/java -name '*.java')
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --constraint $(CONSTRAINTS) --editable '.[raydp,arrow,gcs,adls,hdfs,demo,test,servers,check,docs]'
	touch $@

.venv-spark4/ready: pyproject.toml constraints-spark4.txt hatch_build.py $(shell find ray_committer/spark/java -name '*.java')
	$(PYTHON) -m venv .venv-spark4
	.venv-spark4/bin/pip install --quiet --constraint constraints-spark4.txt --editable '.[spark,arrow,hdfs,demo,test]'
	touch $@

clean:
	rm -rf .venv .venv-spark4 .cache build dist
