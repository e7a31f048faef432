#include "kernel/template_set.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/embedded.h"
#include "base/log.h"
#include "base/text.h"
#include "kernel/includes.h"
#include "kernel/template_digest.h"
#include "kernel/toml_reader.h"
#include "kiln/error.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRoot = "templates/";

std::optional<std::string> embedded_text(const std::string& path) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) return std::string(file.text);
  }
  return std::nullopt;
}

std::string op_file(const std::string& op) { return std::string(kRoot) + "ops/" + op + ".toml"; }

std::optional<std::string> file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What the index needs to know of a manifest, without checking the rest of it.
struct Heading {
  std::string name;  // empty where the file has no `source` and so is no manifest
  std::string op;
  bool has_inline_op = false;
};

Heading read_heading(const std::string& text, const std::string& file) {
  const toml::table parsed = parse_toml(text, file);
  TomlTable top(parsed, TomlPlace{file, "", 0});
  if (!top.has("source")) return {};
  Heading heading;
  const toml::node* op = top.get_node("op");
  heading.has_inline_op = op != nullptr && op->is_table();
  if (heading.has_inline_op) heading.op = top.get_table("op")->require_string("name");
  if (op != nullptr && op->is_string()) heading.op = op->as_string()->get();
  heading.name = top.require_string("name");
  return heading;
}

// A manifest that is known to exist but not yet read.
struct Entry {
  std::string file{};  // for people
  std::string text{};
  std::string include_dir{};  // embedded: "gemm/"; else empty
  fs::path folder{};          // empty when embedded
  std::optional<Heading> known_heading{};
  TemplatePtr loaded{};

  // Read when first asked for: whoever wants one template by its name has no use for the headings of all others.
  const Heading& heading() {
    if (!known_heading) known_heading = read_heading(text, file);
    return *known_heading;
  }
};

std::vector<std::string> existing_include_paths(const std::vector<fs::path>& folders) {
  std::vector<std::string> paths(folders.begin(), folders.end());
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr) paths.push_back(std::string(value) + "/include");
  }
  paths.emplace_back("/usr/local/cuda/include");
  std::vector<std::string> existing;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) continue;
    existing.push_back(path);
    if (fs::exists(path + "/cccl")) existing.push_back(path + "/cccl");
  }
  return existing;
}

}  // namespace

struct TemplateSet::Impl {
  mutable std::mutex mutex;
  std::vector<std::string> include_paths;                    // for <…> includes
  std::map<std::string, Entry> entries;                      // by template name
  std::map<std::string, std::shared_ptr<const OpSpec>> ops;  // by op name

  // Embedded manifests bear the names of their templates (a test sees to it), so none is read here.
  void index_embedded() {
    for (const EmbeddedFile& file : embedded_files()) {
      const std::string path(file.path);
      if (path.rfind(kRoot, 0) != 0 || !path.ends_with(".toml") || path.rfind("templates/ops/", 0) == 0) continue;
      const std::string inner = path.substr(kRoot.size());
      entries[fs::path(path).stem().string()] = {
          .file = path, .text = std::string(file.text), .include_dir = inner.substr(0, inner.find_last_of('/') + 1)};
    }
  }

  void index_folder(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> files;
    constexpr auto kOptions = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator item(folder, kOptions, error), end; !error && item != end;
         item.increment(error)) {
      if (item->path().extension() == ".toml") files.push_back(item->path());
    }
    if (error) log("kernel")->warn("template folder {} cannot be read: {}", folder.string(), error.message());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      const auto text = file_text(file);
      if (!text) continue;
      try {
        Entry entry{.file = file.string(), .text = *text, .folder = file.parent_path()};
        const std::string name = entry.heading().name;
        if (!name.empty()) entries[name] = std::move(entry);
      } catch (const Error& e) {
        log("kernel")->warn("left out: {}", e.what());
      }
    }
  }

  std::shared_ptr<const OpSpec> op(const std::string& name) {
    if (const auto it = ops.find(name); it != ops.end()) return it->second;
    const std::string path = op_file(name);
    if (const auto text = embedded_text(path)) {
      return ops[name] = std::make_shared<const OpSpec>(read_op(*text, path));
    }
    // An op that a manifest brings inline.
    for (auto& [template_name, entry] : entries) {
      const Heading& heading = entry.heading();
      if (heading.has_inline_op && heading.op == name) return ops[name] = load(entry)->op;
    }
    throw Error(ErrorCode::not_found,
                "no op '" + name + "'" + did_you_mean(name, op_names()) + "; there are " + join(op_names(), ", "));
  }

  std::vector<std::string> op_names() {
    std::set<std::string> names;
    for (const EmbeddedFile& file : embedded_files()) {
      const std::string path(file.path);
      if (path.rfind("templates/ops/", 0) == 0) names.insert(fs::path(path).stem().string());
    }
    for (auto& [name, entry] : entries) {
      if (!entry.heading().op.empty()) names.insert(entry.heading().op);
    }
    return {names.begin(), names.end()};
  }

  // For listings: one bad manifest must not hide the others.
  TemplatePtr try_load(const std::string& name, Entry& entry) {
    try {
      return load(entry);
    } catch (const Error& error) {
      log("kernel")->warn("template {} left out: {}", name, error.what());
      return nullptr;
    }
  }

  TemplatePtr load(Entry& entry) {
    if (entry.loaded) return entry.loaded;
    auto t = std::make_shared<KernelTemplate>();
    t->file = entry.file;
    t->manifest = read_manifest(entry.text, entry.file);
    if (t->manifest.inline_op) {
      // Every template of an op answers for the same problems, so an op has one form.
      if (embedded_text(op_file(t->manifest.op))) {
        manifest_error({entry.file, "op.name", 0}, "'" + t->manifest.op + "' is built in; write op = \"" +
                                                       t->manifest.op + "\" or choose another name");
      }
      t->op = std::make_shared<const OpSpec>(*t->manifest.inline_op);
    } else {
      try {
        t->op = op(t->manifest.op);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) throw;
        manifest_error({entry.file, "op", 0}, error.what());
      }
    }
    check_against_op(t->manifest, *t->op, entry.file);
    const auto read = [&entry](const std::string& name) -> std::optional<std::string> {
      if (!entry.folder.empty()) {
        if (auto text = file_text(entry.folder / name)) return text;
      }
      return embedded_text(std::string(kRoot) + name);
    };
    t->include = entry.include_dir + t->manifest.source;
    IncludeSet includes;
    try {
      const std::string beside = entry.folder.empty() ? std::string() : entry.folder.string() + " and ";
      includes = collect_includes(t->include, read, beside + "the embedded templates");
      const IncludeSet types = collect_includes("ptx/types.cuh", read, beside + "the embedded templates");
      includes.headers.insert(types.headers.begin(), types.headers.end());
    } catch (const Error& error) {
      manifest_error({entry.file, "source", 0}, error.what());
    }
    if (!includes.system.empty()) t->include_paths = include_paths;
    t->digest = template_digest(t->manifest, *t->op, includes);
    t->headers = std::move(includes.headers);
    return entry.loaded = std::move(t);
  }
};

TemplateSet::TemplateSet(const std::vector<std::filesystem::path>& folders,
                         const std::vector<std::filesystem::path>& include_folders)
    : impl_(std::make_unique<Impl>()) {
  impl_->include_paths = existing_include_paths(include_folders);
  impl_->index_embedded();
  for (const auto& folder : folders) impl_->index_folder(folder);
}

TemplateSet::~TemplateSet() = default;

TemplatePtr TemplateSet::find(const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  const auto it = impl_->entries.find(name);
  if (it == impl_->entries.end()) {
    std::vector<std::string> names;
    for (const auto& [key, entry] : impl_->entries) names.push_back(key);
    throw Error(ErrorCode::not_found,
                "no template '" + name + "'" + did_you_mean(name, names) + "; there are " + join(names, ", "));
  }
  return impl_->load(it->second);
}

std::shared_ptr<const OpSpec> TemplateSet::find_op(const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->op(name);
}

std::vector<TemplatePtr> TemplateSet::of_op(const std::string& op) const {
  const std::lock_guard lock(impl_->mutex);
  std::set<std::string> references{impl_->op(op)->check.reference};
  std::vector<TemplatePtr> templates;
  for (auto& [name, entry] : impl_->entries) {
    if (entry.heading().op != op) continue;
    if (const TemplatePtr t = impl_->try_load(name, entry)) {
      templates.push_back(t);
      references.insert(t->manifest.check_reference);
    }
  }
  std::erase_if(templates, [&references](const TemplatePtr& t) { return references.count(t->manifest.name) != 0; });
  std::stable_sort(templates.begin(), templates.end(), [](const TemplatePtr& a, const TemplatePtr& b) {
    return a->manifest.priority > b->manifest.priority;
  });
  return templates;
}

std::vector<TemplatePtr> TemplateSet::all() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<TemplatePtr> templates;
  for (auto& [name, entry] : impl_->entries) {
    if (const TemplatePtr t = impl_->try_load(name, entry)) templates.push_back(t);
  }
  return templates;
}

std::vector<std::string> TemplateSet::op_names() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->op_names();
}

TemplatePtr TemplateSet::load(const std::filesystem::path& manifest_file) {
  const auto text = file_text(manifest_file);
  if (!text) throw Error(ErrorCode::not_found, "manifest " + manifest_file.string() + " cannot be read");
  Entry entry{.file = manifest_file.string(), .text = *text, .folder = manifest_file.parent_path()};
  if (entry.folder.empty()) entry.folder = ".";
  entry.heading();  // what is wrong with it comes before what is wrong with the rest
  const std::lock_guard lock(impl_->mutex);
  TemplatePtr loaded = impl_->load(entry);
  if (loaded->manifest.inline_op) impl_->ops[loaded->manifest.op] = loaded->op;
  impl_->entries[loaded->manifest.name] = std::move(entry);
  return loaded;
}

}  // namespace kiln
