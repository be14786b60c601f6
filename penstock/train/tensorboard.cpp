#include "penstock/train/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <string_view>

#include "penstock/base/checksum.h"

namespace penstock {
namespace {

double now_seconds() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

template <class T>
void put_fixed(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // little-endian hosts only, as checksum.cpp asserts
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Protobuf wire types.
constexpr int kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5;

void put_tag(std::string& out, int field, int wire_type) {
  put_varint(out, static_cast<std::uint64_t>(field << 3 | wire_type));
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_tag(out, field, kLength);
  put_varint(out, bytes.size());
  out += bytes;
}

/// Event { double wall_time = 1; int64 step = 2; ... }
std::string begin_event(double wall_seconds, std::int64_t step) {
  std::string out;
  put_tag(out, 1, kFixed64);
  put_fixed(out, wall_seconds);
  if (step == 0) return out;  // protobuf leaves defaults out
  put_tag(out, 2, kVarint);
  put_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes_of(bytes));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::filesystem::path fresh_path(FileSystem& fs, const std::filesystem::path& directory) {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "localhost");
  const auto stem = concat("events.out.tfevents.", static_cast<std::int64_t>(now_seconds()), ".",
                           host, ".", ::getpid(), ".");
  int number = 0;
  while (fs.exists(directory / concat(stem, number))) ++number;
  return directory / concat(stem, number);
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(FileSystem& fs, const std::filesystem::path& directory,
                                     std::int64_t resume_step) {
  create_directories(fs, directory);
  path_ = fresh_path(fs, directory);
  file_ = fs.open(path_, OpenMode::kTruncate);
  fs.sync_directory(directory);
  std::string version = begin_event(now_seconds(), 0);
  put_bytes(version, 3, "brain.Event:2");  // file_version
  record(version);
  // Event.session_log = 7, SessionLog.status = 1, START = 1. Its step is the first to be logged
  // anew.
  std::string start = begin_event(now_seconds(), resume_step + 1);
  std::string session_log;
  put_tag(session_log, 1, kVarint);
  put_varint(session_log, 1);
  put_bytes(start, 7, session_log);
  record(start);
}

void TensorBoardWriter::scalars(std::int64_t step, double wall_seconds,
                                const std::map<std::string, double>& values) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;  // Summary.Value { string tag = 1; float simple_value = 2; }
    put_bytes(value, 1, tag);
    put_tag(value, 2, kFixed32);
    put_fixed(value, static_cast<float>(number));
    put_bytes(summary, 1, value);
  }
  std::string event = begin_event(wall_seconds, step);
  put_bytes(event, 5, summary);
  record(event);
}

void TensorBoardWriter::record(const std::string& event) {
  std::string out;
  put_fixed(out, static_cast<std::uint64_t>(event.size()));
  put_fixed(out, masked_crc(out));
  out += event;
  put_fixed(out, masked_crc(event));
  file_->write(bytes_of(out));
}

void TensorBoardWriter::sync() { file_->sync(); }

}  // namespace penstock
