#include "kiln/problem.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <vector>

#include "base/digest.h"
#include "kiln/error.h"

namespace kiln {
namespace {

constexpr std::string_view kAlignPrefix = "align_";

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '+';
  });
}

// Anything but a word would let two different problems share one text.
void append_word(std::string& text, std::string_view word) {
  if (!is_word(word)) {
    throw Error(ErrorCode::invalid_argument,
                "problem: '" + std::string(word) + "' is not a word of letters, digits, '_', '-', '.' and '+'");
  }
  text += word;
}

void append_field(std::string& text, std::string_view name, std::string_view value) {
  text += ' ';
  append_word(text, name);
  text += '=';
  append_word(text, value);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw Error(ErrorCode::invalid_argument, "canonical problem '" + std::string(text) + "': " + reason);
}

template <class Integer>
Integer parse_integer(std::string_view text, std::string_view piece, std::string_view value) {
  Integer number{};
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc{} || end != value.data() + value.size()) {
    refuse(text, "'" + std::string(piece) + "' does not end in an integer");
  }
  return number;
}

}  // namespace

std::string Problem::canonical() const {
  std::string text;
  append_word(text, op);
  for (const auto& [name, value] : dims) append_field(text, name, std::to_string(value));
  text += " |";
  for (const auto& [name, value] : dtypes) append_field(text, name, to_string(value));
  text += " |";
  for (const auto& [name, value] : choices) append_field(text, name, value);
  text += " |";
  for (const auto& [name, value] : alignments) {
    append_field(text, std::string(kAlignPrefix) + name, std::to_string(value));
  }
  return text;
}

std::string Problem::digest() const { return sha256_hex(canonical()); }

Problem parse_canonical_problem(std::string_view text) {
  enum Section { dims, dtypes, choices, alignments };
  const std::vector<std::string_view> pieces = split(text, ' ');
  Problem problem;
  if (!is_word(pieces[0])) refuse(text, "it does not start with the name of an op");
  problem.op = pieces[0];

  int section = dims;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const std::string_view piece = pieces[i];
    if (piece == "|") {
      if (++section > alignments) refuse(text, "it has more than four parts");
      continue;
    }
    const std::size_t equals = piece.find('=');
    if (equals == std::string_view::npos) refuse(text, "'" + std::string(piece) + "' is not name=value");
    std::string_view name = piece.substr(0, equals);
    const std::string_view value = piece.substr(equals + 1);
    if (section == alignments) {
      if (!name.starts_with(kAlignPrefix)) refuse(text, "'" + std::string(piece) + "' is not align_<operand>=<bytes>");
      name.remove_prefix(kAlignPrefix.size());
    }
    if (!is_word(name) || !is_word(value)) refuse(text, "'" + std::string(piece) + "' is not name=value");

    bool added = false;
    const std::string key(name);
    switch (section) {
      case dims:
        added = problem.dims.emplace(key, parse_integer<std::int64_t>(text, piece, value)).second;
        break;
      case dtypes: {
        const std::optional<DType> dtype = parse_dtype(value);
        if (!dtype) {
          refuse(text, "'" + std::string(piece) + "' names no dtype; there are " + std::string(dtype_names()));
        }
        added = problem.dtypes.emplace(key, *dtype).second;
        break;
      }
      case choices:
        added = problem.choices.emplace(key, value).second;
        break;
      case alignments:
        added = problem.alignments.emplace(key, parse_integer<int>(text, piece, value)).second;
        break;
    }
    if (!added) refuse(text, "'" + std::string(name) + "' is given twice");
  }
  if (section != alignments) refuse(text, "it has fewer than four parts");
  return problem;
}

ProblemText parse_problem_text(std::string_view op, std::string_view text) {
  ProblemText result{.op = std::string(trim(op)), .fields = {}};
  if (trim(text).empty()) return result;
  for (const std::string_view raw : split(text, ',')) {
    const std::string_view piece = trim(raw);
    const std::size_t equals = piece.find('=');
    const std::string_view name = trim(piece.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? "" : trim(piece.substr(equals + 1));
    if (!is_word(name) || !is_word(value)) {
      throw Error(ErrorCode::invalid_argument, "problem '" + std::string(text) + "': '" + std::string(piece) +
                                                   "' is not name=value, e.g. m=4096,n=4096,k=4096,dtype=bf16");
    }
    if (!result.fields.emplace(lower(name), value).second) {
      throw Error(ErrorCode::invalid_argument, "problem '" + std::string(text) + "': '" + std::string(name) +
                                                   "' is given twice (case does not matter)");
    }
  }
  return result;
}

}  // namespace kiln
