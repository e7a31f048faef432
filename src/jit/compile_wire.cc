#include "jit/compile_wire.h"

#include "kiln/error.h"

namespace kiln::jit {
namespace {

// Sources, logs and cubins travel as byte strings: a text string of CBOR must be UTF-8, and these need not be.
Json bytes_of(const std::string& text) { return Json::binary(std::vector<std::uint8_t>(text.begin(), text.end())); }

std::string text_of(const Json& json) {
  const Json::binary_t& bytes = json.get_binary();
  return std::string(bytes.begin(), bytes.end());
}

Json bytes_of(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push_back(bytes_of(text));
  return json;
}

std::vector<std::string> texts_of(const Json& json) {
  std::vector<std::string> texts;
  for (const Json& each : json) texts.push_back(text_of(each));
  return texts;
}

Json to_json(const KernelResources& kernel) {
  return {{"name_expression", bytes_of(kernel.name_expression)},
          {"symbol", bytes_of(kernel.symbol)},
          {"registers", kernel.registers},
          {"spill_store_bytes", kernel.spill_store_bytes},
          {"spill_load_bytes", kernel.spill_load_bytes},
          {"stack_bytes", kernel.stack_bytes},
          {"static_shared_bytes", kernel.static_shared_bytes},
          {"constant_bytes", kernel.constant_bytes},
          {"barriers", kernel.barriers}};
}

KernelResources kernel_from_json(const Json& json) {
  return KernelResources{.name_expression = text_of(json.at("name_expression")),
                         .symbol = text_of(json.at("symbol")),
                         .registers = json.at("registers").get<int>(),
                         .spill_store_bytes = json.at("spill_store_bytes").get<int>(),
                         .spill_load_bytes = json.at("spill_load_bytes").get<int>(),
                         .stack_bytes = json.at("stack_bytes").get<int>(),
                         .static_shared_bytes = json.at("static_shared_bytes").get<int>(),
                         .constant_bytes = json.at("constant_bytes").get<int>(),
                         .barriers = json.at("barriers").get<int>()};
}

Json to_json(const CompiledUnit& unit) {
  Json kernels = Json::array();
  for (const KernelResources& kernel : unit.kernels) kernels.push_back(to_json(kernel));
  return {{"cubin", bytes_of(unit.cubin)},       {"ptx", bytes_of(unit.ptx)}, {"kernels", std::move(kernels)},
          {"warnings", bytes_of(unit.warnings)}, {"log", bytes_of(unit.log)}, {"milliseconds", unit.milliseconds}};
}

CompiledUnit unit_from_json(const Json& json) {
  CompiledUnit unit{.cubin = text_of(json.at("cubin")),
                    .ptx = text_of(json.at("ptx")),
                    .kernels = {},
                    .warnings = texts_of(json.at("warnings")),
                    .log = text_of(json.at("log")),
                    .milliseconds = json.at("milliseconds").get<double>()};
  for (const Json& kernel : json.at("kernels")) unit.kernels.push_back(kernel_from_json(kernel));
  return unit;
}

// Runs `read`, turning the JSON library's complaints into Kiln's.
template <class Read>
auto read_message(const char* what, Read read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::io, std::string("the message is not ") + what + ": " + error.what());
  }
}

}  // namespace

Json to_json(const CompileRequest& request) {
  Json headers = Json::array();
  for (const auto& [name, text] : request.headers) headers.push_back({bytes_of(name), bytes_of(text)});
  return {{"source", bytes_of(request.source)},
          {"file_name", bytes_of(request.file_name)},
          {"headers", std::move(headers)},
          {"name_expressions", bytes_of(request.name_expressions)},
          {"arch", bytes_of(request.arch)},
          {"options", bytes_of(request.options)},
          {"include_paths", bytes_of(request.include_paths)}};
}

Json to_json(const CompileOutcome& outcome) {
  if (const auto* unit = std::get_if<CompiledUnit>(&outcome)) return {{"unit", to_json(*unit)}};
  const auto& failure = std::get<CompileFailure>(outcome);
  return {{"failure", {{"message", bytes_of(failure.message)}, {"log", bytes_of(failure.log)}}}};
}

CompileRequest request_from_json(const Json& json) {
  return read_message("a compile request", [&] {
    CompileRequest request{.source = text_of(json.at("source")),
                           .file_name = text_of(json.at("file_name")),
                           .headers = {},
                           .name_expressions = texts_of(json.at("name_expressions")),
                           .arch = text_of(json.at("arch")),
                           .options = texts_of(json.at("options")),
                           .include_paths = texts_of(json.at("include_paths"))};
    for (const Json& header : json.at("headers")) request.headers[text_of(header.at(0))] = text_of(header.at(1));
    return request;
  });
}

CompileOutcome outcome_from_json(const Json& json) {
  return read_message("a compile outcome", [&]() -> CompileOutcome {
    if (json.contains("unit")) return unit_from_json(json.at("unit"));
    const Json& failure = json.at("failure");
    return CompileFailure{.message = text_of(failure.at("message")), .log = text_of(failure.at("log"))};
  });
}

}  // namespace kiln::jit
