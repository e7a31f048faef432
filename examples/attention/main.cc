// Causal attention of a short prompt behind a longer context, 8 query heads sharing 2 of keys and values, through Kiln;
// checked against the same on the host.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "device_memory.h"
#include "kiln/kiln.h"

namespace {

constexpr int kHeads = 8;
constexpr int kKvHeads = 2;
constexpr int kQueries = 40;
constexpr int kKeys = 100;
constexpr int kD = 64;

std::uint16_t to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float from_bf16(std::uint16_t value) {
  const std::uint32_t bits = std::uint32_t{value} << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// [tokens, heads, d], as Kiln takes it where no strides are given; waves of different lengths, so that keys differ.
std::vector<std::uint16_t> waves(int tokens, int heads, float frequency) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(tokens * heads * kD));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_bf16(std::sin(frequency * static_cast<float>(i)));
  return values;
}

}  // namespace

int main() {
  const example::Driver driver;
  const std::vector<std::uint16_t> q = waves(kQueries, kHeads, 0.7F);
  const std::vector<std::uint16_t> k = waves(kKeys, kKvHeads, 1.1F);
  const std::vector<std::uint16_t> v = waves(kKeys, kKvHeads, 1.7F);
  void* const q_device = driver.upload(q);
  void* const k_device = driver.upload(k);
  void* const v_device = driver.upload(v);
  void* const o_device = driver.upload(std::vector<float>(q.size()));

  kiln::Runtime runtime;
  const kiln::AttentionOperation attention = runtime.prepare(kiln::Attention{.heads = kHeads,
                                                                             .kv_heads = kKvHeads,
                                                                             .s_q = kQueries,
                                                                             .s_k = kKeys,
                                                                             .d = kD,
                                                                             .o = kiln::f32,
                                                                             .mask = kiln::Mask::causal});
  attention(nullptr, q_device, k_device, v_device, o_device);
  driver.synchronize();

  const std::vector<float> o = driver.download<float>(o_device, q.size());
  double worst = 0;
  for (int head = 0; head < kHeads; ++head) {
    const int kv_head = head / (kHeads / kKvHeads);
    for (int query = 0; query < kQueries; ++query) {
      // The last query stands at the last key.
      const int seen = query + kKeys - kQueries + 1;
      std::vector<double> weights;
      double sum = 0;
      for (int key = 0; key < seen; ++key) {
        double logit = 0;
        for (int d = 0; d < kD; ++d) {
          logit += double{from_bf16(q[static_cast<std::size_t>((query * kHeads + head) * kD + d)])} *
                   double{from_bf16(k[static_cast<std::size_t>((key * kKvHeads + kv_head) * kD + d)])};
        }
        weights.push_back(std::exp(logit / std::sqrt(kD)));
        sum += weights.back();
      }
      for (int d = 0; d < kD; ++d) {
        double truth = 0;
        for (int key = 0; key < seen; ++key) {
          truth += weights[static_cast<std::size_t>(key)] / sum *
                   double{from_bf16(v[static_cast<std::size_t>((key * kKvHeads + kv_head) * kD + d)])};
        }
        worst = std::fmax(worst, std::fabs(truth - o[static_cast<std::size_t>((query * kHeads + head) * kD + d)]));
      }
    }
  }
  const kiln::Provenance answer = attention.provenance();
  std::printf("%s %s (%s): largest difference %g\n", answer.template_name.c_str(), kiln::to_text(answer.config).c_str(),
              kiln::to_string(answer.rung), worst);
  return worst < 1e-2 ? 0 : 1;
}
