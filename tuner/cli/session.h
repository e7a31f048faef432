// What most subcommands need first: the process's options, the templates, the store and the versions. Each part is made
// when first asked for, so that `kiln query` pays only for what it uses. Single-threaded.
#pragma once

#include <memory>

#include "kernel/template_set.h"
#include "runtime/lookup.h"
#include "runtime/store.h"
#include "tuner/cli/command.h"
#include "tuner/cli/device_choice.h"

namespace kiln::cli {

class Session {
 public:
  explicit Session(const po::variables_map& values) : options_(runtime_options(values)) {}

  const RuntimeOptions& options() const noexcept { return options_; }
  TemplateSet& templates();
  // Only for reading what is there: nothing is created.
  Store& store();
  Lookup lookup(const DeviceChoice& choice);
  // The template named, or read from a manifest file. Throws Error{not_found}, {invalid_manifest}.
  TemplatePtr find_template(const std::string& name_or_file);
  // The database's path. Throws Error{invalid_argument} when this process has none.
  std::filesystem::path database() const;

 private:
  RuntimeOptions options_;
  std::unique_ptr<TemplateSet> templates_;
  std::unique_ptr<Store> store_;
};

}  // namespace kiln::cli
