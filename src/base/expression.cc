#include "base/expression.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <muParser.h>

#include "base/text.h"
#include "kiln/error.h"

namespace kiln {
namespace {

// 2⁵³. Every integer below it is exact in a double; it is itself what 2⁵³ + 1 rounds to, so it cannot be trusted.
constexpr std::int64_t kLimit = std::int64_t{1} << 53;
constexpr std::size_t kPlainDigits = 15;  // a number of so few digits is below the limit
constexpr const char kAllowed[] =
    "allowed are integers, names, + - * / %, == != < <= > >=, && ||, ?:, parentheses, and the functions "
    "ceil_div, align, min, max, log2";

double exact(double value) {
  if (std::abs(value) >= static_cast<double>(kLimit)) throw mu::ParserError("a value is not below 2^53 in magnitude");
  return value;
}

double divide(double a, double b) {
  if (b == 0) throw mu::ParserError("division by zero");
  return std::trunc(a / b);
}

double modulo(double a, double b) {
  if (b == 0) throw mu::ParserError("remainder of a division by zero");
  return std::fmod(a, b);
}

double ceil_div(double a, double b) {
  if (b == 0) throw mu::ParserError("division by zero in ceil_div");
  return std::ceil(a / b);
}

double align(double a, double b) {
  if (b == 0) throw mu::ParserError("division by zero in align");
  return exact(std::ceil(a / b) * b);
}

double log2_floor(double a) {
  if (a < 1) throw mu::ParserError("log2 of a value below 1");
  return std::ilogb(a);  // of the exponent, where std::log2 would round 2^53 - 1 up to 53
}

int read_integer(const mu::char_type* text, int* position, mu::value_type* value) {
  int length = 0;
  double number = 0;
  while (text[length] >= '0' && text[length] <= '9') {
    number = number * 10 + (text[length] - '0');
    ++length;
  }
  if (length == 0) return 0;
  *position += length;
  *value = exact(number);
  return 1;
}

// muParser with its floating-point operators replaced by integer ones and nothing else left in.
class IntegerParser : public mu::ParserBase {
 public:
  IntegerParser() {
    AddValIdent(&read_integer);
    // Qualified: a constructor calls its own class's anyway.
    IntegerParser::InitCharSets();
    IntegerParser::InitFun();
    IntegerParser::InitOprt();
  }

  void InitCharSets() override {
    DefineNameChars("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    DefineOprtChars("+-*/%<>=!&|");
    DefineInfixOprtChars("-+");
  }
  void InitConst() override {}
  void InitFun() override {
    DefineFun("ceil_div", &ceil_div);
    DefineFun("align", &align);
    DefineFun("log2", &log2_floor);
    DefineFun("min", [](const double* v, int n) -> double { return *std::min_element(v, v + n); });
    DefineFun("max", [](const double* v, int n) -> double { return *std::max_element(v, v + n); });
  }
  void InitOprt() override {
    EnableBuiltInOprt(false);
    DefineInfixOprt("-", [](double a) -> double { return -a; });
    DefineInfixOprt("+", [](double a) -> double { return a; });
    DefineOprt(
        "+", [](double a, double b) -> double { return exact(a + b); }, mu::prADD_SUB);
    DefineOprt(
        "-", [](double a, double b) -> double { return exact(a - b); }, mu::prADD_SUB);
    DefineOprt(
        "*", [](double a, double b) -> double { return exact(a * b); }, mu::prMUL_DIV);
    DefineOprt("/", &divide, mu::prMUL_DIV);
    DefineOprt("%", &modulo, mu::prMUL_DIV);
    DefineOprt(
        "==", [](double a, double b) -> double { return a == b; }, mu::prCMP);
    DefineOprt(
        "!=", [](double a, double b) -> double { return a != b; }, mu::prCMP);
    DefineOprt(
        "<", [](double a, double b) -> double { return a < b; }, mu::prCMP);
    DefineOprt(
        "<=", [](double a, double b) -> double { return a <= b; }, mu::prCMP);
    DefineOprt(
        ">", [](double a, double b) -> double { return a > b; }, mu::prCMP);
    DefineOprt(
        ">=", [](double a, double b) -> double { return a >= b; }, mu::prCMP);
    DefineOprt(
        "&&", [](double a, double b) -> double { return a != 0 && b != 0; }, mu::prLAND);
    DefineOprt(
        "||", [](double a, double b) -> double { return a != 0 || b != 0; }, mu::prLOR);
  }
};

[[noreturn]] void rethrow(const std::string& text, const mu::ParserError& error) {
  std::string message = "expression '" + text + "': " + error.GetMsg();
  if (error.GetCode() != mu::ecGENERIC) message += std::string("; ") + kAllowed;
  throw Error(ErrorCode::invalid_expression, message);
}

// A variable that an expression names, with the value 1: what muParser calls for each it does not know.
double* define_as_one(const mu::char_type* name, void* ones) {
  return &static_cast<std::map<std::string, double>*>(ones)->emplace(name, 1.0).first->second;
}

bool is_name(const std::string& text) {
  return !text.empty() && (text.front() < '0' || text.front() > '9') &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// A manifest has a hundred expressions, and setting a parser up costs more than parsing one. Without variables.
IntegerParser& shared_parser() {
  static thread_local IntegerParser parser;
  parser.ClearVar();
  return parser;
}

// Parses and evaluates once with every name at 1, since parsing alone tolerates what evaluation does not.
std::vector<std::string> used_symbols(const std::string& text) {
  if (is_name(text)) return {text};
  IntegerParser& parser = shared_parser();
  std::map<std::string, double> ones;
  try {
    parser.SetVarFactory(&define_as_one, &ones);
    parser.SetExpr(text);
    static_cast<void>(parser.Eval());
  } catch (const mu::ParserError& error) {
    // A generic error is one of values, such as a division by (N - 1): the syntax is fine.
    if (error.GetCode() != mu::ecGENERIC) rethrow(text, error);
  }
  // muParser takes a list and answers its last value.
  if (parser.GetNumResults() > 1) {
    throw Error(ErrorCode::invalid_expression,
                "expression '" + text + "': has several values separated by commas; " + kAllowed);
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : ones) names.push_back(name);
  return names;
}

}  // namespace

void Scope::set(const std::string& name, std::int64_t value) {
  if (value >= kLimit || value <= -kLimit) {
    throw Error(ErrorCode::invalid_expression, "'" + name + "' is " + std::to_string(value) +
                                                   "; expressions compute with integers below 2^53 in magnitude");
  }
  values_[name] = static_cast<double>(value);
}

std::optional<std::int64_t> Scope::find(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) return std::nullopt;
  return static_cast<std::int64_t>(it->second);
}

std::int64_t Scope::get(const std::string& name) const {
  if (const auto value = find(name)) return *value;
  std::vector<std::string> known;
  for (const auto& [key, value] : values_) known.push_back(key);
  throw Error(ErrorCode::invalid_expression, "unknown symbol '" + name + "'" + did_you_mean(name, known));
}

Expression::Expression(std::string text) : text_(std::move(text)), symbols_(used_symbols(text_)) {}

Expression::Expression(std::int64_t constant) : text_(std::to_string(constant)) {}

std::int64_t Expression::evaluate(const Scope& scope) const {
  if (text_.size() <= kPlainDigits && text_.find_first_not_of("0123456789") == std::string::npos) {
    return std::stoll(text_);
  }
  std::vector<double> values;
  values.reserve(symbols_.size());
  for (const std::string& name : symbols_) {
    const auto value = scope.find(name);
    if (!value) {
      std::vector<std::string> known;
      for (const auto& [key, unused] : scope.values()) known.push_back(key);
      throw Error(ErrorCode::invalid_expression,
                  "expression '" + text_ + "': unknown symbol '" + name + "'" + did_you_mean(name, known));
    }
    if (name == text_) return *value;
    values.push_back(static_cast<double>(*value));
  }
  try {
    IntegerParser& parser = shared_parser();
    for (std::size_t i = 0; i < values.size(); ++i) parser.DefineVar(symbols_[i], &values[i]);
    parser.SetExpr(text_);
    return static_cast<std::int64_t>(parser.Eval());
  } catch (const mu::ParserError& error) {
    rethrow(text_, error);
  }
}

struct Evaluator::Parser {
  std::string text;
  IntegerParser parser;
};

Evaluator::Evaluator(const Expression& expression, Scope& scope) : parser_(std::make_unique<Parser>()) {
  parser_->text = expression.text();
  try {
    for (const std::string& name : expression.symbols()) {
      static_cast<void>(scope.get(name));
      parser_->parser.DefineVar(name, scope.slot(name));
    }
    parser_->parser.SetExpr(expression.text());
  } catch (const mu::ParserError& error) {
    rethrow(parser_->text, error);
  }
}

Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

std::int64_t Evaluator::operator()() const {
  try {
    return static_cast<std::int64_t>(parser_->parser.Eval());
  } catch (const mu::ParserError& error) {
    rethrow(parser_->text, error);
  }
}

}  // namespace kiln
