// The one place that reads the environment and the config file.
#include "kiln/options.h"

#include <cstdlib>
#include <optional>

#include <toml++/toml.h>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// $XDG_…_HOME/kiln, or <home>/<fallback>/kiln; empty where there is no home.
fs::path user_folder(const char* xdg, const char* fallback) {
  if (const auto base = variable(xdg)) return fs::path(*base) / "kiln";
  if (const auto home = variable("HOME")) return fs::path(*home) / fallback / "kiln";
  return {};
}

std::vector<fs::path> folders(const std::string& text) {
  std::vector<fs::path> result;
  for (const std::string& piece : split(text, ':')) {
    if (!piece.empty()) result.emplace_back(piece);
  }
  return result;
}

void read_file(const fs::path& file, RuntimeOptions& options) {
  std::error_code error;
  if (!fs::exists(file, error)) return;
  if (!fs::is_regular_file(file, error)) {
    throw Error(ErrorCode::invalid_argument, "config file " + file.string() + " is not a file");
  }
  toml::table table;
  try {
    table = toml::parse_file(file.string());
  } catch (const toml::parse_error& e) {
    throw Error(ErrorCode::invalid_argument, "config file " + file.string() + ", line " +
                                                 std::to_string(e.source().begin.line) + ": " +
                                                 std::string(e.description()));
  }
  const auto wrong = [&file](const std::string& key, const std::string& wanted) {
    return Error(ErrorCode::invalid_argument, "config file " + file.string() + ": " + key + " " + wanted);
  };
  for (const auto& [key_node, node] : table) {
    const std::string key(key_node.str());
    if (key == "cache" || key == "log" || key == "templates" || key == "include") {
      const auto text = node.value_exact<std::string>();
      if (!text) throw wrong(key, "must be a string");
      if (key == "cache") options.cache = *text;
      if (key == "log") options.log_level = *text;
      if (key == "templates") options.template_folders = folders(*text);
      if (key == "include") options.include_folders = folders(*text);
    } else if (key == "read_only") {
      const auto flag = node.value_exact<bool>();
      if (!flag) throw wrong(key, "must be true or false");
      options.read_only = *flag;
    } else {
      throw wrong(key, "is unknown; allowed are cache, log, templates, include, read_only");
    }
  }
}

}  // namespace

RuntimeOptions options_from_environment() {
  RuntimeOptions options;
  if (const fs::path folder = user_folder("XDG_CACHE_HOME", ".cache"); !folder.empty()) {
    options.cache = folder / "kiln.db";
  }
  if (const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config"); !folder.empty()) {
    read_file(folder / "kiln.toml", options);
  }
  if (const auto value = variable("KILN_CACHE")) options.cache = *value;
  if (const auto value = variable("KILN_LOG")) options.log_level = *value;
  if (const auto value = variable("KILN_TEMPLATES")) options.template_folders = folders(*value);
  if (const auto value = variable("KILN_INCLUDE")) options.include_folders = folders(*value);
  if (const auto value = variable("KILN_DISABLE_WRITE")) {
    if (*value != "0" && *value != "1") {
      throw Error(ErrorCode::invalid_argument, "KILN_DISABLE_WRITE is '" + *value + "'; allowed are 0 and 1");
    }
    options.read_only = *value == "1";
  }
  return options;
}

}  // namespace kiln
