#include "tests/cli/run_kiln.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace kiln::test {
namespace {

std::string read_all(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

bool is_kept(const std::string& variable) {
  for (const char* prefix : {"KILN_", "XDG_", "HOME="}) {
    if (variable.starts_with(prefix) && !variable.starts_with("KILN_NVRTC")) return false;
  }
  return true;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Ended Machine::kiln(const std::vector<std::string>& arguments,
                    const std::map<std::string, std::string>& environment) const {
  std::vector<std::string> words = {KILN_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::map<std::string, std::string> variables = {
      {"HOME", folder().string()}, {"KILN_CACHE", database().string()}, {"CUDA_VISIBLE_DEVICES", ""}};
  for (const auto& [name, value] : environment) variables[name] = value;
  std::vector<std::string> settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string setting = *variable;
    if (is_kept(setting) && variables.count(setting.substr(0, setting.find('='))) == 0) settings.push_back(setting);
  }
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);

  const auto out = folder() / "stdout";
  const auto err = folder() / "stderr";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = -1;
  const int error =
      posix_spawn(&child, KILN_PROGRAM, &actions, nullptr, pointers(words).data(), pointers(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  Ended ended;
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child) {
    ADD_FAILURE() << KILN_PROGRAM << " cannot be started";
    return ended;
  }
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  ended.out = read_all(out);
  ended.err = read_all(err);
  return ended;
}

std::filesystem::path source_path(const std::string& relative) {
  return std::filesystem::path(KILN_SOURCE_DIR) / relative;
}

}  // namespace kiln::test
