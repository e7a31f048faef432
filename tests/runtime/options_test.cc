#include "kiln/options.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cache/scratch_folder.h"
#include "tests/message_of.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Starts with a home of its own and nothing else of what the options read.
class Options : public testing::Test {
 protected:
  Options() {
    for (const char* name : {"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "KILN_CACHE", "KILN_LOG", "KILN_TEMPLATES",
                             "KILN_INCLUDE", "KILN_DISABLE_WRITE"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      unsetenv(name);
    }
    set("HOME", home().string());
  }
  ~Options() override {
    for (const auto& [name, value] : before_) {
      if (value)
        set(name, *value);
      else
        unsetenv(name.c_str());
    }
  }

  static void set(const std::string& name, const std::string& value) { setenv(name.c_str(), value.c_str(), 1); }
  fs::path home() const { return folder.path(); }
  void write_config(const std::string& text) const {
    fs::create_directories(home() / ".config/kiln");
    cache::write_file(home() / ".config/kiln/kiln.toml", text);
  }
  static std::string refusal() {
    return message_of(ErrorCode::invalid_argument, [] { static_cast<void>(options_from_environment()); });
  }

  cache::ScratchFolder folder;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(Options, DefaultToACacheInTheHome) {
  const RuntimeOptions options = options_from_environment();
  EXPECT_EQ(options.cache, home() / ".cache/kiln/kiln.db");
  EXPECT_FALSE(options.read_only);
  EXPECT_EQ(options.log_level, "warning");
  EXPECT_THAT(options.template_folders, IsEmpty());
  EXPECT_THAT(options.include_folders, IsEmpty());
}

TEST_F(Options, WithoutAHomeTheCacheIsInMemory) {
  unsetenv("HOME");
  EXPECT_TRUE(options_from_environment().cache.empty());
  set("HOME", "");
  EXPECT_TRUE(options_from_environment().cache.empty());
}

TEST_F(Options, TheCacheFollowsXdg) {
  set("XDG_CACHE_HOME", "/somewhere");
  EXPECT_EQ(options_from_environment().cache, "/somewhere/kiln/kiln.db");
  unsetenv("HOME");
  EXPECT_EQ(options_from_environment().cache, "/somewhere/kiln/kiln.db");
}

TEST_F(Options, TheEnvironmentSetsEachOfThem) {
  set("KILN_CACHE", "/data/tuned.db");
  set("KILN_LOG", "debug");
  set("KILN_TEMPLATES", "/a:/b c::/d:");
  set("KILN_INCLUDE", "/inc");
  set("KILN_DISABLE_WRITE", "1");
  const RuntimeOptions options = options_from_environment();
  EXPECT_EQ(options.cache, "/data/tuned.db");
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_THAT(options.template_folders, ElementsAre("/a", "/b c", "/d"));
  EXPECT_THAT(options.include_folders, ElementsAre("/inc"));
  EXPECT_TRUE(options.read_only);
}

TEST_F(Options, WritingIsDisabledByOneAndNothingElse) {
  set("KILN_DISABLE_WRITE", "0");
  EXPECT_FALSE(options_from_environment().read_only);
  for (const char* value : {"true", "yes", "2", " 1"}) {
    set("KILN_DISABLE_WRITE", value);
    EXPECT_THAT(refusal(),
                AllOf(HasSubstr("KILN_DISABLE_WRITE is '" + std::string(value) + "'"), HasSubstr("0 and 1")));
  }
}

TEST_F(Options, TheConfigFileSetsEachOfThem) {
  write_config(
      "cache = \"/file/kiln.db\"\nlog = \"info\"\ntemplates = \"/t1:/t2\"\ninclude = \"/i\"\nread_only = true\n");
  const RuntimeOptions options = options_from_environment();
  EXPECT_EQ(options.cache, "/file/kiln.db");
  EXPECT_EQ(options.log_level, "info");
  EXPECT_THAT(options.template_folders, ElementsAre("/t1", "/t2"));
  EXPECT_THAT(options.include_folders, ElementsAre("/i"));
  EXPECT_TRUE(options.read_only);
}

TEST_F(Options, TheEnvironmentWinsOverTheFileAndTheFileOverTheDefaults) {
  write_config("cache = \"/file/kiln.db\"\nlog = \"info\"\nread_only = true\n");
  set("KILN_CACHE", "/env/kiln.db");
  set("KILN_DISABLE_WRITE", "0");
  const RuntimeOptions options = options_from_environment();
  EXPECT_EQ(options.cache, "/env/kiln.db");
  EXPECT_EQ(options.log_level, "info");
  EXPECT_FALSE(options.read_only);
}

TEST_F(Options, AnEmptyVariableIsAsIfUnset) {
  write_config("cache = \"/file/kiln.db\"\n");
  set("KILN_CACHE", "");
  set("KILN_DISABLE_WRITE", "");
  EXPECT_EQ(options_from_environment().cache, "/file/kiln.db");
  EXPECT_FALSE(options_from_environment().read_only);
}

TEST_F(Options, TheFileMayAskForMemoryOnly) {
  write_config("cache = \"\"\n");
  EXPECT_TRUE(options_from_environment().cache.empty());
}

TEST_F(Options, TheConfigFileFollowsXdg) {
  write_config("log = \"info\"\n");
  set("XDG_CONFIG_HOME", (home() / "elsewhere").string());
  EXPECT_EQ(options_from_environment().log_level, "warning");
  fs::create_directories(home() / "elsewhere/kiln");
  cache::write_file(home() / "elsewhere/kiln/kiln.toml", "log = \"error\"\n");
  EXPECT_EQ(options_from_environment().log_level, "error");
}

TEST_F(Options, AnUnknownKeyOfTheFileIsNamedWithThoseAllowed) {
  write_config("cahce = \"/x\"\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("kiln/kiln.toml: cahce is unknown"), HasSubstr("cache, log, templates")));
}

TEST_F(Options, AValueOfTheWrongTypeIsNamed) {
  write_config("cache = 3\n");
  EXPECT_THAT(refusal(), HasSubstr("cache must be a string"));
  write_config("templates = [\"/a\"]\n");
  EXPECT_THAT(refusal(), HasSubstr("templates must be a string"));
  for (const char* value : {"1", "\"true\"", "0.0"}) {
    write_config("read_only = " + std::string(value) + "\n");
    EXPECT_THAT(refusal(), HasSubstr("read_only must be true or false")) << value;
  }
}

TEST_F(Options, ASyntaxErrorOfTheFileNamesTheLine) {
  write_config("log = \"info\"\ncache = = 3\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(".config/kiln/kiln.toml"), HasSubstr("line 2")));
}

TEST_F(Options, AFolderInTheFilesPlaceIsNamed) {
  fs::create_directories(home() / ".config/kiln/kiln.toml");
  EXPECT_THAT(refusal(), HasSubstr("kiln.toml is not a file"));
}

}  // namespace
}  // namespace kiln
