#include "cache/file_guard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "kiln/error.h"

namespace kiln::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFuseMagic = 0x65735546;

// Named as in statfs(2) and linux/magic.h; f_type is compared in its low 32 bits, since its width and sign vary.
constexpr std::array<std::uint32_t, 17> kNetworkMagics{
    0x6969,      // NFS
    0x517B,      // SMB
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB2
    0x01021997,  // 9p: neither shared mappings nor locks reach the other side
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x00C36400,  // Ceph
    0x5346414F,  // AFS
    0x6B414653,  // kAFS
    0x73757245,  // Coda
    0x564C,      // NCP
    0x7461636F,  // OCFS2
    0x01161970,  // GFS2
    0x19830326,  // BeeGFS
    0xAAD7AAEA,  // PanFS
    0x013111A8,  // IBRIX
};

// FUSE file systems that live on this machine; every other one is taken for a remote one.
constexpr std::array<std::string_view, 4> kLocalFuse{"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuseblk", "virtiofs"};

// The mount's type from the mount table: its third field after " - " is of the line with our device's number.
std::string mount_type_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  const std::string device = std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string id, parent, number;
    fields >> id >> parent >> number;
    const std::size_t dash = line.find(" - ");
    if (number != device || dash == std::string::npos) continue;
    std::istringstream rest(line.substr(dash + 3));
    std::string type;
    rest >> type;
    return type;
  }
  return {};
}

bool on_network_file_system(const fs::path& folder) {
  struct statfs status {};
  if (statfs(folder.c_str(), &status) != 0) return false;
  const auto magic = static_cast<std::int64_t>(status.f_type);
  return is_network_file_system(magic, magic == kFuseMagic ? mount_type_of(folder) : std::string());
}

void make_private_folders(const fs::path& folder) {
  if (folder.empty() || fs::exists(folder)) return;
  make_private_folders(folder.parent_path());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    throw Error(ErrorCode::io, "cannot make the folder " + folder.string() + ": " + std::strerror(errno), "mkdir",
                errno);
  }
}

std::string distrust_folder(const fs::path& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return "cannot be looked at: " + std::string(std::strerror(errno));
  if (!S_ISDIR(status.st_mode)) return "is not a folder";
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return "belongs to user " + std::to_string(status.st_uid) + ", not to you (" + std::to_string(geteuid()) + ")";
  }
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
    return "can be written by every user; take that away with chmod o-w, or name another folder in KILN_CACHE";
  }
  return {};
}

FileVerdict memory_only(const fs::path& path, const std::string& reason) {
  return {.usability = Usability::memory_only, .reason = reason, .path = path};
}

}  // namespace

std::string distrust(const struct stat& status, RootMayOwn root_may_own) {
  if (S_ISLNK(status.st_mode)) return "is a symbolic link, which is not followed";
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  const bool owner_is_fine = status.st_uid == geteuid() || (root_may_own == RootMayOwn::yes && status.st_uid == 0);
  if (!owner_is_fine) {
    return "belongs to user " + std::to_string(status.st_uid) + ", not to you (" + std::to_string(geteuid()) + ")";
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "can be written by others; chmod it to 600";
  return {};
}

bool is_network_file_system(std::int64_t magic, std::string_view mount_type) {
  const auto low = static_cast<std::uint32_t>(magic);
  if (low == kFuseMagic) {
    return std::find(kLocalFuse.begin(), kLocalFuse.end(), mount_type) == kLocalFuse.end();
  }
  return std::find(kNetworkMagics.begin(), kNetworkMagics.end(), low) != kNetworkMagics.end();
}

FileVerdict inspect_file(const fs::path& database, Intent intent) {
  fs::path folder = fs::absolute(database).parent_path();
  if (!database.has_filename()) return memory_only(database, database.string() + " names a folder, not a file");
  try {
    if (intent == Intent::write) make_private_folders(folder);
    // SQLite, told to follow no link, refuses one in any part of the path.
    folder = fs::canonical(folder);
  } catch (const std::exception& error) {
    return memory_only(database, error.what());
  }
  const fs::path path = folder / database.filename();
  if (const std::string reason = distrust_folder(folder); !reason.empty()) {
    return memory_only(path, folder.string() + " " + reason);
  }
  if (on_network_file_system(folder)) {
    return memory_only(path,
                       folder.string() + " is on a network file system, where SQLite's locks cannot be relied on");
  }

  // A file that will only be read may also be root's: a database that ships with a container.
  bool roots_own = false;
  bool exists = false;
  for (const char* companion : {"", "-wal", "-shm"}) {
    const fs::path file = path.string() + companion;
    struct stat status {};
    if (lstat(file.c_str(), &status) != 0) {
      if (errno == ENOENT) continue;
      return memory_only(path, "cannot look at " + file.string() + ": " + std::strerror(errno));
    }
    if (const std::string reason = distrust(status, RootMayOwn::yes); !reason.empty()) {
      return memory_only(path, file.string() + " " + reason);
    }
    if (faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) != 0) {
      return memory_only(path, "cannot read " + file.string() + ": " + std::strerror(errno));
    }
    if (!distrust(status).empty()) roots_own = true;
    if (*companion == '\0') exists = true;
  }

  const auto read_only = [&](const std::string& reason) {
    if (!exists) return memory_only(path, reason + ", and there is no database yet");
    return FileVerdict{.usability = Usability::read_only, .reason = reason, .path = path};
  };
  if (intent == Intent::read) return read_only("only reading was asked for");
  if (roots_own) return read_only(path.string() + " belongs to root");
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return read_only("the folder " + folder.string() + " cannot be written: " + std::strerror(errno));
  }
  if (exists && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    return read_only(path.string() + " cannot be written: " + std::strerror(errno));
  }
  return {.usability = Usability::read_write, .reason = "", .path = path};
}

void create_private_file(const fs::path& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) {
    close(fd);
  } else if (errno != EEXIST) {
    throw Error(ErrorCode::io, "cannot create " + path.string() + ": " + std::strerror(errno), "open", errno);
  }
}

FileIdentity file_identity(const fs::path& path) noexcept {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return {};
  return {.device = status.st_dev, .inode = status.st_ino};
}

}  // namespace kiln::cache
