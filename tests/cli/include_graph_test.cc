// Dependencies point one way, templates ← src ← cache ← tuner, and public headers leak no third-party type.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cli/run_kiln.h"

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

// The layers from the lowest up. A file may include its own layer and those below.
constexpr std::array kLayers = {"templates", "src", "cache", "tuner"};

std::vector<fs::path> sources_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cc" || extension == ".cuh") files.push_back(entry.path());
  }
  return files;
}

struct Include {
  std::string name;
  bool quoted = false;
};

// What `line` includes, when it is such a directive.
std::optional<Include> include_in(std::string_view line) {
  const auto take = [&line](std::string_view word) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(word)) return false;
    line.remove_prefix(word.size());
    return true;
  };
  if (!take("#") || !take("include")) return std::nullopt;
  const bool quoted = take("\"");
  if (!quoted && !take("<")) return std::nullopt;
  const std::size_t end = line.find(quoted ? '"' : '>');
  if (end == std::string_view::npos) return std::nullopt;
  return Include{std::string(line.substr(0, end)), quoted};
}

std::vector<Include> includes_of(const fs::path& file) {
  std::vector<Include> includes;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (auto include = include_in(line)) includes.push_back(std::move(*include));
  }
  return includes;
}

// The layer that `name`, as written in a file of layer `from`, leads to; −1 for what is not a file of the project.
int layer_of(const std::string& name, std::size_t from) {
  const fs::path root = source_path("");
  for (std::size_t layer = 0; layer < kLayers.size(); ++layer) {
    if (name.starts_with(std::string(kLayers[layer]) + "/") && fs::exists(root / name)) return static_cast<int>(layer);
  }
  if (fs::exists(root / "src" / name) || fs::exists(root / "src/include" / name)) return 1;
  return from == 0 && fs::exists(root / "templates" / name) ? 0 : -1;
}

TEST(IncludeGraph, NoFileIncludesUpward) {
  for (std::size_t layer = 0; layer < kLayers.size(); ++layer) {
    const std::vector<fs::path> files = sources_below(source_path(kLayers[layer]));
    EXPECT_FALSE(files.empty()) << kLayers[layer];
    for (const fs::path& file : files) {
      for (const Include& include : includes_of(file)) {
        EXPECT_LE(layer_of(include.name, layer), static_cast<int>(layer)) << file << " includes " << include.name;
      }
    }
  }
}

TEST(IncludeGraph, EveryQuotedIncludeIsAFileOfTheProject) {
  for (std::size_t layer = 1; layer < kLayers.size(); ++layer) {
    for (const fs::path& file : sources_below(source_path(kLayers[layer]))) {
      for (const Include& include : includes_of(file)) {
        if (!include.quoted) continue;
        EXPECT_GE(layer_of(include.name, layer), 0) << file << " includes " << include.name;
      }
    }
  }
}

TEST(IncludeGraph, PublicHeadersIncludeOnlyThemselvesAndTheStandardLibrary) {
  for (const fs::path& file : sources_below(source_path("src/include"))) {
    for (const Include& include : includes_of(file)) {
      const bool is_public = include.name.starts_with("kiln/");
      const bool is_of_c = include.name == "stddef.h" || include.name == "stdint.h";
      const bool is_standard =
          is_of_c || (include.name.find('/') == std::string::npos && include.name.find('.') == std::string::npos);
      EXPECT_TRUE(is_public || is_standard) << file << " includes " << include.name;
    }
  }
}

// NVRTC compiles templates from text alone: what they include must be among them.
TEST(IncludeGraph, TemplatesIncludeOnlyTemplates) {
  const fs::path root = source_path("templates");
  for (const fs::path& file : sources_below(root)) {
    for (const Include& include : includes_of(file)) {
      EXPECT_TRUE(fs::exists(root / include.name) || fs::exists(file.parent_path() / include.name))
          << file << " includes " << include.name;
    }
  }
}

}  // namespace
}  // namespace kiln::test
