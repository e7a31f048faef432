// kiln model: how well the cost models rank what was measured, and fitting their constants.
#include "tuner/cli/commands.h"

namespace kiln::cli {

int run_model(const Arguments& arguments) {
  return dispatch("kiln model", "The templates' cost models against the measured trials of the database.",
                  {{"report", "how well each model ranks what was measured", run_model_report},
                   {"refit", "fit a model's constants to what was measured", run_model_refit},
                   {"replay", "what the default search finds among stored trials, without a GPU", run_model_replay},
                   {"study", "how near the default search comes to an exhaustive one", run_model_study}},
                  arguments);
}

}  // namespace kiln::cli
