#!/usr/bin/env python3
"""Writes src/provider/prices.txt, and the examples of its test, from the data of the package `genai-prices`.

    python3 -m venv /tmp/prices && /tmp/prices/bin/pip install --upgrade genai-prices
    /tmp/prices/bin/python packaging/prices/update.py

The package carries its data, so that no network is needed once it is installed. The format is
described at the top of src/provider/prices.rs.
"""

import datetime
import importlib.metadata
import pathlib
import re

from genai_prices import Usage, calc_price
from genai_prices.data import providers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/provider/prices.txt"
EXAMPLES = ROOT / "tests/it/prices/examples.txt"

# The domains of the services whose chat models are listed. The order is that of a search by the
# model's name alone: the makers of models come before services that serve the models of others.
SERVICES = {
    "anthropic": "anthropic.com",
    "openai": "openai.com",
    "google": "googleapis.com",
    "mistral": "mistral.ai",
    "deepseek": "deepseek.com",
    "x-ai": "x.ai",
    "moonshotai": "moonshot.ai",
    "cohere": "cohere.com",
    "minimax": "minimax.io",
    "zai": "z.ai",
    "perplexity": "perplexity.ai",
    "groq": "groq.com",
    "cerebras": "cerebras.ai",
    "fireworks": "fireworks.ai",
    "together": "together.xyz",
    "openrouter": "openrouter.ai",
}

NOW = datetime.datetime.now(datetime.timezone.utc)

# Prompts of the examples: short, in the cache in part, written to the cache in part, long.
SAMPLES = [(1_000, 0, 0, 100), (20_000, 15_000, 0, 500), (20_000, 5_000, 10_000, 500), (400_000, 0, 0, 1_000)]


def patterns(clause):
    """The patterns of a clause: `*` stands for anything, `#` for a digit."""
    kind = type(clause).__name__
    match kind:
        case "ClauseEquals":
            return [clause.equals]
        case "ClauseStartsWith":
            return [clause.starts_with + "*"]
        case "ClauseEndsWith":
            return ["*" + clause.ends_with]
        case "ClauseContains":
            return ["*" + clause.contains + "*"]
        case "ClauseOr":
            return [pattern for it in clause.or_ for pattern in patterns(it)]
        case "ClauseAnd":
            # The other half leaves out models that speak, which are no chat models.
            return [pattern for it in clause.and_ for pattern in patterns(it)]
        case "ClauseRegex":
            return of_regex(clause.regex)
    raise ValueError(f"unknown clause {kind}")


def of_regex(regex):
    if regex.startswith("^(?!"):
        return []
    end = "" if regex.endswith("$") else "*"
    text = regex.removeprefix("^").removesuffix("$").replace("\\.", ".")
    text = re.sub(r"\\d\{(\d)\}", lambda it: "#" * int(it[1]), text).replace("\\d", "#")
    texts = [text.replace("[-@]", sign) for sign in "-@"] if "[-@]" in text else [text]
    if any(re.search(r"[\\()\[\]{}^$+?|]", it) for it in texts):
        raise ValueError(f"cannot write {regex} as a pattern")
    return [it + end for it in texts]


def figures(prices, start=None):
    """Dollars for a million tokens: input, cached, cache write, output."""
    def of(name):
        price = getattr(prices, name, None)
        if price is None or not hasattr(price, "tiers"):
            return price
        tiers = [tier.price for tier in price.tiers if start is not None and tier.start <= start]
        return tiers[-1] if tiers else price.base

    figures = [of("input_mtok"), of("cache_read_mtok"), of("cache_write_mtok"), of("output_mtok")]
    if figures[0] is None or figures[3] is None:
        return None
    figures[1] = figures[0] if figures[1] is None else figures[1]
    figures[2] = figures[0] if figures[2] is None else figures[2]
    return " ".join(format(it.normalize(), "f") for it in figures)


def starts(prices):
    names = ["input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok"]
    tiers = [getattr(getattr(prices, name, None), "tiers", []) for name in names]
    return sorted({tier.start for it in tiers for tier in it})


def line(model):
    prices = model.get_prices(NOW)
    usual = figures(prices)
    # A price for each request has no place in the table.
    if usual is None or getattr(prices, "requests_kcount", None) is not None:
        return None
    text = " ".join(it.lower() for it in dict.fromkeys(patterns(model.match)) if " " not in it)
    if not text:
        return None
    # A second threshold is far beyond what a conversation has.
    return f"{text}\t{usual}" + "".join(f"\t{start} {figures(prices, start)}" for start in starts(prices)[:1])


def examples(service, model):
    """What the package itself computes for a few requests."""
    for prompt, cached, written, output in SAMPLES:
        usage = Usage(
            input_tokens=prompt, cache_read_tokens=cached, cache_write_tokens=written, output_tokens=output
        )
        try:
            price = calc_price(usage, model.id, provider_id=service, genai_request_timestamp=NOW)
        except (LookupError, ValueError):
            return
        if price.model.id == model.id:
            yield f"{SERVICES[service]} {model.id} {prompt} {cached} {written} {output} {price.total_price:f}"


def main():
    version = importlib.metadata.version("genai-prices")
    table = [f"# genai-prices {version}, {NOW:%Y-%m-%d}; made by packaging/prices/update.py"]
    shown = ["# As genai-prices computes them: service, model, input, cached, cache write, output, dollars"]
    by_id = {provider.id: provider for provider in providers}
    for service, domain in SERVICES.items():
        table.append(f"@{domain}")
        listed = [(line(model), model) for model in by_id[service].models]
        table += [text for text, _ in listed if text is not None]
        sample = [model for text, model in listed if text is not None and "." not in model.id][:6]
        sample += [model for text, model in listed if text is not None and text.count("\t") > 1][:3]
        shown += [text for model in sample for text in examples(service, model)]
    TABLE.write_text("\n".join(table) + "\n")
    EXAMPLES.parent.mkdir(exist_ok=True)
    EXAMPLES.write_text("\n".join(shown) + "\n")


main()
