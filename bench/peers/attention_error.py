#!/usr/bin/env python3
"""Checks that Kiln's attention is as exact as PyTorch's: on random problems its error is at most 1.5 times that of
scaled_dot_product_attention on the same bf16 or f16 inputs, both against attention computed in fp64 from those inputs.

usage: bench/peers/attention_error.py --out FILE [--library FILE] [--problems 48] [--seed 1] [--commit TEXT]

Problems are drawn from what both know: bf16 and f16, head dimensions 64 to 256 and 192 with 128, lengths up to 2047 that
are often unequal, grouped heads, no mask, a causal one or a window, inputs of three magnitudes. PyTorch knows no soft cap
and no sequences packed along the token axis, so these are left out. Kiln aligns masks to the bottom right: where that
differs from PyTorch's own causal mask, PyTorch gets the aligned one.

PyTorch computes with FlashAttention-2 where it accepts the problem, else with cuDNN, else with its memory-efficient
kernel; the row says which, and why not those before. A backend whose result is wrong does not count as accepting, since
anything would compare well with it. Kiln is called through its C interface, in the configuration that it chooses itself
with an empty database.

Fails where a relative Frobenius error of Kiln's is more than 1.5 times PyTorch's, where fewer than three quarters of the
problems could be compared, and where a query that sees no key gives anything but zeros; such queries count in no error.
"""
import argparse
import contextlib
import ctypes
import dataclasses
import datetime
import itertools
import json
import math
import pathlib
import random
import statistics
import sys
import warnings

BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")  # of torch.nn.attention, the first choice first
LIMIT = 1.5
LEAST_COMPARED = 0.75
WRONG = 1e-2  # the relative error of what cannot be the same attention
DEVICE = "cuda"


# ---- Problems ----


@dataclasses.dataclass(frozen=True)
class Problem:
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    d: int
    d_v: int
    dtype: str
    mask: str
    window: int  # keys back, for the mask "window"
    magnitude: float  # standard deviation of the inputs

    @property
    def group(self):
        return self.heads // self.kv_heads

    @property
    def blind(self):
        """Queries at the front that see no key."""
        return 0 if self.mask == "none" else max(0, self.queries - self.keys)

    def text(self):
        """As `kiln bench` writes it; what is left out are the op's defaults."""
        fields = {"B": self.batch, "H": self.heads, "H_kv": self.kv_heads, "S_q": self.queries, "S_k": self.keys,
                  "D": self.d, "D_v": self.d_v, "dtype": self.dtype, "mask": self.mask}
        if self.mask == "window":
            fields["W"] = self.window
        return ",".join(f"{name}={value}" for name, value in fields.items())


def extent(draw):
    """No multiple of 16, so of no tile either."""
    return 16 * (0 if draw.random() < 1 / 6 else draw.randrange(128)) + draw.randint(1, 15)


def draw_problem(draw, d, d_v, dtype, mask):
    while True:
        kv_heads = draw.randint(1, 3)
        queries = extent(draw)
        problem = Problem(
            batch=draw.randint(1, 4), heads=kv_heads * draw.choice((1, 2, 4, 8)), kv_heads=kv_heads, queries=queries,
            keys=queries if draw.random() < 1 / 3 else extent(draw), d=d, d_v=d_v, dtype=dtype, mask=mask,
            window=draw.randrange(2 * queries) if mask == "window" else 0, magnitude=draw.choice((0.5, 1.0, 3.0)))
        # Of a few rows either kernel may be the luckier one: two that differed only in how they take the keys in blocks,
        # emulated, came out 1.47 apart on one row, 1.07 on 16.
        if problem.batch * problem.heads * (problem.queries - problem.blind) >= 16:
            return problem


def draw_problems(count, seed):
    """Every pair of head dimensions meets every mask in both types, before any of them meet again."""
    draw = random.Random(seed)
    heads = ((64, 64), (96, 96), (128, 128), (192, 192), (256, 256), (192, 128))
    kinds = list(itertools.product(heads, ("bf16", "f16"), ("none", "causal", "window")))
    draw.shuffle(kinds)
    chosen = itertools.islice(itertools.cycle(kinds), count)
    return [draw_problem(draw, *dims, dtype, mask) for dims, dtype, mask in chosen]


# ---- Kiln ----


class KilnError(RuntimeError):
    pass


class Kiln:
    """A runtime of the C interface (kiln/c_api.h) for PyTorch's current context, which must exist by now. Lives as long as
    the process."""

    SIGNATURES = {
        "kiln_status_name": (ctypes.c_char_p, [ctypes.c_int]),
        "kiln_last_error": (ctypes.c_char_p, []),
        "kiln_version": (ctypes.c_char_p, []),
        "kiln_runtime_create": (ctypes.c_int, [ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]),
        "kiln_prepare": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p,
                                        ctypes.POINTER(ctypes.c_void_p)]),
        "kiln_operation_destroy": (None, [ctypes.c_void_p]),
        "kiln_operation_describe": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t,
                                                   ctypes.POINTER(ctypes.c_size_t)]),
        "kiln_launch": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
                                       ctypes.c_size_t, ctypes.POINTER(ctypes.c_double), ctypes.c_size_t,
                                       ctypes.c_void_p]),
    }

    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        for name, (result, arguments) in self.SIGNATURES.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        self.version = self.library.kiln_version().decode()
        self.runtime = ctypes.c_void_p()
        # Memory only: neither what this machine has tuned nor what another run left decides what is looked at.
        self.check(self.library.kiln_runtime_create(-1, b"", ctypes.byref(self.runtime)))

    def check(self, status):
        if status != 0:
            name, message = self.library.kiln_status_name(status), self.library.kiln_last_error()
            raise KilnError(f"{name.decode()}: {message.decode()}")

    @contextlib.contextmanager
    def prepared(self, op, problem):
        operation = ctypes.c_void_p()
        self.check(self.library.kiln_prepare(self.runtime, op.encode(), problem.encode(), ctypes.byref(operation)))
        try:
            yield operation
        finally:
            self.library.kiln_operation_destroy(operation)

    def describe(self, operation):
        text = ctypes.create_string_buffer(1024)
        self.check(self.library.kiln_operation_describe(operation, 0, text, len(text), None))
        return text.value.decode()

    def launch(self, operation, stream, pointers, scalars):
        self.check(self.library.kiln_launch(operation, stream, (ctypes.c_void_p * len(pointers))(*pointers), len(pointers),
                                            (ctypes.c_double * len(scalars))(*scalars), len(scalars), None))


def attend_with_kiln(torch, kiln, problem, q, k, v):
    """O [batch, heads, tokens, d_v], and what ran. The operands are views of the op's default layout, [batch, tokens,
    heads, d]."""
    # NaN, so that an element which is not written shows.
    o = torch.full((problem.batch, problem.queries, problem.heads, problem.d_v), math.nan, device=DEVICE, dtype=q.dtype)
    pointers = [q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), None]  # the last is the log-sum-exp's
    scalars = [1 / math.sqrt(problem.d), 1.0]  # the op's own scale is 1; the cap is not looked at
    with kiln.prepared("attention", problem.text()) as operation:
        kiln.launch(operation, torch.cuda.current_stream().cuda_stream, pointers, scalars)
        torch.cuda.synchronize()  # before the operation goes, and its kernel with it
        return o.transpose(1, 2), kiln.describe(operation)


# ---- PyTorch ----


def random_operands(torch, problem):
    """Heads after tokens in memory, seen as PyTorch wants them: [batch, heads, tokens, d]."""
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[problem.dtype]

    def tensor(tokens, heads, d):
        values = torch.randn(problem.batch, tokens, heads, d, device=DEVICE) * problem.magnitude
        return values.to(dtype).transpose(1, 2)

    return (tensor(problem.queries, problem.heads, problem.d), tensor(problem.keys, problem.kv_heads, problem.d),
            tensor(problem.keys, problem.kv_heads, problem.d_v))


def seen_keys(torch, problem):
    """Which keys each query sees, [queries, keys]: query i stands at key i + S_k - S_q."""
    seen = torch.ones(problem.queries, problem.keys, dtype=torch.bool, device=DEVICE)
    here = problem.keys - problem.queries
    if problem.mask != "none":
        seen = seen.tril(here)
    if problem.mask == "window":
        seen = seen.triu(here - problem.window)
    return seen


def reference(problem, q, k, v, seen):
    """In fp64, NaN for queries that see nothing. One sequence after another, since its logits take 8 bytes each."""
    def of_sequence(q, k, v):
        k, v = (x.double().repeat_interleave(problem.group, dim=0) for x in (k, v))
        logits = q.double() @ k.transpose(1, 2) / math.sqrt(problem.d)
        return logits.masked_fill_(~seen, -math.inf).softmax(-1) @ v

    return [of_sequence(*operands) for operands in zip(q, k, v)]


def attend_with(torch, backend, problem, q, k, v, seen):
    from torch.nn.attention import SDPBackend, bias, sdpa_kernel

    options = {}
    if problem.group > 1 and backend == "EFFICIENT_ATTENTION":  # it knows no groups; these are the same values
        k, v = (x.repeat_interleave(problem.group, dim=1) for x in (k, v))
    elif problem.group > 1:
        options["enable_gqa"] = True
    if problem.mask == "window":
        options["attn_mask"] = seen
    elif problem.mask == "causal" and problem.queries == problem.keys:
        options["is_causal"] = True
    elif problem.mask == "causal":  # FlashAttention takes no mask but this one, which is not stored
        options["attn_mask"] = bias.causal_lower_right(problem.queries, problem.keys)
    with sdpa_kernel(getattr(SDPBackend, backend)):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def refusal(error, warned):
    """Why a backend took no problem. PyTorch's exception says only that none did, its warnings say why of each, also that
    the others are switched off here."""
    lines = [str(warning.message).split(" (Triggered")[0] for warning in warned]
    reasons = [line for line in lines if not line.endswith("because:") and "runtime disabled" not in line]
    return "; ".join(dict.fromkeys(reasons)) or (str(error).splitlines() or [type(error).__name__])[0]


def attend_with_torch(torch, problem, operands, seen, want):
    """The first backend that computes the problem, its errors, and why those before did not."""
    refused = {}
    for backend in BACKENDS:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found = errors(torch, problem, attend_with(torch, backend, problem, *operands, seen), want)
            except RuntimeError as error:
                refused[backend] = refusal(error, warned)
                continue
        if found[0] <= WRONG:  # a NaN is not
            return backend, found, refused
        refused[backend] = f"its relative error is {found[0]:.3g}"
    return None, None, refused


# ---- The comparison ----


def errors(torch, problem, got, want):
    """Relative Frobenius error and largest absolute error, over the queries that see a key."""
    square, norm, largest = 0.0, 0.0, []
    for of_sequence, truth in zip(got, want):
        truth = truth[:, problem.blind:]
        difference = of_sequence[:, problem.blind:].double() - truth
        square += difference.square().sum().item()
        norm += truth.square().sum().item()
        largest.append(difference.abs().max())
    return math.sqrt(square / norm), torch.stack(largest).max().item()  # unlike Python's max, this one keeps a NaN


def compare(torch, kiln, problem):
    """One row. What makes the whole fail is in its "failure"."""
    row = {"problem": problem.text(), "dtype": problem.dtype, "magnitude": problem.magnitude}
    operands = random_operands(torch, problem)
    seen = seen_keys(torch, problem)
    want = reference(problem, *operands, seen)
    backend, peer, refused = attend_with_torch(torch, problem, operands, seen, want)
    if refused:
        row["torch_refused"] = refused
    if backend:
        row.update(torch_backend=backend, torch_error=peer[0], torch_max=peer[1])
    try:
        o, row["config"] = attend_with_kiln(torch, kiln, problem, *operands)
    except KilnError as error:
        row["failure"] = str(error)
        return row
    error, largest = errors(torch, problem, o, want)
    if not math.isfinite(error) or not math.isfinite(largest):
        row["failure"] = "O holds values that are no finite numbers"
        return row
    row.update(kiln_error=error, kiln_max=largest)
    unclean = (o[:, :, :problem.blind] != 0).sum().item()  # NaN is not 0 either
    if unclean:
        row["failure"] = f"{unclean} elements of queries that see no key are not 0"
    if backend:
        if peer[0] > 0:  # where each query sees one key, both may be exact
            row["ratio"] = error / peer[0]
        if error > LIMIT * peer[0]:
            row["failure"] = f"its error is more than {LIMIT} times PyTorch's"
    elif not error <= WRONG:
        row["failure"] = f"its relative error is {error:.3g}"
    return row


def print_row(row):
    kiln = f"kiln {row['kiln_error']:.2e} (max {row['kiln_max']:.1e})" if "kiln_error" in row else "kiln –"
    peer = (f"{row['torch_backend']} {row['torch_error']:.2e} (max {row['torch_max']:.1e})" if "torch_backend" in row
            else "not compared: " + "; ".join(f"{name}: {why}" for name, why in row["torch_refused"].items()))
    ratio = f", ratio {row['ratio']:.3f}" if "ratio" in row else ""
    failure = f"; FAILED: {row['failure']}" if "failure" in row else ""
    print(f"{row['problem']} × {row['magnitude']:g}: {kiln}, {peer}{ratio}{failure}", flush=True)


def summarize(rows):
    compared = [row for row in rows if "kiln_error" in row and "torch_error" in row]
    ratios = [row["ratio"] for row in compared if "ratio" in row]
    failures = sum("failure" in row for row in rows)
    return {
        "problems": len(rows), "compared": len(compared), "failures": failures, "limit": LIMIT,
        "worst_ratio": max(ratios, default=None), "mean_ratio": statistics.fmean(ratios) if ratios else None,
        "passed": failures == 0 and len(compared) >= LEAST_COMPARED * len(rows),
    }


def print_summary(summary):
    worst, mean = summary["worst_ratio"], summary["mean_ratio"]
    ratios = "" if worst is None else f"; Kiln's error at most {worst:.3f} times PyTorch's, {mean:.3f} in the mean"
    verdict = "passed" if summary["passed"] else "FAILED"
    print(f"{verdict}: {summary['compared']} of {summary['problems']} problems compared, {summary['failures']} failed"
          f"{ratios} (limit {LIMIT}; {LEAST_COMPARED:.0%} must be compared)")


def default_library():
    """A portable folder has lib/ beside bench/."""
    beside = pathlib.Path(__file__).resolve().parents[2] / "lib/libkiln.so.0"
    return str(beside) if beside.exists() else "libkiln.so"


def torch_with_cuda():
    try:
        import torch
    except ImportError as error:
        sys.exit(f"attention_error needs PyTorch with CUDA: {error}")
    if not torch.cuda.is_available():
        sys.exit(f"attention_error needs PyTorch with CUDA: PyTorch {torch.__version__} finds no GPU")
    torch.cuda.init()
    torch.zeros(1, device=DEVICE)  # makes the context current, which Kiln is to share
    return torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--library", default=default_library(), help="libkiln.so; default: in ../../lib, else the loader's")
    parser.add_argument("--problems", type=int, default=48, help="how many; 36 have every combination of types and masks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default="unknown")
    options = parser.parse_args()
    if options.problems < 1:
        parser.error("--problems must be at least 1")

    torch = torch_with_cuda()
    try:
        kiln = Kiln(options.library)
    except (OSError, AttributeError, KilnError) as error:  # not there, without the C interface, without a driver
        sys.exit(f"{options.library}: {error}")
    torch.manual_seed(options.seed)
    rows = []
    with torch.no_grad():
        for problem in draw_problems(options.problems, options.seed):
            rows.append(compare(torch, kiln, problem))
            print_row(rows[-1])

    summary = summarize(rows)
    results = {
        "suite": "attention_error", "commit": options.commit, "gpu": torch.cuda.get_device_name(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "kiln": kiln.version,
        "peer_versions": f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "command": f"bench/peers/attention_error.py --problems {options.problems} --seed {options.seed}",
        "protocol": "random normal data rounded to the problem's type; errors of O, in that type, against attention in fp64 "
        "from the rounded data: relative Frobenius error, whose ratio is judged, and largest absolute error, both over the "
        f"queries that see a key; PyTorch's backend is the first of {', '.join(BACKENDS)} that computes it",
        "rows": rows, "summary": summary,
    }
    partial = options.out.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")
    partial.rename(options.out)
    print_summary(summary)
    return 0 if summary["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
