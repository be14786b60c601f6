// Reads IMDB reviews (Maas et al., 2011): one file per review; the folder's name is the label.
#include <algorithm>
#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/data/classification/checks.h"
#include "penstock/data/classification/readers.h"
#include "penstock/data/text_files.h"

namespace penstock {
namespace {

struct Review {
  std::string name, text;  // the name begins with the split's folder
  int label = 0;
};

/// The label: 0 for .../SPLIT/neg/X.txt, 1 for .../SPLIT/pos/X.txt, otherwise -1. Removes the
/// "..." from `name`.
int imdb_label(std::string& name, const std::string& split) {
  if (!name.ends_with(".txt")) return -1;
  for (const int label : {0, 1}) {
    const std::string folder = split + (label ? "/pos/" : "/neg/");
    const auto at = name.rfind(folder);
    if (at == name.npos || (at > 0 && name[at - 1] != '/' && name[at - 1] != ':')) continue;
    if (name.find('/', at + folder.size()) != name.npos) continue;
    name.erase(0, at);
    return label;
  }
  return -1;
}

}  // namespace

ClassificationSet read_imdb(const std::string& path, const std::string& split) {
  namespace files = std::filesystem;
  std::vector<Review> reviews;
  const auto add = [&](const std::string& source, std::string_view text) {
    std::string name = source;
    const int label = imdb_label(name, split);
    if (label < 0) return;
    classification::check_text(text, source, 1);
    reviews.push_back({std::move(name), std::string(text), label});
  };
  if (files::is_directory(path)) {
    try {
      for (const auto& entry : files::recursive_directory_iterator(path)) {
        std::string name = entry.path().generic_string();
        if (entry.is_regular_file() && imdb_label(name, split) >= 0)
          read_text_file(entry.path().string(), add);
      }
    } catch (const files::filesystem_error& error) {
      fail("cannot list '", path, "': ", error.code().message());
    }
  } else {
    read_text_file(path, add);
  }
  // Folders and archives list their members in any order.
  std::ranges::sort(reviews, {}, &Review::name);
  ClassificationSet out{.class_names = {"negative", "positive"}};
  for (auto& review : reviews) {
    out.texts.push_back(std::move(review.text));
    out.labels.push_back(review.label);
  }
  return out;
}

}  // namespace penstock
