// A small op, manifests over it and a device, for tests of what stands between a manifest and a launch. Pure functions;
// thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cuda/device.h"
#include "kernel/template.h"

namespace kiln {

// y[M,N] from x[M,N], with everything an op can have.
inline constexpr const char* kMixOp = R"toml(
[op]
name = "mix"
summary = "for tests"
[op.choices]
layout = { values = ["row", "col"], default = "row" }
[op.dims]
M = { min = 1 }
N = { min = 0 }
ld = { default = "layout_is_row ? N : M", kind = "stride" }
[op.dtypes]
x = { values = ["bf16", "f16", "f32"] }
y = { values = ["bf16", "f32"], default = "=x", default_map = { f16 = "f32" } }
[op.operands.x]
role = "in"
dtype = "x"
elements = "M * N"
[op.operands.y]
role = "out"
dtype = "y"
elements = "N == 0 ? 0 : (layout_is_row ? M : N) * ld"
[op.scalars]
alpha = { type = "f32", default = 1.5 }
count = { type = "i64", default = 3 }
[op.require]
"ld >= (layout_is_row ? N : M)" = "the leading dimension must cover a row"
[op.cost]
flops = "2 * M * N"
bytes = "M * N * (sizeof_x + sizeof_y)"
[op.check]
dtype = "x"
reference = "mix_reference"
tolerance = { bf16 = 5e-3, f16 = 5e-3, f32 = 1e-5 }
)toml";

// A manifest that is sound as it stands, for tests to change.
struct ManifestDraft {
  std::string name = "mix_fast";
  std::string source = "mix.cuh";
  std::string arch = R"(["sm_75+"])";
  std::string top;  // further lines before the first table
  std::string op = kMixOp;
  std::string params = "T = [32, 64, 128]";
  std::string tables;  // [let], [require], [cost], …
  std::string launch = R"toml(kernel = "kiln::mix"
grid = ["ceil_div(M, T)"]
block = ["T"]
args = [{ pointer = "x" }, { pointer = "y" }])toml";
  std::string fallback = "T = 64";

  std::string text() const {
    return "name = \"" + name + "\"\nsource = \"" + source + "\"\narch = " + arch + "\n" + top + "\n" + op +
           "\n[params]\n" + params + "\n" + tables + "\n[[launch]]\n" + launch + "\n[default]\n" + fallback + "\n";
  }

  // Read and checked, without its sources.
  std::shared_ptr<KernelTemplate> build() const {
    auto t = std::make_shared<KernelTemplate>();
    t->file = name + ".toml";
    t->manifest = read_manifest(text(), t->file);
    t->op = std::make_shared<const OpSpec>(*t->manifest.inline_op);
    check_against_op(t->manifest, *t->op, t->file);
    t->include = source;
    t->digest = LazyDigest({name});
    return t;
  }
};

inline OpSpec mix_op() { return *read_manifest(ManifestDraft{}.text(), "mix.toml").inline_op; }

inline Problem mix_problem(std::int64_t m, std::int64_t n, DType x = bf16) {
  return complete(
      mix_op(),
      Problem{.op = "mix", .dims = {{"M", m}, {"N", n}}, .dtypes = {{"x", x}}, .choices = {}, .alignments = {}});
}

// A GPU of compute capability 9.0 that no one sells.
inline cuda::DeviceInfo sample_device() {
  cuda::DeviceInfo device;
  device.name = "sample";
  device.cc_major = 9;
  device.cc_minor = 0;
  device.sm_count = 100;
  device.memory_bytes = std::int64_t{80} << 30;
  device.l2_bytes = std::int64_t{50} << 20;
  device.smem_per_sm = 233472;
  device.smem_per_block = 232448;
  device.regs_per_sm = 65536;
  device.threads_per_sm = 2048;
  device.memory_clock_mhz = 2000;
  device.bus_width_bits = 4000;
  device.clock_mhz = 1500;
  device.power_limit_watts = 700;
  return device;
}

}  // namespace kiln
