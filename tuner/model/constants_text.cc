#include "tuner/model/constants_text.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "kernel/toml_reader.h"
#include "kiln/error.h"

namespace kiln::tuner {
namespace {

struct Span {
  std::size_t begin;
  std::size_t length;
};

std::vector<std::string> names_of(const std::vector<CostConstant>& constants) {
  std::vector<std::string> names;
  for (const CostConstant& constant : constants) names.push_back(constant.name);
  std::sort(names.begin(), names.end());
  return names;
}

// toml++ counts lines and code points from 1.
std::size_t byte_offset(const std::string& text, toml::source_position position) {
  std::size_t offset = 0;
  for (toml::source_index line = 1; line < position.line; ++line) offset = text.find('\n', offset) + 1;
  const auto continues_character = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  for (toml::source_index column = 1; column < position.column; ++column) {
    do ++offset;
    while (offset < text.size() && continues_character(offset));
  }
  return offset;
}

Span integer_at(const std::string& text, std::size_t begin) {
  std::size_t end = begin;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_' ||
                               text[end] == '+' || text[end] == '-')) {
    ++end;
  }
  return {begin, end - begin};
}

}  // namespace

std::string with_constants(const std::string& text, const std::string& file,
                           const std::vector<CostConstant>& constants) {
  const std::vector<std::string> there = names_of(read_manifest(text, file).cost_constants);
  const std::vector<std::string> wanted = names_of(constants);
  if (there != wanted) {
    throw Error(ErrorCode::invalid_argument,
                file + ": cost.constants has " + (there.empty() ? "nothing" : join(there, ", ")) +
                    ", but what was fitted are " + join(wanted, ", ") + "; write to the manifest that was fitted");
  }
  const toml::table parsed = parse_toml(text, file);
  std::vector<std::pair<Span, std::int64_t>> edits;
  for (const CostConstant& constant : constants) {
    const toml::node* node = parsed["cost"]["constants"][constant.name].node();
    edits.emplace_back(integer_at(text, byte_offset(text, node->source().begin)), constant.value);
  }
  // From the end, so that earlier places stay where they are.
  std::sort(edits.begin(), edits.end(), [](const auto& a, const auto& b) { return a.first.begin > b.first.begin; });
  std::string result = text;
  for (const auto& [span, value] : edits) result.replace(span.begin, span.length, std::to_string(value));
  return result;
}

std::string constants_block(const std::vector<CostConstant>& constants) {
  std::size_t width = 0;
  for (const CostConstant& constant : constants) width = std::max(width, constant.name.size());
  std::string block = "[cost.constants]\n";
  for (const CostConstant& constant : constants) {
    std::string name = constant.name;
    name.resize(width, ' ');
    block += name + " = " + std::to_string(constant.value) + "\n";
  }
  return block;
}

}  // namespace kiln::tuner
