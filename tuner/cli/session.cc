#include "tuner/cli/session.h"

#include "cache/gpu_profiles.h"
#include "cache/presets.h"
#include "cuda/driver.h"
#include "kiln/version.h"

namespace kiln::cli {

TemplateSet& Session::templates() {
  if (!templates_) templates_ = std::make_unique<TemplateSet>(options_.template_folders);
  return *templates_;
}

Store& Session::store() {
  // Opening a file that is not there for writing would create it; a query should leave no trace.
  if (!store_) store_ = open_store({.path = options_.cache, .read_only = true});
  return *store_;
}

Lookup Session::lookup(const DeviceChoice& choice) {
  Lookup::Context context;
  context.templates = &templates();
  context.store = &store();
  context.presets = cache::preset_decisions();
  for (const std::string& name : cache::gpu_profile_names()) {
    if (const auto profile = cache::gpu_profile(name)) context.profiles.push_back(*profile);
  }
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
