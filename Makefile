# The two main commands are `make demo` and `make test`. Run `make quick` at each save. Each target sets up all
# that it needs in this directory:
# .venv (Spark 3.5 and RayDP), .venv-spark4 (Spark 4) and .cache (the servers that the tests start).
# CONSTRAINTS pins the tested versions. WORKERS is for two cores: the tests wait for a sixth of their time.

PYTHON ?= python3
CONSTRAINTS ?= constraints.txt
WORKERS ?= 3
PART ?= 1
PARTS ?= 1
N ?= 20

PYTEST = -n $(WORKERS) --dist loadgroup --durations=30
QUICK = not (wide or slow or server or ray or spark or hadoop)
ON_SPARK4 = tests/integration/spark tests/integration/hadoop tests/docs/test_spark_blocks.py tests/records/test_spark.py
SPLIT = --splits $(PARTS) --group $(PART) --splitting-algorithm least_duration

export LC_ALL := C.UTF-8
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: demo quick test rest links test-all flaky mutants bench bench-all check docs dist setup spark4 classes java npm clean

demo: setup spark4
	rm -rf build/demo
	.venv/bin/python docs/examples/flights.py build/demo/on-ray
	.venv-spark4/bin/python docs/examples/flights_deferred.py build/demo/on-ray/flights.csv \
		build/demo/deferred --also-read build/demo/on-ray/table
	.venv-spark4/bin/python benchmarks/committers.py

# These tests need no JVM, Ray cluster or server. CONTRIBUTING.md describes the tiers.
quick: setup
	.venv/bin/python -m pytest $(PYTEST) --junitxml=build/junit/quick.xml --ignore tests/integration -m "$(QUICK)"

test: setup spark4 npm classes
	.venv/bin/python -m pytest $(PYTEST) --junitxml=build/junit/spark3.xml --ignore tests/integration/hadoop
	.venv-spark4/bin/python -m pytest $(PYTEST) --junitxml=build/junit/spark4.xml \
		-m "not wide and not one_spark" $(ON_SPARK4)

# All tests that `make test` leaves out, or part PART of PARTS of them; properties with more examples, and
# other processes that act at each request.
rest: export RAY_COMMITTER_TEST_EXAMPLES ?= 250
rest: export RAY_COMMITTER_TEST_STRIDE ?= 1
rest: setup spark4 npm classes
	.venv/bin/python -m pytest $(PYTEST) --junitxml=build/junit/rest-spark3-$(PART).xml $(SPLIT) \
		-m "(wide or hypothesis or moments) and not hadoop" --ignore tests/integration/hadoop
	.venv-spark4/bin/python -m pytest $(PYTEST) --junitxml=build/junit/rest-spark4-$(PART).xml $(SPLIT) \
		-m "wide or one_spark" $(ON_SPARK4)

# The tests of commits where the kernel has no flags for renames, so that each is a link and an unlink.
links: setup
	.venv/bin/python -m tests.forbidden_calls .venv/bin/python -m pytest $(PYTEST) -m "not (wide or server or ray or \
		spark or hadoop)" -k "not needs_no_link" tests/commits tests/stages tests/jobs tests/job_files \
		tests/places tests/tables tests/table_jobs tests/work tests/cli

test-all: test rest links

# Runs the test (or any arguments of pytest) in T N times, while other work uses all cores.
flaky: setup classes
	.venv/bin/python -m tests.flaky $(N) $(T)

mutants: setup
	.venv/bin/python -m tests.mutants $(T)

# Benchmarks of 15 minutes together, and all that need no argument. `benchmarks/compare.py` then names what has moved by
# more than noise since the committed results. Let nothing else run meanwhile.
BENCH = start_time rename_cpu straggler rate_limit throttling simulator
BENCH_ALL = $(BENCH) scaling ray_calls peers growth faults estimates coordinator ray_speed one_file_tasks \
	ten_million_entries http_renames adls_renames hdfs_renames s3_commits s3_ten_million table_commits exports ray_data

bench: setup
	@for name in $(BENCH); do .venv/bin/python benchmarks/$$name.py || true; done
	.venv/bin/python benchmarks/compare.py

bench-all: setup
	@for name in $(BENCH_ALL); do .venv/bin/python benchmarks/$$name.py || true; done
	.venv/bin/python benchmarks/compare.py

check: setup docs
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

# Builds the site in build/site and fetches nothing. A warning is an error, except with --quiet.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

# The wheel, with the jar, and the source archive, which needs no compiler.
dist: java .venv-dist/ready
	rm -rf dist
	.venv-dist/bin/python -m hatchling build

setup: java .venv/ready

spark4: java .venv-spark4/ready

# Parses Spark's classes once for all JVMs of the tests.
classes: setup spark4
	@.venv/bin/python -m tests.servers.class_archive
	@.venv-spark4/bin/python -m tests.servers.class_archive

java:
	@.ci/require-java

npm:
	@.ci/require-npm

.venv/ready: pyproject.toml $(CONSTRAINTS) hatch_build.py $(shell find ray_committer/spark/java -name '*.java')
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --constraint $(CONSTRAINTS) --editable '.[raydp,arrow,gcs,adls,s3,hdfs,delta,glue,hms,demo,test,servers,check,docs]'
	touch $@

.venv-spark4/ready: pyproject.toml constraints-spark4.txt hatch_build.py $(shell find ray_committer/spark/java -name '*.java')
	$(PYTHON) -m venv .venv-spark4
	.venv-spark4/bin/pip install --quiet --constraint constraints-spark4.txt --editable '.[pyspark,arrow,hdfs,s3,delta,demo,test]'
	touch $@

.venv-dist/ready: $(CONSTRAINTS)
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install --quiet --constraint $(CONSTRAINTS) hatchling
	touch $@

clean:
	rm -rf .venv .venv-spark4 .venv-dist .cache build dist
