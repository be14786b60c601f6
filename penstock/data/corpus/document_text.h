// The text of a document, which either owns it or views it where something else keeps it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace penstock {

class DocumentText {
 public:
  DocumentText() = default;
  /// A text of its own.
  DocumentText(std::string text) : text_(std::move(text)) {}
  DocumentText(const char* text) : text_(std::string(text)) {}
  /// REQUIRES: the viewed text lasts as long as this object and its copies.
  static DocumentText view_of(std::string_view text) {
    DocumentText out;
    out.text_ = text;
    return out;
  }

  operator std::string_view() const {
    return std::visit([](const auto& text) { return std::string_view(text); }, text_);
  }
  std::size_t size() const { return std::string_view(*this).size(); }
  bool empty() const { return size() == 0; }
  friend bool operator==(const DocumentText& a, std::string_view b) {
    return std::string_view(a) == b;
  }

 private:
  std::variant<std::string, std::string_view> text_;
};

}  // namespace penstock
