#include "tuner/cli/session.h"

#include "cuda/driver.h"
#include "kiln/version.h"

namespace kiln::cli {

TemplateSet& Session::templates() {
  if (!templates_) templates_ = std::make_unique<TemplateSet>(options_.template_folders);
  return *templates_;
}

Store& Session::store() {
  if (store_) return *store_;
  // A question leaves no trace: a database that is not there yet is neither made nor missed.
  std::error_code ignored;
  StoreOptions options;
  options.read_only = true;
  if (std::filesystem::exists(options_.cache, ignored)) options.path = options_.cache;
  store_ = open_store(options);
  return *store_;
}

Lookup Session::lookup(const DeviceChoice& choice) {
  Lookup::Context context;
  context.templates = &templates();
  context.store = &store();
  context.presets = shipped_presets;
  context.profiles = shipped_gpu_profiles();
  context.device = choice.device;
  context.versions.kiln = kVersion;
  if (choice.present) context.versions.driver = cuda::driver().version;
  return Lookup(std::move(context));
}

TemplatePtr Session::find_template(const std::string& name_or_file) {
  return name_or_file.ends_with(".toml") ? templates().load(name_or_file) : templates().find(name_or_file);
}

std::filesystem::path Session::database() const {
  if (options_.cache.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "this process has no database: there is no home folder; name a file with --cache or KILN_CACHE");
  }
  return options_.cache;
}

}  // namespace kiln::cli
