// Runs the `kiln` program and keeps what it said, in an environment of the test's own: no database, templates or config
// file of the person who runs the tests is seen.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kiln::test {

struct Ended {
  int code = -1;  // −1: did not exit by itself
  std::string out;
  std::string err;
};

// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

// A machine of the test's own: HOME and the database are in a temporary folder, and no GPU is visible.
class Machine {
 public:
  Ended kiln(const std::vector<std::string>& arguments,
             const std::map<std::string, std::string>& environment = {}) const;
  const std::filesystem::path& folder() const noexcept { return folder_.path(); }
  std::filesystem::path database() const { return folder() / "kiln.db"; }

 private:
  TemporaryFolder folder_;
};

// A path below the repository's root.
std::filesystem::path source_path(const std::string& relative);

}  // namespace kiln::test
