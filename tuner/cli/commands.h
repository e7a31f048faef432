// The subcommands of `kiln`, one to a file. Each prints its results to stdout, gives an ExitCode and throws Error.
#pragma once

#include "tuner/cli/command.h"

namespace kiln::cli {

int run_devices(const Arguments& arguments);
int run_template(const Arguments& arguments);
int run_template_list(const Arguments& arguments);
int run_template_show(const Arguments& arguments);
int run_template_check(const Arguments& arguments);
int run_compile(const Arguments& arguments);
int run_tune(const Arguments& arguments);
int run_query(const Arguments& arguments);
int run_bench(const Arguments& arguments);
int run_model(const Arguments& arguments);
int run_model_report(const Arguments& arguments);
int run_model_refit(const Arguments& arguments);
int run_model_replay(const Arguments& arguments);
int run_model_study(const Arguments& arguments);
int run_cache(const Arguments& arguments);

}  // namespace kiln::cli
