// Downloads one file over HTTP through libcurl. A download can be resumed. The file appears only
// when it is complete. fetch.h checks its content.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "penstock/base/error.h"

namespace penstock {

/// The server could not be reached or refused the file. Nothing has been changed, so the caller can
/// try another address.
class UnavailableError : public Error {
 public:
  using Error::Error;
};

struct DownloadOptions {
  std::string url;
  /// The file's path, or a symbolic link to it (base/links.h). Its folder is created.
  std::string path;
  /// Receives the bytes so far and in total (0: the server does not say).
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
  /// Checks the complete file, which still has its temporary name. It throws if the content is
  /// wrong; the file is then removed.
  std::function<void(const std::string& file)> verify = {};
  /// Called after verify(), before the file gets its final name.
  std::function<void()> before_rename = {};
  /// Time limits: without a received byte, and for connecting.
  long stall_seconds = 60, connect_seconds = 30;
};

struct DownloadResult {
  std::uint64_t bytes = 0;
  /// Bytes kept from an earlier, interrupted download.
  std::uint64_t resumed_from = 0;
};

/// Downloads `url` to `path`.part and renames that to `path` (to the target, if `path` is a link).
/// An earlier part from the same address is continued if the server can send a range and if the
/// file's ETag or Last-Modified, kept in `path`.part.json, is unchanged; otherwise the download
/// starts again. If the connection or the disk fails, or the process is killed, the part stays for
/// the next call. Folders that were made for a download that left nothing are removed. The part is
/// locked against other processes. Throws UnavailableError (refused, no such host, time-out before
/// the first byte, a status that is not success), DiskFullError, or Error (cut connection, verify).
DownloadResult download(const DownloadOptions& options);

}  // namespace penstock
