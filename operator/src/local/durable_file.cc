#include "local/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "local/unique_fd.h"

namespace fairlead::op {
namespace {

std::string failed(const char* what, const std::filesystem::path& path) {
  return std::string("cannot ") + what + " " + path.string() + ": " + std::strerror(errno);
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && ::fsync(fd.get()) == 0;
}

}  // namespace

std::optional<std::string> replace_file(const std::filesystem::path& path,
                                        std::string_view contents, Durability durability,
                                        unsigned mode) {
  const std::filesystem::path fresh = path.string() + ".new";
  // A left-over of a crash may have another mode: start from nothing.
  ::unlink(fresh.c_str());
  {
    const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd.valid()) return failed("create", fresh);
    if (::fchmod(fd.get(), mode) != 0 || !write_all(fd.get(), contents)) {
      return failed("write", fresh);
    }
    if (durability == Durability::kSynced && ::fsync(fd.get()) != 0) return failed("sync", fresh);
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) return failed("replace", path);
  if (durability == Durability::kSynced && !sync_folder_of(path)) {
    return failed("sync the folder of", path);
  }
  return std::nullopt;
}

std::optional<std::string> read_file(const std::filesystem::path& path, std::string& error,
                                     bool* missing) {
  if (missing != nullptr) *missing = false;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (missing != nullptr) *missing = errno == ENOENT;
    error = failed("open", path);
    return std::nullopt;
  }
  std::string contents;
  char buffer[16384];
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      error = failed("read", path);
      return std::nullopt;
    }
    if (n == 0) return contents;
    contents.append(buffer, static_cast<std::size_t>(n));
  }
}

std::optional<std::string> remove_file(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed("remove", path);
  if (!sync_folder_of(path) && errno != ENOENT) return failed("sync the folder of", path);
  return std::nullopt;
}

}  // namespace fairlead::op
