// What the subcommands of `kiln` share: exit codes, option parsing, and the way an Error becomes an exit code.
// A subcommand is one function in one file; it prints results to stdout, and throws Error for what it cannot do.
// Single-threaded.
#pragma once

#include <boost/program_options.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "kiln/error.h"
#include "kiln/options.h"

namespace kiln::cli {

namespace po = boost::program_options;

enum ExitCode : int { done = 0, failed = 1, usage = 2, no_device = 3, not_found = 4, interrupted = 5 };

using Arguments = std::vector<std::string>;

struct Command {
  const char* name;
  const char* summary;  // one line of `kiln --help`; null: a helper that only Kiln itself starts
  int (*run)(const Arguments& arguments);
};

// Prints `Error: …` to stderr and gives the exit code that stands for the error.
int report(const Error& error, const std::string& command);

// Runs the subcommand that `arguments` begins with, or prints the list of them. `name` is what was typed so far.
int dispatch(const std::string& name, const std::string& summary, const std::vector<Command>& commands,
             const Arguments& arguments);

struct Synopsis {
  std::string usage;    // "kiln query --op OP --problem FIELDS [options]"
  std::string summary;  // what it does, for --help
};

// Reads a subcommand's options. Adds --help and the options of every command (--cache, --log, --templates), and applies
// the log level. Empty when --help was asked for and printed. Positional arguments go to the option `positional` (null:
// there are none). Throws Error{invalid_argument} naming the option, and near names for an unknown one.
std::optional<po::variables_map> parse(const Synopsis& synopsis, const po::options_description& options,
                                       const Arguments& arguments, const char* positional = nullptr);

// The environment's options with this command line's flags on top.
RuntimeOptions runtime_options(const po::variables_map& values);

// The option's value, or the default.
std::string text_or(const po::variables_map& values, const char* option, const std::string& fallback);
// Throws Error{invalid_argument} asking for `option` when it was not given.
std::string required_text(const po::variables_map& values, const char* option);
std::vector<std::string> texts(const po::variables_map& values, const char* option);

// "90", "90s", "500ms", "5m", "1h". Throws Error{invalid_argument} naming `option`.
std::chrono::milliseconds parse_duration(const std::string& text, const char* option);
// "512M", "2G", "65536". Throws Error{invalid_argument} naming `option`.
std::int64_t parse_byte_count(const std::string& text, const char* option);

}  // namespace kiln::cli
