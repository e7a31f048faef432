// How a Runtime is set up. Flags win over environment, environment over the config file, the config file over these
// defaults. Plain values.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

struct RuntimeOptions {
  // The tuned-results database. Empty: memory only. KILN_CACHE; default $XDG_CACHE_HOME/kiln/kiln.db, or
  // ~/.cache/kiln/kiln.db, or memory only where there is no home.
  std::filesystem::path cache;
  // Use what is stored and write nothing: the same answers at every run. KILN_DISABLE_WRITE=1.
  bool read_only = false;
  // trace, debug, info, warning, error, critical or off. KILN_LOG.
  std::string log_level = "warning";
  // Folders with further templates, later ones winning on equal names. KILN_TEMPLATES, colon-separated.
  std::vector<std::filesystem::path> template_folders;
  // Folders with toolkit headers for templates that include any. KILN_INCLUDE, colon-separated.
  std::vector<std::filesystem::path> include_folders;
};

// The options of this process: defaults, then $XDG_CONFIG_HOME/kiln/kiln.toml, then the environment. The one place that
// reads either. Throws Error{invalid_argument} for a config file or value that cannot be read, naming it.
RuntimeOptions options_from_environment();

}  // namespace kiln
