#include "tuner/measure/peers.h"

#include <array>
#include <string_view>

#include "kiln/error.h"
#include "tuner/measure/cublaslt.h"

namespace kiln::tuner {
namespace {

using PeerFactory = std::unique_ptr<Peer> (*)(const OpSpec& op, const Problem& problem);

struct PeerEntry {
  std::string_view op;
  std::string_view name;
  PeerFactory make;
};

constexpr std::array kPeers{
    PeerEntry{"gemm", "cublaslt_best",
              [](const OpSpec& op, const Problem& problem) { return make_cublaslt_gemm(op, problem, 8); }},
    PeerEntry{"gemm", "cublaslt_default",
              [](const OpSpec& op, const Problem& problem) { return make_cublaslt_gemm(op, problem, 1); }},
};

}  // namespace

std::vector<std::string> peer_names(const std::string& op) {
  std::vector<std::string> names;
  for (const PeerEntry& peer : kPeers) {
    if (peer.op == op) names.emplace_back(peer.name);
  }
  return names;
}

std::unique_ptr<Peer> make_peer(const std::string& name, const OpSpec& op, const Problem& problem) {
  std::string known;
  for (const PeerEntry& peer : kPeers) {
    if (peer.op != op.name) continue;
    if (peer.name == name) return peer.make(op, problem);
    known += (known.empty() ? "" : ", ") + std::string(peer.name);
  }
  throw Error(ErrorCode::not_found,
              "op " + op.name + " has no peer '" + name + "'; it has " + (known.empty() ? "none" : known));
}

}  // namespace kiln::tuner
