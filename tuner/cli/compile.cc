// kiln compile: one configuration of a template, compiled for a target, and what the compiler says of it.
#include <fstream>
#include <iostream>

#include "base/text.h"
#include "jit/compile.h"
#include "kernel/kernel_key.h"
#include "kernel/launch_plan.h"
#include "kernel/space.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/problems.h"
#include "tuner/cli/session.h"

namespace kiln::cli {
namespace {

void write_file(const std::string& file, const std::string& bytes) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.flush();
  if (!stream) throw Error(ErrorCode::io, file + ": cannot be written");
}

// The template's default with the given values on top.
Config chosen_config(const KernelTemplate& t, const std::string& text) {
  Config config = t.manifest.fallback;
  for (const auto& [name, value] : parse_config(text)) {
    if (t.manifest.find_param(name) == nullptr) {
      std::vector<std::string> known;
      for (const ParamSpec& param : t.manifest.params) known.push_back(param.name);
      throw Error(ErrorCode::invalid_argument, "--config: " + t.manifest.name + " has no parameter '" + name + "'" +
                                                   did_you_mean(name, known) + "; it has " + join(known, ", "));
    }
    config[name] = value;
  }
  return config;
}

Problem chosen_problem(const KernelTemplate& t, const cuda::DeviceInfo& device, const std::string& fields) {
  constexpr std::int64_t kTypicalExtent = 4096;
  if (fields.empty()) {
    if (const auto sample = sample_problem(t, device, kTypicalExtent, 0)) return *sample;
    throw Error(ErrorCode::invalid_argument, "name a problem that " + t.manifest.name + " takes with --problem");
  }
  Problem problem = problem_from_text(*t.op, parse_problem_text(t.op->name, fields));
  if (const std::string why = rejection(t, problem, device); !why.empty()) {
    throw Error(ErrorCode::unsupported, t.manifest.name + " does not take this problem: " + why);
  }
  return problem;
}

Json to_json(const jit::KernelResources& kernel) {
  return {{"kernel", kernel.name_expression},
          {"symbol", kernel.symbol},
          {"registers", kernel.registers},
          {"spill_store_bytes", kernel.spill_store_bytes},
          {"spill_load_bytes", kernel.spill_load_bytes},
          {"stack_bytes", kernel.stack_bytes},
          {"static_shared_bytes", kernel.static_shared_bytes},
          {"constant_bytes", kernel.constant_bytes},
          {"barriers", kernel.barriers}};
}

void print_report(const jit::CompiledUnit& unit, const LaunchPlan& plan) {
  Table table({"kernel", ">registers", ">spilled", ">stack", ">static smem", ">dynamic smem", ">threads", ">grid"});
  for (std::size_t i = 0; i < unit.kernels.size(); ++i) {
    const jit::KernelResources& kernel = unit.kernels[i];
    std::string dynamic = "-";
    std::string threads = "-";
    std::string grid = "-";
    for (const PlannedLaunch& launch : plan.launches) {
      if (launch.kernel_index != i) continue;
      dynamic = byte_size(launch.shared_bytes);
      threads = std::to_string(launch.block[0] * launch.block[1] * launch.block[2]);
      grid =
          std::to_string(launch.grid[0]) + "×" + std::to_string(launch.grid[1]) + "×" + std::to_string(launch.grid[2]);
    }
    table.add({kernel.name_expression, std::to_string(kernel.registers),
               byte_size(kernel.spill_store_bytes + kernel.spill_load_bytes), byte_size(kernel.stack_bytes),
               byte_size(kernel.static_shared_bytes), dynamic, threads, grid});
  }
  std::cout << table;
}

}  // namespace

int run_compile(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                                                        //
      ("template", po::value<std::vector<std::string>>()->value_name("NAME"), "name, or manifest file")        //
      ("arch", po::value<std::string>()->value_name("ARCH"), "target, such as sm_90a")                         //
      ("gpu", po::value<std::string>()->value_name("GPU"), "profile, index or UUID instead of a target")       //
      ("config", po::value<std::string>()->value_name("NAME=VALUE,…"), "parameters; the rest as the default")  //
      ("problem", po::value<std::string>()->value_name("FIELDS"), "problem to compile for, m=64,n=64,…")       //
      ("ptx", po::value<std::string>()->value_name("FILE"), "write the PTX there")                             //
      ("cubin", po::value<std::string>()->value_name("FILE"), "write the cubin there")                         //
      ("json", "as JSON");
  const auto values = parse(
      {.usage = "kiln compile TEMPLATE [--arch ARCH | --gpu GPU] [--config …] [--problem …] [options]",
       .summary =
           "Compiles one configuration and reports registers, spills and shared memory. Needs no GPU with --arch."},
      options, arguments, "template");
  if (!values) return done;
  const std::vector<std::string> names = texts(*values, "template");
  if (names.size() != 1) throw Error(ErrorCode::invalid_argument, "name one template; kiln template list has them");

  Session session(*values);
  const TemplatePtr t = session.find_template(names.front());
  const cuda::DeviceInfo device =
      choose_device_or_arch(text_or(*values, "gpu", ""), text_or(*values, "arch", "")).device;
  if (target_arch(*t, device).empty()) {
    throw Error(ErrorCode::unsupported,
                t->manifest.name + " is not for " + device.arch() + "; it is for " + join(t->manifest.arch, ", "));
  }
  const Problem problem = chosen_problem(*t, device, text_or(*values, "problem", ""));
  const Config config = chosen_config(*t, text_or(*values, "config", ""));
  if (const std::string why = illegal_reason(*t, problem, config, device); !why.empty()) {
    throw Error(ErrorCode::invalid_argument, "--config: " + to_text(config) + " is not legal here: " + why);
  }
  const LaunchPlan plan = build_plan(*t, t->manifest.launches, problem, config, device, EncodeMaps::no);

  jit::CompileRequest request = compile_request(*t, problem, config, device);
  for (const auto& folder : session.options().include_folders) request.include_paths.push_back(folder.string());
  const jit::CompileOutcome outcome = jit::compile(request);
  if (const auto* failure = std::get_if<jit::CompileFailure>(&outcome)) {
    throw Error(ErrorCode::compile_failed,
                t->manifest.name + " " + to_text(config) + ": " + failure->message + "\n" + failure->log);
  }
  const auto& unit = std::get<jit::CompiledUnit>(outcome);
  if (values->count("ptx") != 0) write_file((*values)["ptx"].as<std::string>(), unit.ptx);
  if (values->count("cubin") != 0) write_file((*values)["cubin"].as<std::string>(), unit.cubin);

  if (values->count("json") != 0) {
    Json kernels = Json::array();
    for (const auto& kernel : unit.kernels) kernels.push_back(to_json(kernel));
    print_json({{"template", t->manifest.name},
                {"config", to_text(config)},
                {"problem", short_text(*t->op, problem)},
                {"target", target_arch(*t, device)},
                {"milliseconds", unit.milliseconds},
                {"cubin_bytes", unit.cubin.size()},
                {"workspace_bytes", plan.workspace_bytes},
                {"kernels", kernels},
                {"warnings", unit.warnings}});
    return done;
  }
  std::cout << t->manifest.name << " " << to_text(config) << "\nfor " << short_text(*t->op, problem) << " on "
            << target_arch(*t, device) << ": " << fixed(unit.milliseconds, 0) << " ms, "
            << byte_size(static_cast<std::int64_t>(unit.cubin.size())) << " of cubin, "
            << byte_size(static_cast<std::int64_t>(plan.workspace_bytes)) << " of workspace\n\n";
  print_report(unit, plan);
  for (const std::string& warning : unit.warnings) std::cout << "warning: " << warning << '\n';
  return done;
}

}  // namespace kiln::cli
