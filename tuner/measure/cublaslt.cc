#include "tuner/measure/cublaslt.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include <cuda.h>

#include "cuda/memory.h"
#include "kiln/error.h"
#include "tuner/measure/layout.h"

namespace kiln::tuner {
namespace {

namespace fs = std::filesystem;

// What is used of cublasLt.h, which may not be installed where the library is. Values as documented for cuBLASLt 12
// and 13.
using Status = int;
using Handle = struct LtContext*;
using Desc = struct LtMatmulDesc*;
using MatrixLayout = struct LtMatrixLayout*;
using Preference = struct LtMatmulPreference*;

constexpr Status kSuccess = 0;
constexpr int kTypeF32 = 0;    // CUDA_R_32F
constexpr int kTypeF16 = 2;    // CUDA_R_16F
constexpr int kTypeBf16 = 14;  // CUDA_R_16BF
constexpr int kComputeF32 = 68;
constexpr int kComputeTf32 = 77;
constexpr int kOpNone = 0;
constexpr int kOpTranspose = 1;
constexpr int kDescTransA = 3;
constexpr int kDescTransB = 4;
constexpr int kDescEpilogue = 7;
constexpr int kDescBiasPointer = 8;
constexpr int kDescBiasType = 26;
constexpr int kEpilogueDefault = 1;
constexpr int kEpilogueRelu = 2;
constexpr int kEpilogueBias = 4;  // alone or with one of the others
constexpr int kEpilogueGelu = 32;
constexpr int kLayoutBatchCount = 5;
constexpr int kLayoutBatchStride = 6;
constexpr int kPreferenceWorkspaceBytes = 1;
constexpr int kPreferenceAlignment = 5;  // of A; those of B, C and D follow

struct Algo {
  std::uint64_t data[8];
};

struct HeuristicResult {
  Algo algo;
  std::size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

struct Library {
  std::string path;
  Status (*create)(Handle*) = nullptr;
  Status (*destroy)(Handle) = nullptr;
  Status (*desc_create)(Desc*, int compute_type, int scale_type) = nullptr;
  Status (*desc_destroy)(Desc) = nullptr;
  Status (*desc_set)(Desc, int attribute, const void*, std::size_t) = nullptr;
  Status (*layout_create)(MatrixLayout*, int type, std::uint64_t rows, std::uint64_t cols, std::int64_t ld) = nullptr;
  Status (*layout_destroy)(MatrixLayout) = nullptr;
  Status (*layout_set)(MatrixLayout, int attribute, const void*, std::size_t) = nullptr;
  Status (*preference_create)(Preference*) = nullptr;
  Status (*preference_destroy)(Preference) = nullptr;
  Status (*preference_set)(Preference, int attribute, const void*, std::size_t) = nullptr;
  Status (*heuristic)(Handle, Desc, MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, Preference, int wanted,
                      HeuristicResult*, int* found) = nullptr;
  Status (*matmul)(Handle, Desc, const void* alpha, const void* a, MatrixLayout, const void* b, MatrixLayout,
                   const void* beta, const void* c, MatrixLayout, void* d, MatrixLayout, const Algo*, void* workspace,
                   std::size_t workspace_bytes, CUstream) = nullptr;
};

// Folders to look in, beside the loader's own path.
std::vector<fs::path> library_folders() {
  std::vector<fs::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) folders.push_back(fs::path(home) / "lib64");
  }
  std::vector<fs::path> roots;
  const auto list = [](const fs::path& folder, std::string_view prefix, std::vector<fs::path>& into) {
    std::error_code ignored;
    for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
      if (entry->path().filename().string().starts_with(prefix)) into.push_back(entry->path());
    }
  };
  list("/usr/local", "cuda", roots);
  for (const fs::path& root : roots) folders.push_back(root / "lib64");
  std::vector<fs::path> pythons;
  for (const char* lib : {"/usr/local/lib", "/usr/lib", "/opt/venv/lib"}) list(lib, "python3", pythons);
  if (const char* venv = std::getenv("VIRTUAL_ENV")) list(fs::path(venv) / "lib", "python3", pythons);
  for (const fs::path& python : pythons) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      folders.push_back(python / packages / "nvidia" / "cu13" / "lib");
      folders.push_back(python / packages / "nvidia" / "cublas" / "lib");
    }
  }
  return folders;
}

void* open_library(std::string* path) {
  std::string tried;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    std::vector<fs::path> candidates{name};
    for (const fs::path& folder : library_folders()) candidates.push_back(folder / name);
    for (const fs::path& candidate : candidates) {
      std::error_code ignored;
      if (candidate.has_parent_path() && !fs::exists(candidate, ignored)) continue;
      if (void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        *path = candidate;
        return handle;
      }
      tried += "\n  " + candidate.string() + ": " + dlerror();
    }
  }
  throw Error(ErrorCode::not_found,
              "cuBLASLt is not installed where it was looked for (the loader's path, CUDA_HOME, "
              "/usr/local/cuda*, Python's site-packages):" +
                  tried);
}

template <class Function>
void resolve(void* handle, const char* symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, symbol));
  if (*function == nullptr) throw Error(ErrorCode::unsupported, std::string("this cuBLASLt has no ") + symbol);
}

// Loaded once and kept: unloading it with its context alive is not safe.
const Library& library() {
  static std::mutex mutex;
  static std::optional<Library> loaded;
  const std::lock_guard lock(mutex);
  if (loaded) return *loaded;
  Library lt;
  void* handle = open_library(&lt.path);
  resolve(handle, "cublasLtCreate", &lt.create);
  resolve(handle, "cublasLtDestroy", &lt.destroy);
  resolve(handle, "cublasLtMatmulDescCreate", &lt.desc_create);
  resolve(handle, "cublasLtMatmulDescDestroy", &lt.desc_destroy);
  resolve(handle, "cublasLtMatmulDescSetAttribute", &lt.desc_set);
  resolve(handle, "cublasLtMatrixLayoutCreate", &lt.layout_create);
  resolve(handle, "cublasLtMatrixLayoutDestroy", &lt.layout_destroy);
  resolve(handle, "cublasLtMatrixLayoutSetAttribute", &lt.layout_set);
  resolve(handle, "cublasLtMatmulPreferenceCreate", &lt.preference_create);
  resolve(handle, "cublasLtMatmulPreferenceDestroy", &lt.preference_destroy);
  resolve(handle, "cublasLtMatmulPreferenceSetAttribute", &lt.preference_set);
  resolve(handle, "cublasLtMatmulAlgoGetHeuristic", &lt.heuristic);
  resolve(handle, "cublasLtMatmul", &lt.matmul);
  loaded = lt;
  return *loaded;
}

// CUBLAS_STATUS_NOT_SUPPORTED is an answer, anything else a failure.
void check(Status status, const char* call) {
  constexpr Status kNotSupported = 15;
  if (status == kSuccess) return;
  throw Error(status == kNotSupported ? ErrorCode::unsupported : ErrorCode::launch_failed,
              std::string(call) + ": cuBLAS status " + std::to_string(status));
}

struct HandleTraits {
  using Handle = tuner::Handle;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle handle) noexcept { library().destroy(handle); }
};
struct DescTraits {
  using Handle = Desc;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle desc) noexcept { library().desc_destroy(desc); }
};
struct LayoutTraits {
  using Handle = MatrixLayout;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle layout) noexcept { library().layout_destroy(layout); }
};
struct PreferenceTraits {
  using Handle = Preference;
  static constexpr Handle kEmpty = nullptr;
  static void release(Handle preference) noexcept { library().preference_destroy(preference); }
};

int cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      return kTypeF32;
    case DType::f16:
      return kTypeF16;
    case DType::bf16:
      return kTypeBf16;
    default:
      throw Error(ErrorCode::unsupported, "cuBLASLt peer: no type for " + std::string(to_string(dtype)));
  }
}

UniqueHandle<LayoutTraits> make_layout(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                                       std::int64_t batch, std::int64_t stride) {
  const Library& lt = library();
  MatrixLayout raw = nullptr;
  check(
      lt.layout_create(&raw, cuda_type(dtype), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), ld),
      "cublasLtMatrixLayoutCreate");
  UniqueHandle<LayoutTraits> layout(raw);
  if (batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    check(lt.layout_set(raw, kLayoutBatchCount, &count, sizeof(count)), "cublasLtMatrixLayoutSetAttribute");
    check(lt.layout_set(raw, kLayoutBatchStride, &stride, sizeof(stride)), "cublasLtMatrixLayoutSetAttribute");
  }
  return layout;
}

// cuBLASLt's epilogue for the problem. Throws Error{unsupported} where it has none: the same work is then several
// kernels, which would not be a fair peer.
int epilogue_of(const Problem& full) {
  const std::string& activation = full.choices.at("activation");
  const std::string& bias = full.choices.at("bias");
  int epilogue = 0;
  if (activation == "relu") {
    epilogue = kEpilogueRelu;
  } else if (activation == "gelu_tanh") {
    epilogue = kEpilogueGelu;
  } else if (activation != "none") {
    throw Error(ErrorCode::unsupported, "cuBLASLt has no epilogue for activation=" + activation);
  }
  // Dᵀ is what it computes, and its bias runs along the columns of that, which are D's rows.
  if (bias == "m") throw Error(ErrorCode::unsupported, "cuBLASLt has no epilogue for a bias along M of a row-major D");
  if (bias == "n") epilogue |= kEpilogueBias;
  if (full.choices.at("addend") == "residual" && activation != "none") {
    throw Error(ErrorCode::unsupported, "cuBLASLt adds C before the activation only");
  }
  return epilogue == 0 ? kEpilogueDefault : epilogue;
}

// cuBLAS is column-major and D is row-major, so it is asked for Dᵀ[N,M] = Bᵀ[N,K] · Aᵀ[K,M]: B is its first matrix. A
// matrix whose rows are contiguous here is, read by columns, its own transpose.
class CublasLtGemm : public Peer {
 public:
  CublasLtGemm(const OpSpec& op, const Problem& problem, int max_variants);
  std::vector<LaunchFunction> variants() override;

 private:
  UniqueHandle<HandleTraits> handle_;
  UniqueHandle<DescTraits> desc_;
  UniqueHandle<LayoutTraits> first_;
  UniqueHandle<LayoutTraits> second_;
  UniqueHandle<LayoutTraits> addend_;
  UniqueHandle<LayoutTraits> result_;
  bool has_c_ = false;
  bool has_bias_ = false;
  std::vector<HeuristicResult> algorithms_;
  cuda::DeviceBuffer workspace_;
  float alpha_ = 1;
  float beta_ = 0;
};

CublasLtGemm::CublasLtGemm(const OpSpec& op, const Problem& given, int max_variants) {
  const Problem problem = in_full(op, given);
  // cuBLAS recommends 32 MiB on Hopper; less elsewhere does no harm by being more.
  constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
  const Library& lt = library();
  const auto dim = [&](const char* name) { return problem.dims.at(name); };
  const auto dtype = [&](const char* name) { return problem.dtypes.at(name); };
  if (dim("M") == 0 || dim("N") == 0 || dim("K") == 0 || dim("batch") == 0) {
    throw Error(ErrorCode::unsupported, "cuBLASLt peer: an empty product");
  }

  tuner::Handle handle = nullptr;
  check(lt.create(&handle), "cublasLtCreate");
  handle_.reset(handle);
  Desc desc = nullptr;
  const int compute = dtype("a") == DType::tf32 ? kComputeTf32 : kComputeF32;
  check(lt.desc_create(&desc, compute, kTypeF32), "cublasLtMatmulDescCreate");
  desc_.reset(desc);
  const bool a_is_row = problem.choices.at("a_layout") == "row";
  const bool b_is_row = problem.choices.at("b_layout") == "row";
  const std::int32_t first_op = b_is_row ? kOpNone : kOpTranspose;
  const std::int32_t second_op = a_is_row ? kOpNone : kOpTranspose;
  check(lt.desc_set(desc, kDescTransA, &first_op, sizeof(first_op)), "cublasLtMatmulDescSetAttribute");
  check(lt.desc_set(desc, kDescTransB, &second_op, sizeof(second_op)), "cublasLtMatmulDescSetAttribute");

  const std::int32_t epilogue = epilogue_of(problem);
  check(lt.desc_set(desc, kDescEpilogue, &epilogue, sizeof(epilogue)), "cublasLtMatmulDescSetAttribute");
  has_c_ = problem.choices.at("addend") != "d";
  has_bias_ = problem.choices.at("bias") != "none";
  if (has_bias_) {
    // The heuristic asks for its alignment; each call sets its own.
    constexpr std::uint64_t kAligned = 256;
    const std::int32_t type = cuda_type(dtype("c"));
    check(lt.desc_set(desc, kDescBiasType, &type, sizeof(type)), "cublasLtMatmulDescSetAttribute");
    check(lt.desc_set(desc, kDescBiasPointer, &kAligned, sizeof(kAligned)), "cublasLtMatmulDescSetAttribute");
  }

  const std::int64_t batch = dim("batch");
  first_ = b_is_row ? make_layout(dtype("b"), dim("N"), dim("K"), dim("ldb"), batch, dim("stride_b"))
                    : make_layout(dtype("b"), dim("K"), dim("N"), dim("ldb"), batch, dim("stride_b"));
  second_ = a_is_row ? make_layout(dtype("a"), dim("K"), dim("M"), dim("lda"), batch, dim("stride_a"))
                     : make_layout(dtype("a"), dim("M"), dim("K"), dim("lda"), batch, dim("stride_a"));
  result_ = make_layout(dtype("d"), dim("N"), dim("M"), dim("ldd"), batch, dim("stride_d"));
  addend_ = has_c_ ? make_layout(dtype("c"), dim("N"), dim("M"), dim("ldc"), batch, dim("stride_c"))
                   : make_layout(dtype("d"), dim("N"), dim("M"), dim("ldd"), batch, dim("stride_d"));

  Preference raw_preference = nullptr;
  check(lt.preference_create(&raw_preference), "cublasLtMatmulPreferenceCreate");
  const UniqueHandle<PreferenceTraits> preference(raw_preference);
  check(lt.preference_set(raw_preference, kPreferenceWorkspaceBytes, &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
        "cublasLtMatmulPreferenceSetAttribute");
  const std::array operands{"b", "a", has_c_ ? "c" : "d", "d"};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto found = problem.alignments.find(operands[i]);
    const auto bytes = static_cast<std::uint32_t>(found == problem.alignments.end() ? 16 : found->second);
    check(lt.preference_set(raw_preference, kPreferenceAlignment + static_cast<int>(i), &bytes, sizeof(bytes)),
          "cublasLtMatmulPreferenceSetAttribute");
  }

  algorithms_.resize(static_cast<std::size_t>(max_variants));
  int found = 0;
  check(lt.heuristic(handle, desc, first_.get(), second_.get(), addend_.get(), result_.get(), raw_preference,
                     max_variants, algorithms_.data(), &found),
        "cublasLtMatmulAlgoGetHeuristic");
  algorithms_.resize(static_cast<std::size_t>(found));
  std::erase_if(algorithms_, [](const HeuristicResult& result) { return result.state != kSuccess; });
  if (algorithms_.empty()) throw Error(ErrorCode::unsupported, "cuBLASLt has no algorithm for " + problem.canonical());
  workspace_ = cuda::DeviceBuffer(kWorkspaceBytes);
  const std::map<std::string, double> scalars = check_cases(op, problem).front();
  alpha_ = static_cast<float>(scalars.at("alpha"));
  beta_ = static_cast<float>(scalars.at("beta"));
}

std::vector<LaunchFunction> CublasLtGemm::variants() {
  std::vector<LaunchFunction> launches;
  for (const HeuristicResult& algorithm : algorithms_) {
    launches.push_back([this, &algorithm](std::span<const CUdeviceptr> pointers, CUstream stream) {
      const auto* a = reinterpret_cast<const void*>(pointers[0]);
      const auto* b = reinterpret_cast<const void*>(pointers[1]);
      auto* d = reinterpret_cast<void*>(pointers[2]);
      const auto* c = has_c_ ? reinterpret_cast<const void*>(pointers[3]) : d;
      if (has_bias_) {
        check(library().desc_set(desc_.get(), kDescBiasPointer, &pointers[4], sizeof(pointers[4])),
              "cublasLtMatmulDescSetAttribute");
      }
      check(library().matmul(handle_.get(), desc_.get(), &alpha_, b, first_.get(), a, second_.get(), &beta_, c,
                             addend_.get(), d, result_.get(), &algorithm.algo,
                             reinterpret_cast<void*>(workspace_.get()), workspace_.size(), stream),
            "cublasLtMatmul");
    });
  }
  return launches;
}

}  // namespace

std::unique_ptr<Peer> make_cublaslt_gemm(const OpSpec& op, const Problem& problem, int max_variants) {
  return std::make_unique<CublasLtGemm>(op, problem, max_variants);
}

}  // namespace kiln::tuner
