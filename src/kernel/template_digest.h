// What identifies a template in stored decisions and cubins. Pure function; thread-safe.
#pragma once

#include "base/digest.h"
#include "kernel/includes.h"
#include "kernel/manifest.h"

namespace kiln {

// Of what changes the code or its launch: the sources and those parts of the manifest; never of value lists, cost
// terms, messages or paths.
LazyDigest template_digest(const Manifest& manifest, const OpSpec& op, const IncludeSet& includes);

}  // namespace kiln
