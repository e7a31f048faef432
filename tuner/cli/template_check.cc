// kiln template check: everything about a manifest and its kernel that can be found out without a GPU.
#include <iostream>
#include <set>

#include "base/text.h"
#include "jit/compile.h"
#include "jit/nvrtc.h"
#include "kernel/kernel_key.h"
#include "kernel/launch_plan.h"
#include "kernel/space.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/session.h"

namespace kiln::cli {
namespace {

// Extents that a template's edges show at: a common size, one that no tile divides, and the smallest.
constexpr std::int64_t kExtents[] = {1024, 1000, 1};

struct Compiled {
  std::string target;
  std::string problem;
  int registers = 0;
  double milliseconds = 0;
};

struct Report {
  std::string file;
  std::vector<std::string> problems;  // each names file, key and cure
  std::vector<Compiled> compiled;
  std::size_t space_size = 0;
};

class Checker {
 public:
  Checker(Session& session, std::string file) : session_(session) { report_.file = std::move(file); }

  Report run(bool compile) {
    try {
      template_ = session_.templates().load(report_.file);
      check_targets(compile);
    } catch (const Error& error) {
      report_.problems.emplace_back(error.what());
    }
    return report_;
  }

 private:
  void fail(const std::string& key, const std::string& message) {
    report_.problems.push_back(report_.file + ": " + key + ": " + message);
  }

  // The targets the manifest claims, among those this NVRTC knows; "sm_80+" claims every later one.
  std::vector<std::string> targets(bool compile) const {
    std::set<std::string> chosen;
    for (const std::string& arch : template_->manifest.arch) {
      if (!arch.ends_with('+')) {
        chosen.insert(arch);
        continue;
      }
      const std::string oldest = arch.substr(0, arch.size() - 1);
      chosen.insert(oldest);
      if (!compile) continue;
      for (const int cc : jit::Nvrtc::instance().supported_archs()) {
        if (cc >= device_for_arch(oldest).cc()) chosen.insert("sm_" + std::to_string(cc));
      }
    }
    return {chosen.begin(), chosen.end()};
  }

  void check_targets(bool compile) {
    for (const std::string& target : targets(compile)) {
      const cuda::DeviceInfo device = device_for_arch(target);
      if (target_arch(*template_, device).empty()) continue;
      bool accepted_any = false;
      const std::size_t rules = std::max<std::size_t>(1, template_->manifest.accept.size());
      for (std::size_t rule = 0; rule < rules; ++rule) {
        bool compiled = false;
        for (const std::int64_t extent : kExtents) {
          const std::optional<Problem> problem = sample_problem(*template_, device, extent, rule);
          if (!problem) continue;
          accepted_any = true;
          if (!check_default(*problem, device)) return;
          if (!compiled && compile && !check_compile(*problem, device)) return;
          compiled = true;
        }
      }
      if (!accepted_any) {
        fail("accept", "no problem of extents 1024, 1000 or 1 is accepted on " + target +
                           "; loosen accept or require_problem, or remove the target from arch");
        return;
      }
    }
  }

  // False when the default is of no use, so that what follows would only repeat it.
  bool check_default(const Problem& problem, const cuda::DeviceInfo& device) {
    const Config& fallback = template_->manifest.fallback;
    const std::string where = " for " + short_text(*template_->op, problem) + " on " + target_arch(*template_, device);
    if (const std::string why = illegal_reason(*template_, problem, fallback, device); !why.empty()) {
      fail("default", to_text(fallback) + " is not legal" + where + ": " + why +
                          "; choose a configuration that is legal on every problem the template accepts");
      return false;
    }
    const Space space = enumerate(*template_, problem, device);
    report_.space_size = std::max(report_.space_size, space.configs.size());
    if (space.configs.empty()) {
      fail("require",
           "no configuration is left" + where + "; loosen the constraint that prunes most: " + worst_constraint(space));
      return false;
    }
    if (space.summary.truncated) {
      fail("params", "more than " + std::to_string(space.configs.size()) + " configurations" + where +
                         "; shorten the value lists or add constraints");
      return false;
    }
    try {
      build_plan(*template_, template_->manifest.launches, problem, fallback, device, EncodeMaps::no);
    } catch (const Error& error) {
      fail("launch", std::string(error.what()) + where + "; correct the launch's expressions");
      return false;
    }
    if (template_->manifest.cost_cycles && predicted_us(*template_, problem, fallback, device) < 0) {
      fail("cost.cycles", "is negative" + where + "; a time in cycles is expected");
      return false;
    }
    return true;
  }

  static std::string worst_constraint(const Space& space) {
    const PruneCount* worst = nullptr;
    for (const PruneCount& count : space.summary.pruned) {
      if (worst == nullptr || count.pruned > worst->pruned) worst = &count;
    }
    return worst == nullptr ? "(none pruned: a value list is empty)" : worst->constraint + " (" + worst->reason + ")";
  }

  bool check_compile(const Problem& problem, const cuda::DeviceInfo& device) {
    const std::string target = target_arch(*template_, device);
    jit::CompileRequest request = compile_request(*template_, problem, template_->manifest.fallback, device);
    for (const auto& folder : session_.options().include_folders) request.include_paths.push_back(folder.string());
    const jit::CompileOutcome outcome = jit::compile(request);
    const std::string what = "the default configuration for " + short_text(*template_->op, problem) + " on " + target;
    if (const auto* failure = std::get_if<jit::CompileFailure>(&outcome)) {
      fail("source", template_->manifest.source + " does not compile: " + what + ": " + failure->message +
                         "; correct the source\n" + failure->log);
      return false;
    }
    const auto& unit = std::get<jit::CompiledUnit>(outcome);
    Compiled compiled{
        .target = target, .problem = short_text(*template_->op, problem), .milliseconds = unit.milliseconds};
    for (const auto& kernel : unit.kernels) {
      compiled.registers = std::max(compiled.registers, kernel.registers);
      if (const int spilled = kernel.spill_store_bytes + kernel.spill_load_bytes; spilled > 0) {
        fail("default", what + " spills " + std::to_string(spilled) + " bytes in " + kernel.name_expression +
                            "; choose smaller tiles or fewer threads");
      }
    }
    report_.compiled.push_back(std::move(compiled));
    return report_.problems.empty();
  }

  Session& session_;
  TemplatePtr template_;
  Report report_;
};

Json to_json(const Report& report) {
  Json compiled = Json::array();
  for (const Compiled& unit : report.compiled) {
    compiled.push_back({{"target", unit.target},
                        {"problem", unit.problem},
                        {"registers", unit.registers},
                        {"milliseconds", unit.milliseconds}});
  }
  return {{"file", report.file},
          {"ok", report.problems.empty()},
          {"problems", report.problems},
          {"space", report.space_size},
          {"compiled", compiled}};
}

void print(const Report& report) {
  for (const std::string& problem : report.problems) std::cout << problem << '\n';
  if (!report.problems.empty()) return;
  std::cout << report.file << ": sound, up to " << report.space_size << " configurations\n";
  for (const Compiled& unit : report.compiled) {
    std::cout << "  " << unit.target << "  " << unit.problem << "  " << unit.registers << " registers, "
              << fixed(unit.milliseconds, 0) << " ms\n";
  }
}

}  // namespace

int run_template_check(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                     //
      ("file", po::value<std::vector<std::string>>()->value_name("FILE"), "manifests to check")             //
      ("no-compile", "leave out compiling the default configuration for every target the manifest claims")  //
      ("json", "as JSON");
  const auto values = parse({.usage = "kiln template check FILE… [options]",
                             .summary = "Runs every check of a manifest that needs no GPU. Exits 1 when one fails."},
                            options, arguments, "file");
  if (!values) return done;
  const std::vector<std::string> files = texts(*values, "file");
  if (files.empty()) throw Error(ErrorCode::invalid_argument, "name the manifests to check, such as my_norm.toml");

  bool all_sound = true;
  Json json = Json::array();
  for (const std::string& file : files) {
    // Each file gets a session of its own: two that share a template's name must not meet.
    Session session(*values);
    const Report report = Checker(session, file).run(values->count("no-compile") == 0);
    all_sound = all_sound && report.problems.empty();
    if (values->count("json") != 0) {
      json.push_back(to_json(report));
    } else {
      print(report);
    }
  }
  if (values->count("json") != 0) print_json(json);
  return all_sound ? done : failed;
}

}  // namespace kiln::cli
