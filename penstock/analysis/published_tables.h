// HyperRouter's Tables A3 (FLOPs) and A4 (parameters) in closed form, the paper's own cells beside.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/models/model_config.h"

namespace penstock::analysis {

/// One cell of a published table.
struct PublishedCell {
  std::string row, column;
  double published = 0;
  double computed = 0;  ///< by the closed form, in the paper's unit
  double useful = 0;    ///< A3: without work whose result is dropped; A4: as computed
  bool agrees = false;  ///< computed, rounded as the paper prints, is the paper's
  std::string remark;   ///< a word where it does not
};

struct PublishedTable {
  std::string name, title, unit;
  int digits = 0;         ///< that the paper prints
  std::string note = {};  ///< what computed and useful numbers count
  std::vector<PublishedCell> cells;
};

/// The small Transformer-XL of HyperRouter on enwik8: 4 layers of width 256, 8 heads of 64, 16
/// experts of 512, V = 204; dense with one network of 8192.
ModelConfig published_small(const std::string& method);

/// "A3" or "A4"; throws Error for another.
///   A3: FLOPs of one evaluation batch of 10 × 128 tokens with a memory of 896, linear layers
///   alone, the softmax layer not; in 10¹⁰ it is 3.4670 + 0.26844 k.
///   A4: parameters, in thousands; the backbone is counted whole, routers over all four layers.
/// Source: HyperRouter, arXiv:2312.07035, appendices C.4 and C.5. The paper does not say what it
/// counts; this is what reproduces its cells at k = 2, 4 and 8.
PublishedTable published_table(const std::string& name);

/// {"table", "title", "unit", "cells": [{"row", "column", "published", "computed", "useful",
/// "agrees", "remark"}]}.
nlohmann::ordered_json to_json(const PublishedTable& table);

}  // namespace penstock::analysis
