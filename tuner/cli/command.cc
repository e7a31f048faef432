#include "tuner/cli/command.h"

#include <charconv>
#include <cmath>
#include <iostream>
#include <map>
#include <sstream>

#include "base/log.h"
#include "base/text.h"

namespace kiln::cli {
namespace {

po::options_description common_options() {
  po::options_description options("For every command");
  options.add_options()                                                                                          //
      ("help,h", "show this help")                                                                               //
      ("cache", po::value<std::string>()->value_name("FILE"), "database of tuned results; default: KILN_CACHE")  //
      ("templates", po::value<std::vector<std::string>>()->value_name("FOLDER")->composing(),
       "a further template folder (repeatable); added to KILN_TEMPLATES")  //
      ("log", po::value<std::string>()->value_name("LEVEL"),
       "trace, debug, info, warning, error, critical or off; default: KILN_LOG");
  return options;
}

std::vector<std::string> option_names(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  return names;
}

// The number before a unit, and the unit.
struct Quantity {
  double number = 0;
  std::string unit;
};
std::optional<Quantity> parse_quantity(const std::string& text) {
  Quantity quantity;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, quantity.number);
  if (error != std::errc{} || !std::isfinite(quantity.number) || quantity.number < 0) return std::nullopt;
  quantity.unit.assign(rest, end);
  return quantity;
}

// `text` in the units of `factors`; empty when it is not such a quantity, or too large to count.
std::optional<std::int64_t> scale(const std::string& text, const std::map<std::string, double>& factors) {
  const std::optional<Quantity> quantity = parse_quantity(text);
  if (!quantity) return std::nullopt;
  const auto factor = factors.find(quantity->unit);
  if (factor == factors.end()) return std::nullopt;
  const double scaled = quantity->number * factor->second;
  constexpr double kMostExact = 9007199254740992.0;  // 2⁵³
  if (scaled > kMostExact) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(scaled));
}

ExitCode exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return usage;
    case ErrorCode::no_driver:
    case ErrorCode::no_device:
      return no_device;
    case ErrorCode::not_found:
      return not_found;
    case ErrorCode::interrupted:
      return interrupted;
    default:
      return failed;
  }
}

}  // namespace

int report(const Error& error, const std::string& command) {
  std::cerr << "Error: " << error.what() << '\n';
  const ExitCode code = exit_code(error.code());
  if (code == usage) std::cerr << "See " << command << " --help.\n";
  return code;
}

int dispatch(const std::string& name, const std::string& summary, const std::vector<Command>& commands,
             const Arguments& arguments) {
  const auto print_commands = [&](std::ostream& out) {
    out << "usage: " << name << " COMMAND [options]\n" << summary << "\n\n";
    for (const Command& command : commands) {
      if (command.summary == nullptr) continue;
      std::string column = command.name;
      column.resize(12, ' ');
      out << "  " << column << command.summary << '\n';
    }
    out << "\n" << name << " COMMAND --help says more of each.\n";
  };
  if (arguments.empty()) {
    print_commands(std::cerr);
    return usage;
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") {
    print_commands(std::cout);
    return done;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (first == command.name) {
      const std::string full_name = name + " " + first;
      try {
        return command.run(Arguments(arguments.begin() + 1, arguments.end()));
      } catch (const Error& error) {
        return report(error, full_name);
      }
    }
    if (command.summary != nullptr) names.emplace_back(command.name);
  }
  std::cerr << "Error: " << name << " has no command '" << first << "'" << did_you_mean(first, names) << "; there are "
            << join(names, ", ") << ".\nSee " << name << " --help.\n";
  return usage;
}

std::optional<po::variables_map> parse(const Synopsis& synopsis, const po::options_description& options,
                                       const Arguments& arguments, const char* positional) {
  po::options_description all;
  all.add(options).add(common_options());
  po::positional_options_description positions;
  if (positional != nullptr) positions.add(positional, -1);

  // Guessing would turn a misspelt --resum into --resume today and into an error when --resumable comes.
  constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positions).style(kStyle).run(), values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    const std::string& name = error.get_option_name();
    throw Error(ErrorCode::invalid_argument,
                "there is no option '" + name + "'" + did_you_mean(name, option_names(all)));
  } catch (const po::too_many_positional_options_error&) {
    throw Error(ErrorCode::invalid_argument, "only options are expected here, got '" + join(arguments, " ") + "'");
  } catch (const po::error& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  if (values.count("help") != 0) {
    std::cout << "usage: " << synopsis.usage << "\n" << synopsis.summary << "\n" << all;
    return std::nullopt;
  }
  set_log_level(runtime_options(values).log_level);
  return values;
}

RuntimeOptions runtime_options(const po::variables_map& values) {
  RuntimeOptions options = options_from_environment();
  if (values.count("cache") != 0) options.cache = values["cache"].as<std::string>();
  if (values.count("log") != 0) options.log_level = values["log"].as<std::string>();
  for (const std::string& folder : texts(values, "templates")) options.template_folders.emplace_back(folder);
  return options;
}

std::string text_or(const po::variables_map& values, const char* option, const std::string& fallback) {
  return values.count(option) != 0 ? values[option].as<std::string>() : fallback;
}

std::string required_text(const po::variables_map& values, const char* option) {
  if (values.count(option) == 0) {
    throw Error(ErrorCode::invalid_argument, std::string("--") + option + " is missing");
  }
  return values[option].as<std::string>();
}

std::vector<std::string> texts(const po::variables_map& values, const char* option) {
  return values.count(option) != 0 ? values[option].as<std::vector<std::string>>() : std::vector<std::string>{};
}

std::chrono::milliseconds parse_duration(const std::string& text, const char* option) {
  static const std::map<std::string, double> kFactors = {{"", 1e3},   {"ms", 1},     {"s", 1e3},
                                                         {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}};
  const std::optional<std::int64_t> milliseconds = scale(text, kFactors);
  if (!milliseconds || *milliseconds == 0) {
    throw Error(ErrorCode::invalid_argument, std::string("--") + option + ": '" + text +
                                                 "' is not a duration; write 90s, 500ms, 5m or 1h, above zero");
  }
  return std::chrono::milliseconds(*milliseconds);
}

std::int64_t parse_byte_count(const std::string& text, const char* option) {
  static const std::map<std::string, double> kFactors = {{"", 1},
                                                         {"K", 1024.0},
                                                         {"KiB", 1024.0},
                                                         {"M", 1048576.0},
                                                         {"MiB", 1048576.0},
                                                         {"G", 1073741824.0},
                                                         {"GiB", 1073741824.0}};
  const std::optional<std::int64_t> bytes = scale(text, kFactors);
  if (!bytes) {
    throw Error(ErrorCode::invalid_argument,
                std::string("--") + option + ": '" + text + "' is not a size in bytes; write 65536, 512M or 2G");
  }
  return *bytes;
}

}  // namespace kiln::cli
