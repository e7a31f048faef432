// kiln template: list, show and check.
#include "tuner/cli/commands.h"

namespace kiln::cli {

int run_template(const Arguments& arguments) {
  return dispatch("kiln template", "Kernel templates: those built in, and those of --templates and KILN_TEMPLATES.",
                  {{"list", "every template, by op", run_template_list},
                   {"show", "one template: its parameters, and its space for a problem", run_template_show},
                   {"check", "every check of a manifest that needs no GPU", run_template_check}},
                  arguments);
}

}  // namespace kiln::cli
