// kiln cache: looks after the database of tuned results.
#include <iostream>

#include "cache/exchange.h"
#include "cache/maintenance.h"
#include "kiln/version.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/session.h"

namespace kiln::cli {
namespace {

po::options_description json_option() {
  po::options_description options("Options");
  options.add_options()("json", "as JSON");
  return options;
}

// What imported rows are compared with: this program's own version. Driver and NVRTC are left open, since neither need
// be on the machine that merges.
cache::ImportOptions import_options() { return {.versions = {.driver = 0, .nvrtc = "", .kiln = kVersion}}; }

void add(cache::ImportCounts& total, const cache::ImportCounts& counts) {
  total.added += counts.added;
  total.replaced += counts.replaced;
  total.kept += counts.kept;
}

Json to_json(const cache::ImportCounts& counts) {
  return {{"added", counts.added}, {"replaced", counts.replaced}, {"kept", counts.kept}};
}

int import_all(const po::variables_map& values, const std::filesystem::path& database,
               const std::vector<std::string>& files) {
  cache::ImportResult total;
  for (const std::string& file : files) {
    const cache::ImportResult result = cache::import_file(database, file, import_options());
    add(total.decisions, result.decisions);
    add(total.trials, result.trials);
  }
  if (values.count("json") != 0) {
    print_json(
        {{"database", database.string()}, {"decisions", to_json(total.decisions)}, {"trials", to_json(total.trials)}});
    return done;
  }
  Table table({"rows", ">added", ">replaced", ">kept"});
  const auto add_row = [&table](const std::string& name, const cache::ImportCounts& counts) {
    table.add({name, std::to_string(counts.added), std::to_string(counts.replaced), std::to_string(counts.kept)});
  };
  add_row("decisions", total.decisions);
  add_row("trials", total.trials);
  std::cout << "Into " << database.string() << ":\n" << table;
  return done;
}

int run_stats(const Arguments& arguments) {
  const auto values =
      parse({.usage = "kiln cache stats [options]", .summary = "How full the database is, and of what."}, json_option(),
            arguments);
  if (!values) return done;
  const cache::CacheStats stats = cache::stats(Session(*values).database());
  if (values->count("json") != 0) {
    Json classes = Json::object();
    for (const auto& [name, counts] : stats.classes) {
      classes[name] = {{"decisions", counts.decisions}, {"trials", counts.trials}, {"misses", counts.misses}};
    }
    Json set_aside = Json::array();
    for (const auto& file : stats.set_aside) set_aside.push_back(file.string());
    print_json({{"path", stats.path.string()},
                {"file_bytes", stats.file_bytes},
                {"wal_bytes", stats.wal_bytes},
                {"schema_version", stats.schema_version},
                {"newest_known_schema", stats.newest_known_schema},
                {"measured_decisions", stats.measured_decisions},
                {"predicted_decisions", stats.predicted_decisions},
                {"timed_trials", stats.timed_trials},
                {"failed_trials", stats.failed_trials},
                {"cubins", stats.cubins},
                {"cubin_bytes", stats.cubin_bytes},
                {"misses", stats.misses},
                {"classes", classes},
                {"failures", stats.failures},
                {"set_aside", set_aside}});
    return done;
  }
  std::cout << stats.path.string() << ": " << byte_size(stats.file_bytes) << ", " << byte_size(stats.wal_bytes)
            << " of write-ahead log, schema " << stats.schema_version << '\n'
            << "decisions  " << stats.measured_decisions << " measured, " << stats.predicted_decisions << " predicted\n"
            << "trials     " << stats.timed_trials << " timed, " << stats.failed_trials << " failed\n"
            << "cubins     " << stats.cubins << ", " << byte_size(stats.cubin_bytes) << '\n'
            << "misses     " << stats.misses << '\n';
  if (stats.schema_version > stats.newest_known_schema) {
    std::cout << "This database is from a newer Kiln; this one reads it and writes nothing.\n";
  }
  Table classes({"hardware class", ">decisions", ">trials", ">misses"});
  for (const auto& [name, counts] : stats.classes) {
    classes.add({name, std::to_string(counts.decisions), std::to_string(counts.trials), std::to_string(counts.misses)});
  }
  if (!classes.empty()) std::cout << '\n' << classes;
  Table failures({"failure", ">trials"});
  for (const auto& [kind, count] : stats.failures) failures.add({kind, std::to_string(count)});
  if (!failures.empty()) std::cout << '\n' << failures;
  for (const auto& file : stats.set_aside) std::cout << "set aside as damaged: " << file.string() << '\n';
  return done;
}

int run_verify(const Arguments& arguments) {
  const auto values =
      parse({.usage = "kiln cache verify [options]",
             .summary = "Reads everything and checks it; changes nothing. Exits 1 when damage is found."},
            json_option(), arguments);
  if (!values) return done;
  const std::filesystem::path database = Session(*values).database();
  const cache::VerifyReport report = cache::verify(database);
  if (values->count("json") != 0) {
    print_json({{"path", database.string()},
                {"ok", report.ok()},
                {"problems", report.problems},
                {"bad_cubins", report.bad_cubins},
                {"rows_checked", report.rows_checked},
                {"cubins_checked", report.cubins_checked}});
    return report.ok() ? done : failed;
  }
  for (const std::string& problem : report.problems) std::cout << "damaged: " << problem << '\n';
  for (const std::string& key : report.bad_cubins)
    std::cout << "damaged cubin: " << key << " (kiln cache gc removes it)\n";
  std::cout << database.string() << ": " << report.rows_checked << " rows and " << report.cubins_checked
            << " cubins checked, " << (report.ok() ? "sound" : "damaged") << '\n';
  return report.ok() ? done : failed;
}

int run_gc(const Arguments& arguments) {
  po::options_description options = json_option();
  options.add_options()("max-cubin-bytes", po::value<std::string>()->value_name("SIZE")->default_value("2G"),
                        "keep at most this much compiled code");
  const auto values =
      parse({.usage = "kiln cache gc [--max-cubin-bytes SIZE] [options]",
             .summary = "Drops the least recently used cubins; decisions and trials are never dropped."},
            options, arguments);
  if (!values) return done;
  const std::filesystem::path database = Session(*values).database();
  const cache::GcReport report = cache::gc(
      database,
      {.max_cubin_bytes = parse_byte_count((*values)["max-cubin-bytes"].as<std::string>(), "max-cubin-bytes")});
  if (values->count("json") != 0) {
    print_json({{"path", database.string()},
                {"cubins_removed", report.cubins_removed},
                {"cubin_bytes_removed", report.cubin_bytes_removed},
                {"misses_removed", report.misses_removed},
                {"file_bytes_before", report.file_bytes_before},
                {"file_bytes_after", report.file_bytes_after}});
    return done;
  }
  std::cout << "Removed " << report.cubins_removed << " cubins (" << byte_size(report.cubin_bytes_removed) << ") and "
            << report.misses_removed << " answered misses; " << byte_size(report.file_bytes_before) << " → "
            << byte_size(report.file_bytes_after) << '\n';
  return done;
}

int run_export(const Arguments& arguments) {
  po::options_description options = json_option();
  options.add_options()                                                                                    //
      ("file", po::value<std::vector<std::string>>()->value_name("FILE"), "JSON for *.json, else SQLite")  //
      ("class", po::value<std::string>()->value_name("CLASS"), "only this hardware class")                 //
      ("decisions-only", "leave the trials out");
  const auto values =
      parse({.usage = "kiln cache export FILE [--class CLASS] [--decisions-only] [options]",
             .summary = "Writes the tuned results, without compiled code, to a file that import reads."},
            options, arguments, "file");
  if (!values) return done;
  const std::vector<std::string> files = texts(*values, "file");
  if (files.size() != 1) throw Error(ErrorCode::invalid_argument, "name one file to write");
  using Rows = cache::ExportOptions::Rows;
  const cache::ExportCounts counts = cache::export_store(
      Session(*values).database(), files.front(),
      {.hardware_class = text_or(*values, "class", ""),
       .rows = values->count("decisions-only") != 0 ? Rows::decisions : Rows::decisions_and_trials});
  if (values->count("json") != 0) {
    print_json({{"file", files.front()}, {"decisions", counts.decisions}, {"trials", counts.trials}});
    return done;
  }
  std::cout << files.front() << ": " << counts.decisions << " decisions, " << counts.trials << " trials\n";
  return done;
}

int run_import(const Arguments& arguments) {
  po::options_description options = json_option();
  options.add_options()("file", po::value<std::vector<std::string>>()->value_name("FILE"), "exports, or databases");
  const auto values = parse({.usage = "kiln cache import FILE… [options]",
                             .summary = "Adds the results of other databases; where both know, better evidence wins."},
                            options, arguments, "file");
  if (!values) return done;
  const std::vector<std::string> files = texts(*values, "file");
  if (files.empty()) throw Error(ErrorCode::invalid_argument, "name the files to import");
  return import_all(*values, Session(*values).database(), files);
}

int run_merge(const Arguments& arguments) {
  po::options_description options = json_option();
  options.add_options()                                                                             //
      ("into", po::value<std::string>()->value_name("DATABASE"), "the database to make or add to")  //
      ("file", po::value<std::vector<std::string>>()->value_name("FILE"), "exports, or databases");
  const auto values =
      parse({.usage = "kiln cache merge --into DATABASE FILE… [options]",
             .summary = "Merges results into a database other than this user's own; better evidence wins."},
            options, arguments, "file");
  if (!values) return done;
  const std::vector<std::string> files = texts(*values, "file");
  if (files.empty()) throw Error(ErrorCode::invalid_argument, "name the files to merge");
  return import_all(*values, required_text(*values, "into"), files);
}

}  // namespace

int run_cache(const Arguments& arguments) {
  return dispatch("kiln cache", "Looks after the database of tuned results.",
                  {{"stats", "how full it is, and of what", run_stats},
                   {"verify", "check every row and every cubin", run_verify},
                   {"gc", "drop the least recently used cubins", run_gc},
                   {"export", "write the results to a file", run_export},
                   {"import", "add the results of other files", run_import},
                   {"merge", "merge files into another database", run_merge}},
                  arguments);
}

}  // namespace kiln::cli
