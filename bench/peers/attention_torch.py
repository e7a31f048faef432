#!/usr/bin/env python3
"""Times cuDNN and FlashAttention-2 on the rows of an attention suite, through PyTorch's scaled_dot_product_attention,
interleaved with `kiln bench` on the same rows, and writes one results file with both.

usage: bench/peers/attention_torch.py --suite FILE --out FILE [--kiln PROGRAM] [--gpu N] [--rounds 3] [--group 8]
                                      [--repeats 5] [--template NAME] [--commit TEXT]

The rows are taken in groups. For each group `--rounds` times in turn: `kiln bench` times Kiln, then a process of its own
times the peers `cudnn` and `fa2` (Kiln calls a GPU that another process holds disturbed, so PyTorch is not kept in this
one). Each figure of the results is the median over the rounds, its spread the range over the rounds divided by the median.
As in `kiln bench`: random normal data, buffers rotated so that together they hold 3 times the L2 (cold), batches of at
least 2 ms in a CUDA graph, timed by events; the median of `--repeats` batches, the two peers in turn.

A peer that refuses a problem, gives a wrong result or is missing is noted in the row as a peer failure. Needs PyTorch with
CUDA for the peers.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11; pip brings the same code
    from pip._vendor import tomli as tomllib

PEERS = ("cudnn", "fa2")
BATCH_US = 2000
MOST_LAUNCHES = 4096


# ---- One group of problems: a process with PyTorch ----


def fields_of(text):
    """A problem as `kiln bench` writes it, "B=4,H=16,S_q=4096,…", with the op's defaults for what these peers need."""
    fields = {name.lower(): value for name, value in (piece.split("=") for piece in text.split(","))}
    unknown = set(fields) - {"b", "h", "h_kv", "s_q", "s_k", "d", "d_v", "dtype", "mask"}
    if unknown:
        raise ValueError("the peers know no " + ", ".join(sorted(unknown)))
    number = lambda name, default: int(fields.get(name, default))
    heads, queries, d = number("h", 0), number("s_q", 0), number("d", 0)
    return {
        "batch": number("b", 1), "heads": heads, "kv_heads": number("h_kv", heads), "queries": queries,
        "keys": number("s_k", queries), "d": d, "d_v": number("d_v", d), "dtype": fields.get("dtype", "bf16"),
        "causal": {"none": False, "causal": True}[fields.get("mask", "none")],
    }


class Problem:
    """Sets of random operands, heads after tokens in memory as Kiln's default, and a launch for each peer."""

    def __init__(self, torch, fields):
        self.torch = torch
        self.causal = fields["causal"]
        if self.causal and fields["queries"] != fields["keys"]:
            raise ValueError("PyTorch aligns a causal mask to the top left, so only squares are the same problem")
        self.grouped = fields["heads"] != fields["kv_heads"]
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[fields["dtype"]]

        def tensor(tokens, heads, d):
            values = torch.randn(fields["batch"], tokens, heads, d, device="cuda", dtype=dtype)
            return values.transpose(1, 2)  # [batch, heads, tokens, d], as a view

        def operands():
            return (tensor(fields["queries"], fields["heads"], fields["d"]),
                    tensor(fields["keys"], fields["kv_heads"], fields["d"]),
                    tensor(fields["keys"], fields["kv_heads"], fields["d_v"]))

        first = operands()
        result_bytes = 2 * fields["batch"] * fields["queries"] * fields["heads"] * fields["d_v"]
        set_bytes = sum(x.numel() * x.element_size() for x in first) + result_bytes
        l2_bytes = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)
        count = max(2, -(-3 * l2_bytes // set_bytes))
        self.sets = [first] + [operands() for _ in range(count - 1)]

    def launch(self, peer, index):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}[peer]
        q, k, v = self.sets[index % len(self.sets)]
        options = {"enable_gqa": True} if self.grouped else {}
        with sdpa_kernel(backend):
            return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, **options)

    def check(self, peer):
        """Against fp32 on the last queries of a head: a peer that computes something else must not be timed."""
        torch = self.torch
        q, k, v = self.sets[0]
        rows = min(64, q.shape[2])
        got = self.launch(peer, 0)[0, -1, -rows:].float()
        logits = q[0, -1, -rows:].float() @ k[0, -1].float().T / q.shape[3] ** 0.5
        if self.causal:
            keys = k.shape[2]
            hidden = torch.ones(rows, keys, dtype=torch.bool, device="cuda").triu(keys - rows + 1)
            logits.masked_fill_(hidden, float("-inf"))
        want = logits.softmax(-1) @ v[0, -1].float()
        error = ((got - want).norm() / want.norm()).item()
        if not error <= 1e-2:
            raise RuntimeError(f"its relative error is {error:.3g}")


class Batch:
    """Launches of one peer over all sets, captured in a CUDA graph that takes at least BATCH_US."""

    def __init__(self, torch, problem, peer):
        self.torch, self.problem, self.peer = torch, problem, peer
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):  # libraries prepare themselves at their first calls, which a capture forbids
            for i in range(3):
                problem.launch(peer, i)
        torch.cuda.synchronize()
        sets = len(problem.sets)
        self.capture(sets)
        self.run()
        us = self.run()
        turns = max(1, -(-min(MOST_LAUNCHES, int(BATCH_US / us) + 1) // sets))
        if turns > 1:
            self.capture(turns * sets)
            self.run()

    def capture(self, launches):
        self.graph = self.torch.cuda.CUDAGraph()
        results = [None] * len(self.problem.sets)  # as many as there are sets, so that results rotate too
        with self.torch.cuda.graph(self.graph):
            for i in range(launches):
                results[i % len(results)] = self.problem.launch(self.peer, i)
        self.launches = launches
        self.results = results

    def run(self):
        """Microseconds of one launch."""
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / self.launches


def time_problem(torch, text, repeats):
    result = {"us": {}, "failures": {}}
    try:
        problem = Problem(torch, fields_of(text))
    except Exception as error:
        return {"us": {}, "failures": {peer: str(error) for peer in PEERS}}
    batches = {}
    for peer in PEERS:
        try:
            with torch.no_grad():
                problem.check(peer)
                batches[peer] = Batch(torch, problem, peer)
        except Exception as error:  # whatever a library says
            result["failures"][peer] = str(error).splitlines()[0] if str(error) else type(error).__name__
    times = {peer: [] for peer in batches}
    for _ in range(repeats):
        for peer, batch in batches.items():
            times[peer].append(batch.run())
    result["us"] = {peer: statistics.median(values) for peer, values in times.items()}
    return result


def child(repeats):
    """Reads problems, one a line, and writes what it found of each as JSON."""
    import torch

    torch.manual_seed(1)
    found = []
    for text in sys.stdin.read().split():
        found.append(time_problem(torch, text, repeats))
        torch.cuda.empty_cache()
    versions = f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
    print(json.dumps({"versions": versions, "problems": found}))


# ---- The whole: kiln and the peers in turn ----


def kiln_rows(options, suite, problems, folder):
    """`kiln bench` on some problems of the suite: its results file."""
    def toml(value):
        return json.dumps(value) if isinstance(value, str) else str(value)

    def table(fields):
        return "{ " + ", ".join(f"{name} = {toml(value)}" for name, value in fields.items()) + " }"

    part = folder / "part.toml"
    part.write_text(
        f"op = {toml(suite['op'])}\ndefaults = {table(suite.get('defaults', {}))}\nproblems = [\n"
        + "".join(f"  {table(p) if isinstance(p, dict) else toml(p)},\n" for p in problems) + "]\n")
    out = folder / "part.json"
    out.unlink(missing_ok=True)
    command = [options.kiln, "bench", "--suite", part, "--out", out, "--commit", options.commit, "--rounds", "5"]
    if options.gpu is not None:
        command += ["--gpu", options.gpu]
    if options.template is not None:
        command += ["--template", options.template]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if not out.exists():
        sys.exit(f"kiln bench failed with exit code {done.returncode}")
    results = json.loads(out.read_text())
    if len(results["rows"]) != len(problems):
        sys.exit(f"kiln bench ended after {len(results['rows'])} of {len(problems)} problems")
    return results


def peer_rows(options, texts):
    environment = dict(os.environ)
    if options.gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = options.gpu
    done = subprocess.run([sys.executable, __file__, "--child", "--repeats", str(options.repeats)], input="\n".join(texts),
                          capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        print(f"the peers could not be timed: {reason}", file=sys.stderr)
        failures = {peer: reason for peer in PEERS}
        return {"versions": None, "problems": [{"us": {}, "failures": failures} for _ in texts]}
    return json.loads(done.stdout.splitlines()[-1])


def median_and_spread(values):
    median = statistics.median(values)
    return median, (max(values) - min(values)) / median


def merge(rounds):
    """One row from its rounds, each (row of kiln bench, what was found of the peers)."""
    rows = [row for row, _ in rounds]
    merged = dict(rows[-1])
    timed = [row["kiln_us"] for row in rows if row.get("kiln_us")]
    if len(timed) == len(rows):
        merged["kiln_us"], merged["kiln_spread"] = median_and_spread(timed)
        merged["error"] = max(row["error"] for row in rows)
    else:
        merged = dict(next(row for row in rows if not row.get("kiln_us")))
    if any(row.get("foreign_work") for row in rows):
        merged["foreign_work"] = True
    peers, failures = dict(merged.get("peers", {})), dict(merged.get("peer_failures", {}))
    for peer in PEERS:
        values = [found["us"][peer] for _, found in rounds if peer in found["us"]]
        if len(values) == len(rounds):
            us, spread = median_and_spread(values)
            peers[peer] = {"us": us, "spread": spread}
        else:
            failures[peer] = next(found["failures"].get(peer, "no time") for _, found in rounds if peer not in found["us"])
    merged["peers"] = peers
    if failures:
        merged["peer_failures"] = failures
    return merged


def print_row(row):
    us = row.get("kiln_us")
    ratios = [f"{peer} {row['peers'][peer]['us'] / us:.2f}" for peer in PEERS if us and peer in row["peers"]]
    rate = f"{us:.1f} us, {row['flops'] / us / 1e6:.0f} TFLOP/s" if us else "failed"
    failures = [f"{peer}: {why}" for peer, why in row.get("peer_failures", {}).items()]
    if row.get("foreign_work"):
        failures.append("other processes computed on this GPU: not to be recorded")
    print(f"{row['problem']}: {rate}; " + ", ".join(ratios + failures), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--kiln", default="kiln", help="the program; default: on PATH")
    parser.add_argument("--gpu", help="index")
    parser.add_argument("--rounds", type=int, default=3, help="times that kiln and the peers take turns")
    parser.add_argument("--group", type=int, default=8, help="rows timed in one turn")
    parser.add_argument("--repeats", type=int, default=5, help="batches of each peer in one turn")
    parser.add_argument("--template", help="of Kiln only this template's configurations; tune with the same beforehand")
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.repeats)
    if options.suite is None or options.out is None:
        parser.error("--suite and --out are needed")
    if min(options.rounds, options.group, options.repeats) < 1:
        parser.error("--rounds, --group and --repeats must be at least 1")

    suite = tomllib.loads(options.suite.read_text())
    if suite["op"] != "attention":
        sys.exit(f"{options.suite}: its op is {suite['op']}; these peers compute attention only")
    results, rows, digests, versions = None, [], {}, None
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(suite["problems"]), options.group):
            problems = suite["problems"][start:start + options.group]
            rounds = []
            for _ in range(options.rounds):
                results = kiln_rows(options, suite, problems, pathlib.Path(folder))
                digests.update(results["template_digest"])
                found = peer_rows(options, [row["problem"] for row in results["rows"]])
                versions = versions or found["versions"]
                rounds.append(list(zip(results["rows"], found["problems"])))
            for turns in zip(*rounds):
                rows.append(merge(turns))
                print_row(rows[-1])
    results.update(
        suite=suite.get("name", options.suite.stem), rows=rows, template_digest=digests,
        command="bench/peers/attention_torch.py" + (f" --template {options.template}" if options.template else ""),
        protocol=f"{options.rounds} rounds of kiln bench (5 batches) and peers ({options.repeats} batches) in turn, batches "
        "of at least 2 ms in CUDA graphs, random normal data, median over the rounds and their range over the median")
    if versions:
        results["peer_versions"] = versions
    partial = options.out.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    partial.rename(options.out)


if __name__ == "__main__":
    main()
