// Consecutive elements that one instruction moves.
#pragma once

#include "ptx/types.cuh"

namespace kiln::tile {

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Vector {
  T at[kWidth];
};

}  // namespace kiln::tile
