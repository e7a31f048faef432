// The entry point for applications: one Runtime per device. Opens the cache and loads nothing else; kernels are loaded,
// and compiled where no stored cubin serves, when an operation is prepared. Never tunes. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "kiln/attention.h"
#include "kiln/gemm.h"
#include "kiln/operation.h"
#include "kiln/options.h"

namespace kiln {

// A template loaded by Runtime::load. Cheap to copy.
class Kernel {
 public:
  const std::string& name() const;
  const std::string& op() const;

 private:
  friend class Runtime;
  struct Impl;
  explicit Kernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

class Runtime {
 public:
  // For the current context's device, or device 0 where none is current. Throws Error{no_driver}, {no_device}.
  explicit Runtime(const RuntimeOptions& options = options_from_environment());
  Runtime(int device_ordinal, const RuntimeOptions& options);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Finds the best known configuration, loads its kernels (compiling them where needed) and lays out the launch. With
  // m = up_to(…): for every m up to the bound. Throws Error{invalid_argument}, {unsupported}, {compile_failed}.
  GemmOperation prepare(const Gemm& gemm);
  AttentionOperation prepare(const Attention& attention);
  // Any op: dims, dtypes, choices and alignments that are missing take the op's defaults.
  Operation prepare(const Problem& problem);
  // For every value of dim `dynamic_dim` from 0 (or its minimum) up to the one in `problem`. Only a non-stride dim that
  // no template of the op bakes may be dynamic.
  Operation prepare(const Problem& problem, const std::string& dynamic_dim);
  // A given template only.
  Operation prepare(const Kernel& kernel, const Problem& problem);

  // Prepares on first use and remembers: for callers who cannot hold an operation. Throws like prepare and the call.
  void gemm(Stream stream, const Gemm& gemm, const void* a, const void* b, void* d, float alpha = 1.0F,
            float beta = 0.0F);
  void gemm(Stream stream, const Gemm& gemm, const GemmCall& call);
  // One preparation serves every scale, and every softcap above 0.
  void attention(Stream stream, const Attention& attention, const void* q, const void* k, const void* v, void* o,
                 float* lse = nullptr);
  void attention(Stream stream, const Attention& attention, const AttentionCall& call);

  // A problem from text as on the command line, "m=4096,n=4096,k=4096,dtype=bf16", for prepare() to complete. Throws
  // Error{not_found} for an op that there is not, {invalid_argument} naming the piece that cannot be read.
  Problem problem(const std::string& op, std::string_view fields) const;

  // Adds a template of the caller's own: a manifest file with its source beside it. Throws Error{invalid_manifest}.
  Kernel load(const std::filesystem::path& manifest);

  std::string hardware_class() const;
  std::string cache_location() const;
  // Whether this process has loaded NVRTC: false as long as every kernel came from the cache.
  static bool nvrtc_loaded() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
