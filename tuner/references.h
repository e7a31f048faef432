// What a measuring job needs beside its candidates: the check kernels and the kernels that compute the truth, built for
// one problem. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernel/template_set.h"
#include "tuner/kernel_builder.h"

namespace kiln::tuner {

class References {
 public:
  // Everything given by reference must outlive it.
  References(const TemplateSet& templates, KernelBuilder& builder, const cuda::DeviceInfo& device, const OpSpec& op,
             const Problem& problem);

  // Builds what candidates of `t` are checked with. Empty when `stop` said so first; otherwise the index for
  // Candidate::reference, or why there is none.
  std::optional<std::variant<std::size_t, Failure>> prepare(const KernelTemplate& t, const std::function<bool()>& stop);

  // Puts everything prepared so far into `job`.
  void give_to(MeasureJob& job) const;

 private:
  std::optional<std::variant<BuiltKernel, Failure>> build(const KernelTemplate& t, Reference* reference,
                                                          const std::function<bool()>& stop);
  std::optional<Failure> build_check_kernels(const std::function<bool()>& stop, bool* stopped);

  const TemplateSet& templates_;
  KernelBuilder& builder_;
  const cuda::DeviceInfo& device_;
  const OpSpec& op_;
  const Problem& problem_;
  Problem reference_problem_;
  std::string check_cubin_;
  std::map<std::string, std::string> check_symbols_;
  std::vector<Reference> references_;
  std::map<std::string, std::size_t> index_;  // by reference template, or by the template that brings its own
};

}  // namespace kiln::tuner
