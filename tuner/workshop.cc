#include "tuner/workshop.h"

#include <cstdlib>
#include <vector>

#include "base/process.h"
#include "base/text.h"
#include "cuda/driver.h"
#include "jit/nvrtc.h"
#include "kiln/error.h"
#include "kiln/version.h"

namespace kiln::tuner {
namespace {

constexpr char kHelperName[] = "kiln";

}  // namespace

std::filesystem::path find_helper(const std::filesystem::path& wanted) {
  std::error_code ignored;
  if (!wanted.empty()) {
    if (std::filesystem::is_regular_file(wanted, ignored)) return wanted;
    throw Error(ErrorCode::not_found, "the helper program " + wanted.string() + " does not exist");
  }
  const std::filesystem::path self = self_executable();
  const std::filesystem::path folder = self.parent_path();
  std::vector<std::filesystem::path> places{folder / kHelperName, folder.parent_path() / "bin" / kHelperName};
  if (const char* path = std::getenv("PATH")) {
    for (const std::string& entry : split(path, ':')) places.push_back(std::filesystem::path(entry) / kHelperName);
  }
  std::string tried;
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::is_regular_file(place, ignored)) return place;
    tried += "\n  " + place.string();
  }
  throw Error(ErrorCode::not_found, "tuning needs the `kiln` program to run its workers; it is not at" + tried);
}

Versions current_versions() {
  return {.driver = cuda::driver_available() ? cuda::driver().version : 0,
          .nvrtc = jit::Nvrtc::instance().version(),
          .kiln = kVersion};
}

StoreOptions store_options(const RuntimeOptions& options) {
  StoreOptions store;
  store.path = options.cache;
  store.read_only = options.read_only;
  return store;
}

std::future<jit::CompileOutcome> PoolCompiler::submit(jit::CompileRequest request) {
  if (!pool_) {
    jit::CompilePoolOptions options;
    options.helper = helper_;
    pool_ = std::make_unique<jit::CompilePool>(std::move(options));
  }
  return pool_->submit(std::move(request));
}

}  // namespace kiln::tuner
