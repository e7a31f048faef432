// The epilogue of a GEMM over wgmma's accumulators, in registers. A block is 64 rows × N columns, as in
// tile/epilogue.cuh; Transposed says that its rows run along D's columns. Its columns from 8 · i on are a block of
// their own in its registers from 4 · i on, and so a block is finished chunk by chunk as it is stored. Operands are
// read under predicates rather than branches: with a hundred accumulators a thread, branches would take the compiler
// longer than all the rest.
#pragma once

#include "ptx/global_memory.cuh"
#include "tile/epilogue.cuh"
#include "tile/gemm_epilogue.cuh"

namespace kiln::tile {

// The element at `from` where index < count, else 0.
template <class T>
__device__ __forceinline__ float load_if(const T* from, int32_t index, int32_t count) {
  if constexpr (sizeof(T) == 2) {
    return to_float(T{ptx::ld_global_b16_if(from, index, count)});
  } else {
    return __uint_as_float(ptx::ld_global_b32_if(from, index, count));
  }
}

// That element and the next, `step` away.
template <class T, bool Pairs>
struct Two {
  float x, y;
  __device__ __forceinline__ void load_if(const T* from, int64_t step, int32_t index, int32_t count) {
    x = tile::load_if(from, index, count);
    y = tile::load_if(from + step, index + 1, count);
  }
  __device__ __forceinline__ float2 floats() const { return {x, y}; }
};

// Pairs: they are neighbours, aligned as a pair, and both there or neither. 16-bit ones stay packed until they are
// used.
template <class T>
struct Two<T, true> {
  uint32_t pair;
  __device__ __forceinline__ void load_if(const T* from, int64_t, int32_t index, int32_t count) {
    static_assert(sizeof(T) == 2);
    pair = ptx::ld_global_b32_if(from, index, count);
  }
  __device__ __forceinline__ float2 floats() const {
    return {to_float(T{static_cast<uint16_t>(pair)}), to_float(T{static_cast<uint16_t>(pair >> 16)})};
  }
};
template <>
struct Two<float, true> {
  uint2 pair;
  __device__ __forceinline__ void load_if(const float* from, int64_t, int32_t index, int32_t count) {
    pair = ptx::ld_global_v2_b32_if(from, index, count);
  }
  __device__ __forceinline__ float2 floats() const { return {__uint_as_float(pair.x), __uint_as_float(pair.y)}; }
};

// The calling thread's place in a block: it has columns column + 8 · j and the next, in rows row and row + 8.
struct BlockPlace {
  int32_t row, column;
  __device__ __forceinline__ BlockPlace() {
    const int thread = threadIdx.x % kWarpgroupThreads;
    row = thread / 32 * 16 + thread % 32 / 4;
    column = thread % 4 * 2;
  }
};

// What lies under the calling thread's part of a block in a matrix that is to be added.
template <class T, int N, bool Transposed, bool Pairs>
struct AddendBlock {
  Two<T, Pairs> at[2][N / 8];

  // `from` is under the block's first element, and the matrix has `rows` × `columns` from there. Where beta is 0
  // nothing is read.
  __device__ __forceinline__ void load(const T* from, int64_t ld, int32_t rows, int32_t columns, float beta) {
    const BlockPlace place;
    const int64_t row_step = Transposed ? 1 : ld;
    const int64_t column_step = Transposed ? ld : 1;
    const int32_t rows_left = (Transposed ? columns : rows) - place.row;
    const int32_t columns_left = (Transposed ? rows : columns) - place.column;
    from += place.row * row_step + place.column * column_step;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // One comparison for each pair: a row outside the matrix has no columns.
      const int32_t left = half * 8 < rows_left && beta != 0.0f ? columns_left : 0;
#pragma unroll
      for (int j = 0; j < N / 8; ++j) {
        at[half][j].load_if(from + half * 8 * row_step + j * 8 * column_step, column_step, j * 8, left);
      }
    }
  }

  __device__ __forceinline__ void add_to(float (&block)[N / 2], float beta) const {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
      const float2 two = at[i % 2][i / 2].floats();
      block[i * 2] = fmaf(beta, two.x, block[i * 2]);
      block[i * 2 + 1] = fmaf(beta, two.y, block[i * 2 + 1]);
    }
  }
};

// block = alpha · block + bias, whose first `count` elements are for the block's columns, or its rows, from the first
// on.
template <int N, bool AlongColumns, bool Pairs, class T>
__device__ __forceinline__ void scale_and_add_bias(float (&block)[N / 2], const T* bias, int32_t count, float alpha) {
  const BlockPlace place;
  float2 of_rows = {};
  if constexpr (!AlongColumns) {
    of_rows.x = load_if(bias + place.row, place.row, count);
    of_rows.y = load_if(bias + place.row + 8, place.row + 8, count);
  }
#pragma unroll
  for (int j = 0; j < N / 8; ++j) {
    float2 upper = {of_rows.x, of_rows.x};
    float2 lower = {of_rows.y, of_rows.y};
    if constexpr (AlongColumns) {
      Two<T, Pairs> two;
      two.load_if(bias + place.column + j * 8, 1, place.column + j * 8, count);
      upper = lower = two.floats();
    }
    block[j * 4] = fmaf(alpha, block[j * 4], upper.x);
    block[j * 4 + 1] = fmaf(alpha, block[j * 4 + 1], upper.y);
    block[j * 4 + 2] = fmaf(alpha, block[j * 4 + 2], lower.x);
    block[j * 4 + 3] = fmaf(alpha, block[j * 4 + 3], lower.y);
  }
}

// Of two registers a lane keeps the one that bit `mask` of its number says and trades the other.
__device__ __forceinline__ void trade(float& low, float& high, uint32_t mask) {
  const bool upper = (threadIdx.x & mask) != 0;
  const float got = __shfl_xor_sync(0xffffffff, upper ? low : high, mask);
  low = upper ? got : low;
  high = upper ? high : got;
}

// Makes of the gates and inputs in a block's columns a block of half as many, in the same order of registers.
template <class C, int N>
__device__ __forceinline__ void gate_block(float (&gated)[N / 4], const float (&block)[N / 2]) {
  static_assert(N % 16 == 0, "two groups of eight columns make one");
#pragma unroll
  for (int j = 0; j < N / 16; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Of the eight new columns lane t of four has columns t and 4 + t; it is to have 2 · t and the next.
      const int pair = j * 8 + half * 2;
      float low = EpilogueOf<C>::gate(block[pair], block[pair + 1]);
      float high = EpilogueOf<C>::gate(block[pair + 4], block[pair + 5]);
      trade(low, high, 2);
      trade(low, high, 1);
      gated[j * 4 + half * 2] = low;
      gated[j * 4 + half * 2 + 1] = high;
    }
  }
}

// Where a block's epilogue reads and writes: a matrix of D, made of m × n products.
template <class C>
struct BlockTarget {
  EpilogueTarget<C> matrix;
  int32_t m, n;
};

// The epilogue of a block of N columns of products, or a chunk of one. Pairs: rows of D end on a pair, and C and the
// bias are aligned to pairs.
template <class C, int N, bool Transposed, bool Pairs>
struct BlockEpilogue {
  using Of = EpilogueOf<C>;
  static constexpr int kOut = N / Of::kStep;  // columns of D
  using Addend = AddendBlock<typename Of::Addend, kOut, Transposed, Pairs && !Transposed>;
  static_assert(!Of::kGates || !Transposed, "a gate and its input lie in one thread only where rows are rows");

  // alpha · product + beta · D usually changes nothing, and a branch past it for a whole tile spares it all.
  static constexpr bool kOnlyScales = Of::kIsLinear && !Of::kReadsC;
  __device__ __forceinline__ static bool changes_nothing(const BlockTarget<C>& out) {
    return kOnlyScales && out.matrix.alpha == 1.0f && out.matrix.beta == 0.0f;
  }

  // (m, n) is the block's first product. D as it was is read by finish() where need be, C is read ahead.
  __device__ __forceinline__ static void read(Addend& addend, const BlockTarget<C>& out, int32_t m, int32_t n) {
    const EpilogueTarget<C>& matrix = out.matrix;
    addend.load(matrix.addend + m * matrix.ld_addend + n / Of::kStep, matrix.ld_addend, out.m - m,
                (out.n - n) / Of::kStep, matrix.beta);
  }

  // Makes `finished` of the products. The two may be the same where nothing is gated.
  __device__ __forceinline__ static void finish(float (&finished)[kOut / 2], float (&products)[N / 2], Addend& addend,
                                                const BlockTarget<C>& out, int32_t m, int32_t n) {
    const EpilogueTarget<C>& matrix = out.matrix;
    if constexpr (Of::kHasBias) {
      const int32_t first = Of::kBiasAlongN ? n : m;
      scale_and_add_bias<N, Of::kBiasAlongN != Transposed, Pairs && !Transposed>(
          products, matrix.bias + first, (Of::kBiasAlongN ? out.n : out.m) - first, matrix.alpha);
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) products[i] *= matrix.alpha;
    }
    if constexpr (!Of::kAddsLast) add(products, addend, out, m, n);
    if constexpr (Of::kGates) {
      gate_block<C, N>(finished, products);
    } else if constexpr (!C::activation_is_none) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) finished[i] = Of::activate(products[i]);
    }
    if constexpr (Of::kAddsLast) add(finished, addend, out, m, n);
  }

 private:
  __device__ __forceinline__ static void add(float (&block)[kOut / 2], Addend& addend, const BlockTarget<C>& out,
                                             int32_t m, int32_t n) {
    const float beta = out.matrix.beta;
    if constexpr (Of::kReadsC) {
      addend.add_to(block, beta);
    } else if constexpr (Transposed) {
      // Elements a row apart: under branches, since all their addresses at once take more registers than there are.
      if (beta == 0.0f) return;
      const EpilogueTarget<C>& matrix = out.matrix;
      for_each_element<N, Transposed>(
          block, Output<typename Of::D>{matrix.d, matrix.ldd, out.m, out.n}, m, n,
          [beta](const typename Of::D& old, float& value) { value = fmaf(beta, to_float(old), value); });
    } else if (kOnlyScales || beta != 0.0f) {
      read(addend, out, m, n);
      addend.add_to(block, beta);
    }
  }
};

// A tile of products on its way to D through shared memory, as the source of store_blocks: a chunk is finished just
// before it is staged, and where there are registers for it (Spacious), what C has under the next is already being
// read.
template <class C, int N, bool Transposed, int Blocks, bool Spacious>
class ProductChunks {
  using Of = EpilogueOf<C>;
  using D = typename Of::D;
  using Chunk = StoreChunk<D, N / Of::kStep, Transposed>;
  static constexpr int kColumns = Chunk::kColumns * Of::kStep;  // of products in a chunk
  using Epilogue = BlockEpilogue<C, kColumns, Transposed, true>;
  static constexpr int kPerBlock = Chunk::kPerBlock;
  static constexpr int kChunks = Blocks * kPerBlock;
  static constexpr int kAhead = Spacious ? 1 : 0;
  // Where D is to be added, which is rare, a whole block compiles faster than its chunks, if there are registers for
  // it.
  static constexpr bool kWhole = Epilogue::kOnlyScales && Spacious && sizeof(D) == 2;

 public:
  // (m, n) is the first block's first product.
  __device__ __forceinline__ ProductChunks(float (&blocks)[Blocks][N / 2], const BlockTarget<C>& out, int32_t m,
                                           int32_t n)
      : blocks_(blocks), out_(out), m_(m), n_(n) {
    if constexpr (Of::kReadsC && kAhead > 0) read(0);
  }

  __device__ __forceinline__ void prepare(int i) {
    if constexpr (Of::kReadsC) {
      if (i + kAhead < kChunks) read(i + kAhead);
    }
    if (Epilogue::changes_nothing(out_)) return;
    if constexpr (Of::kGates) {
      Epilogue::finish(gated_[i], products(i), addends_[i % 2], out_, m_of(i), n_of(i));
    } else if constexpr (!kWhole) {
      Epilogue::finish(products(i), products(i), addends_[i % 2], out_, m_of(i), n_of(i));
    } else if (i % kPerBlock == 0) {
      using Whole = BlockEpilogue<C, N, Transposed, true>;
      typename Whole::Addend addend;
      Whole::finish(blocks_[i / kPerBlock], blocks_[i / kPerBlock], addend, out_, m_of(i), n_of(i));
    }
  }

  __device__ __forceinline__ void stage(int i, uint32_t buffer) {
    if constexpr (Of::kGates) {
      stage_chunk<Chunk::kColumns, Transposed, D>(gated_[i], 0, buffer);
    } else {
      stage_chunk<Chunk::kColumns, Transposed, D>(products(i), 0, buffer);
    }
  }

 private:
  __device__ __forceinline__ float (&products(int i))[kColumns / 2] {
    return reinterpret_cast<float(&)[kColumns / 2]>(blocks_[i / kPerBlock][i % kPerBlock * (kColumns / 2)]);
  }
  __device__ __forceinline__ int32_t m_of(int i) const { return Transposed ? m_ : m_ + i / kPerBlock * kBlockRows; }
  __device__ __forceinline__ int32_t n_of(int i) const {
    return n_ + (Transposed ? i / kPerBlock * kBlockRows : i % kPerBlock * kColumns);
  }
  __device__ __forceinline__ void read(int i) { Epilogue::read(addends_[i % 2], out_, m_of(i), n_of(i)); }

  float (&blocks_)[Blocks][N / 2];
  const BlockTarget<C>& out_;
  int32_t m_, n_;
  typename Epilogue::Addend addends_[2];
  float gated_[Of::kGates ? kChunks : 1][Chunk::kColumns / 2];
};

// Finishes the blocks of a warpgroup and stores them from registers, for any alignment of D, C and bias.
template <class C, int N, bool Transposed, int Blocks>
__device__ __forceinline__ void finish_and_store(float (&blocks)[Blocks][N / 2], const BlockTarget<C>& out, int32_t m,
                                                 int32_t n) {
  using Epilogue = BlockEpilogue<C, N, Transposed, false>;
  using Of = EpilogueOf<C>;
  const Output<typename Of::D> to{out.matrix.d, out.matrix.ldd, out.m, out.n / Of::kStep};
#pragma unroll
  for (int b = 0; b < Blocks; ++b) {
    const int32_t at_m = Transposed ? m : m + b * kBlockRows;
    const int32_t at_n = Transposed ? n + b * kBlockRows : n;
    typename Epilogue::Addend addend;
    if constexpr (Of::kReadsC) Epilogue::read(addend, out, at_m, at_n);
    if constexpr (Of::kGates) {
      float gated[N / 4];
      Epilogue::finish(gated, blocks[b], addend, out, at_m, at_n);
      store_block<N / 2, Transposed>(gated, to, at_m, at_n / 2);
    } else {
      if (!Epilogue::changes_nothing(out)) Epilogue::finish(blocks[b], blocks[b], addend, out, at_m, at_n);
      store_block<N, Transposed>(blocks[b], to, at_m, at_n);
    }
  }
}

}  // namespace kiln::tile
