#!/usr/bin/env python3
"""Prints what is inside the program, as a list in the format CycloneDX 1.5: each crate that is linked or that builds one,
with version, licence and the sum of Cargo.lock. Takes cargo's options, such as --features hardware."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOCKED = re.compile(r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"')


def crates(options):
    """Returns the licences of all crates, by name and version."""
    command = ["cargo", "tree", "--locked", "--edges=normal,build", "--prefix=none", "--format={p}|{l}", *options]
    tree = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in filter(None, tree.splitlines()):
        # Such as `adler2 v2.0.1|0BSD OR MIT`; what was shown before ends with (*).
        crate, licence = line.removesuffix(" (*)").split("|")
        name, version = crate.split()[:2]
        found[name, version.removeprefix("v")] = licence
    return found


def component(name, version, licence, sums):
    purl = f"pkg:cargo/{name}@{version}"
    made = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence:
        made["licenses"] = [{"expression": licence.replace("/", " OR ")}]
    if (name, version) in sums:
        made["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
    return made


def main():
    lock = (ROOT / "Cargo.lock").read_text()
    sums = {(name, version): found for name, version, found in LOCKED.findall(lock)}
    found = crates(sys.argv[1:])
    components = [component(name, version, licence, sums) for (name, version), licence in sorted(found.items())]
    own = next(it for it in components if it["name"] == "peacrab")
    components.remove(own)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own | {"type": "application"}},
        "components": components,
    }
    print(json.dumps(bill, indent=2))


main()
