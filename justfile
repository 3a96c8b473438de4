# Short names for what is done often. `just` lists them; each runs what CONTRIBUTING.md describes.

_list:
    @just --list --unsorted

# What must hold for every change: format, lints, reduced builds, all tests
check:
    .ci/run

# What takes longer: more kills, more random cases, all optional parts, dependencies, benches
nightly:
    .ci/nightly

# What the program costs when idle, and what it does under load
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
