# SPDX-License-Identifier: MIT
# Shortcuts for those who build weft daily; all real building is meson's. `scripts/setup --dev` installs the tools.
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: all test check mutate bench soak install clean

all:
	scripts/build

test:
	scripts/test

# Lint, sanitizers, fuzz smoke, coverage, symbols. make check CHECKS="lint symbols" runs only these.
check:
	scripts/setup --dev
	scripts/check $(CHECKS)

# Do the tests notice small changes in the library? Takes some minutes.
mutate:
	scripts/setup --dev
	scripts/mutate

# Processes that talk, are killed and started again, for some minutes a provider.
soak:
	scripts/check-soak

# Time first, then instructions. bench/run --help tells how to measure something else.
bench:
	scripts/build build-bench --buildtype=release -Db_ndebug=if-release -Dbench=true -Dtests=false
	bench/run --program build-bench/bench/bench_l1
	bench/run --program build-bench/bench/bench_l1 --instructions

install:
	scripts/build build-install --prefix="$(PREFIX)" --buildtype=release -Db_ndebug=if-release -Dexamples=false \
		-Dtests=false
	DESTDIR="$(DESTDIR)" meson install -C build-install --no-rebuild

clean:
	rm -rf build build-*
