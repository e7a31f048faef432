// kiln template list: the templates of every op, built-in and the user's.
#include <iostream>

#include "base/text.h"
#include "tuner/cli/commands.h"
#include "tuner/cli/output.h"
#include "tuner/cli/session.h"

namespace kiln::cli {

int run_template_list(const Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()                                                     //
      ("op", po::value<std::string>()->value_name("OP"), "only this op's")  //
      ("json", "as JSON");
  const auto values =
      parse({.usage = "kiln template list [options]", .summary = "Lists the templates there are."}, options, arguments);
  if (!values) return done;

  Session session(*values);
  const std::string only = text_or(*values, "op", "");
  if (!only.empty()) session.templates().find_op(only);  // an unknown op is an error, not an empty list
  Table table({"op", "template", "targets", ">raw space", "digest", "summary"});
  Json json = Json::array();
  for (const TemplatePtr& t : session.templates().all()) {
    if (!only.empty() && t->op->name != only) continue;
    double raw = 1;
    for (const ParamSpec& param : t->manifest.params) raw *= static_cast<double>(param.values.size());
    table.add({t->op->name, t->manifest.name, join(t->manifest.arch, " "), fixed(raw, 0), t->digest.hex().substr(0, 12),
               t->manifest.summary});
    json.push_back({{"op", t->op->name},
                    {"template", t->manifest.name},
                    {"arch", t->manifest.arch},
                    {"raw_space", raw},
                    {"digest", t->digest.hex()},
                    {"file", t->file},
                    {"summary", t->manifest.summary}});
  }
  if (values->count("json") != 0) {
    print_json(json);
  } else {
    std::cout << table;
  }
  return done;
}

}  // namespace kiln::cli
