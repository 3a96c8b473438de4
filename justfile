# Short names for frequent work. `just` lists them; CONTRIBUTING.md describes each.

_list:
    @just --list --unsorted

# The checks of every change: format, lints, reduced builds, all tests
check:
    .ci/run

# Longer checks: more kills, more random cases, all optional parts, dependencies, benches
nightly:
    .ci/nightly

# The costs of the idle program, and its figures under load
bench:
    cargo bench --bench footprint
    cargo bench --bench load -- quick

# The program as it ships: target/dist/peacrab
dist:
    cargo build --profile dist --locked --bin peacrab

# Static binaries for boards and servers: target/static
static *targets:
    packaging/static-binaries {{targets}}

# README and docs/: links, configs, commands, quoted messages, lengths
docs:
    cargo test --test it documents

# A real, small model at four context windows, in the terminal and on Telegram's stand-in
model:
    cargo build --locked --release
    .ci/model

# The picture of the README; needs `pip install pyte`
recording:
    cargo build --locked --release
    docs/recording/record.py
