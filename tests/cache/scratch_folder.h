// A folder of a test's own, removed with it; and the warnings Kiln logs while it lives. Not thread-safe.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <spdlog/sinks/base_sink.h>
#include <sys/stat.h>

#include "base/log.h"
#include "runtime/store.h"

namespace kiln::cache {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "cannot make " << pattern;
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path database() const { return path_ / "kiln.db"; }
  StoreOptions options() const {
    StoreOptions options;
    options.path = database();
    return options;
  }
  // The names of files set aside, without their -wal and -shm.
  std::vector<std::string> set_aside() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".corrupt-") != std::string::npos && !name.ends_with("-wal") && !name.ends_with("-shm")) {
        names.push_back(name);
      }
    }
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  chmod(path.c_str(), 0600);
}

class Warnings {
 public:
  Warnings() : sink_(std::make_shared<Sink>()) {
    sink_->set_level(spdlog::level::warn);
    log("cache")->sinks().push_back(sink_);
  }
  ~Warnings() { log("cache")->sinks().pop_back(); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::vector<std::string> all() const { return sink_->messages; }
  std::size_t count() const { return sink_->messages.size(); }

 private:
  struct Sink : spdlog::sinks::base_sink<std::mutex> {
    void sink_it_(const spdlog::details::log_msg& message) override {
      messages.emplace_back(message.payload.data(), message.payload.size());
    }
    void flush_() override {}
    std::vector<std::string> messages;
  };
  std::shared_ptr<Sink> sink_;
};

}  // namespace kiln::cache
