// Products by AMX (Intel since Sapphire Rapids).
#pragma once

#include "penstock/ops/cpu/bf16/pair_product.h"

namespace penstock::ops::bf16 {

/// REQUIRES: has_amx()
void amx_product(const PairProduct& product, const Pair* a, const Pair* b, float* c);

}  // namespace penstock::ops::bf16
