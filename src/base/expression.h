// Integer expressions of manifests: `ceil_div(M, BM) * ceil_div(N, BN)`. Parsed and evaluated by muParser, restricted
// to 64-bit integer arithmetic: + - * / % (division truncates), comparisons, && ||, ?:, and the functions ceil_div,
// align, min, max, log2. Everything else is refused. Every value is exact: one that is not below 2⁵³ in magnitude is an
// error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// Named integers that expressions read. Not thread-safe.
class Scope {
 public:
  // Throws Error{invalid_expression} for a value that is not below 2⁵³ in magnitude.
  void set(const std::string& name, std::int64_t value);
  // Throws Error{invalid_expression} for an unknown name, listing near names.
  std::int64_t get(const std::string& name) const;
  std::optional<std::int64_t> find(const std::string& name) const;
  const std::map<std::string, double>& values() const noexcept { return values_; }
  // Where the value lives as long as the scope does, for loops that set it often. Made with value 0 when new.
  double* slot(const std::string& name) { return &values_[name]; }

 private:
  // Evaluators hold the addresses of values, which a std::map never moves.
  std::map<std::string, double> values_;
};

// The text of an expression, checked to parse. Immutable; thread-safe.
class Expression {
 public:
  // Throws Error{invalid_expression}: what was met, where, and what is allowed.
  explicit Expression(std::string text);
  explicit Expression(std::int64_t constant);

  const std::string& text() const noexcept { return text_; }
  // The names it reads, sorted.
  const std::vector<std::string>& symbols() const noexcept { return symbols_; }
  // Throws Error{invalid_expression}: unknown symbol (near names listed), division by zero, overflow.
  std::int64_t evaluate(const Scope& scope) const;

 private:
  std::string text_;
  std::vector<std::string> symbols_;
};

// An expression bound to a scope, compiled once and cheap to evaluate again as the scope's values change. The scope
// must outlive it and must already hold every symbol. Not thread-safe.
class Evaluator {
 public:
  Evaluator(const Expression& expression, Scope& scope);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;
  // Throws like Expression::evaluate.
  std::int64_t operator()() const;

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace kiln
