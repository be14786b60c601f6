// Every address, size and sum names the public page or file it was taken from.
#include "penstock/data/public_datasets.h"

#include "penstock/base/error.h"

namespace penstock {
namespace {

const std::vector<PublicDataset>& dataset_table() {
  static const std::vector<PublicDataset> table = {
      {.name = "enwik8",
       .summary = "the first 10^8 bytes of the English Wikipedia's dump of 3 March 2006",
       .file = "enwik8.zip",
       .urls = {"http://mattmahoney.net/dc/enwik8.zip"},
       // The page also gives the unpacked file's SHA-1, 57b8363b814821dc9d47aa4d41f58733519076b2.
       .url_source = "http://mattmahoney.net/dc/textdata.html (address and size)",
       .bytes = 36'445'475,
       .sum_kind = ShaKind::kSha256,
       .sum = "547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
       .sum_source = "github.com/huggingface/datasets, datasets/enwik8/dataset_infos.json at "
                     "040102f10096",
       .prepare = "penstock data prepare FILE --protocol enwik8 --out corpora/enwik8"},
      {.name = "wikitext-103",
       .summary = "103 million words of good and featured Wikipedia articles",
       .file = "wikitext-103-v1.zip",
       // The publisher's own address answers 403 since 2024 (github.com/pytorch/text, issue 2255);
       // the author's copy has been named in its place since.
       .urls = {"https://wikitext.smerity.com/wikitext-103-v1.zip",
                "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip"},
       .url_source = "github.com/IST-DASLab/Quartet, pull request 11 (the author's copy); "
                     "github.com/pytorch/text, torchtext/datasets/wikitext103.py (the publisher's)",
       .bytes = 190'229'076,
       .sum_kind = ShaKind::kSha256,
       .sum = "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
       .sum_source = "github.com/huggingface/datasets, datasets/wikitext/dataset_infos.json at "
                     "040102f10096",
       .prepare = "penstock data prepare FILE --protocol wikitext --out corpora/wikitext-103"},
      {.name = "text8",
       .summary = "10^8 letters a to z and spaces, cleaned from the same dump",
       .file = "text8.zip",
       .urls = {"http://mattmahoney.net/dc/text8.zip"},
       .url_source = "http://mattmahoney.net/dc/textdata.html",
       // As TensorFlow's word2vec tutorial checks it: maybe_download('text8.zip', 31344016).
       .bytes = 31'344'016,
       // No SHA-256 of it is published anywhere that could be cited.
       .sum_kind = ShaKind::kSha1,
       .sum = "6c70299b93b7e1f927b42cd8f6ac1a31547c7a2e",
       .sum_source = "github.com/dmlc/gluon-nlp, "
                     "src/gluonnlp/data/corpora/large_text_compression_benchmark.py at "
                     "0b3ed83ec9d0",
       .prepare = "penstock data prepare FILE --protocol text8 --out corpora/text8"},
  };
  return table;
}

}  // namespace

std::span<const PublicDataset> public_datasets() { return dataset_table(); }

const PublicDataset& public_dataset(std::string_view name) {
  std::string known;
  for (const auto& dataset : dataset_table()) {
    if (dataset.name == name) return dataset;
    known += concat(known.empty() ? "" : ", ", dataset.name);
  }
  fail("no data set '", name, "' is known; there are ", known);
}

}  // namespace penstock
