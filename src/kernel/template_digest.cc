#include "kernel/template_digest.h"

#include <functional>
#include <set>

#include "base/text.h"

namespace kiln {
namespace {

std::string launch_text(const std::vector<LaunchSpec>& launches) {
  std::string text;
  const std::function<void(const ArgSpec&)> add = [&text, &add](const ArgSpec& arg) {
    text += std::to_string(static_cast<int>(arg.kind)) + arg.name + (arg.value ? arg.value->text() : "") +
            std::to_string(static_cast<int>(arg.type)) + "(";
    for (const ArgSpec& field : arg.fields) add(field);
    text += ")";
  };
  for (const LaunchSpec& launch : launches) {
    text += launch.kernel + "|" + launch.when.text() + "|" + launch.shared.text() + "|" + launch.pdl.text() + "|";
    for (const auto* extents : {&launch.grid, &launch.block, &launch.cluster}) {
      for (const Expression& e : *extents) text += e.text() + ",";
      text += "|";
    }
    for (const ArgSpec& arg : launch.args) add(arg);
    text += "\n";
  }
  return text;
}

}  // namespace

LazyDigest template_digest(const Manifest& manifest, const OpSpec& op, const IncludeSet& includes) {
  std::vector<std::string> fields;
  const auto add = [&fields](auto... texts) { (fields.emplace_back(std::move(texts)), ...); };
  for (const auto& [name, text] : includes.headers) add(name, text);
  add(manifest.name, launch_text(manifest.launches));
  for (const ParamSpec& param : manifest.params) add(param.name, param.launch_time ? "launch" : "baked");
  const std::set<std::string> cost_names = manifest.cost_names();
  for (const LetSpec& let : manifest.lets) {
    if (cost_names.count(let.name) == 0) add(let.name, let.value.text());
  }
  for (const WorkspaceSpec& w : manifest.workspaces) add(w.name, w.bytes.text(), w.zero ? "0" : "");
  for (const TensorMapArg& map : manifest.tensor_maps) {
    add(map.name, map.operand, map.workspace, map.op_dtype.value_or(""), map.dtype ? to_string(*map.dtype) : "");
    for (const auto* list : {&map.dims, &map.strides, &map.box}) {
      for (const Expression& e : *list) add(e.text());
    }
    add(map.swizzle.text(), map.l2_promotion.text());
  }
  add(join(manifest.bake, ","), join(manifest.options, " "));
  for (const OperandSpec& operand : op.operands) add(operand.name);
  for (const ScalarSpec& scalar : op.scalars) add(scalar.name, std::to_string(static_cast<int>(scalar.type)));
  return LazyDigest(std::move(fields));
}

}  // namespace kiln
