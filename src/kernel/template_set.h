// The templates and ops known to a process: those embedded in the library, then those of the folders given
// (KILN_TEMPLATES). Read lazily: an op's templates are parsed when first asked for. Thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel/template.h"

namespace kiln {

class TemplateSet {
 public:
  // `folders` are searched for *.toml with a `source` key; a manifest that cannot be read is an Error naming it when it
  // is asked for, and a warning in listings. A template that includes <…> finds it in `include_folders`, then in the
  // CUDA toolkit's.
  explicit TemplateSet(const std::vector<std::filesystem::path>& folders = {},
                       const std::vector<std::filesystem::path>& include_folders = {});
  ~TemplateSet();

  // Throws Error{not_found} listing the names there are.
  TemplatePtr find(const std::string& name) const;
  std::shared_ptr<const OpSpec> find_op(const std::string& name) const;
  // The tunable templates of an op, highest priority first, then by name. Reference templates (those named by a check)
  // are not among them.
  std::vector<TemplatePtr> of_op(const std::string& op) const;
  std::vector<TemplatePtr> all() const;
  std::vector<std::string> op_names() const;
  // Adds (or replaces) the template of one manifest file. Throws Error{invalid_manifest} or {not_found}.
  TemplatePtr load(const std::filesystem::path& manifest_file);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
