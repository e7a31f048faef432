// Whether the files of a store can be trusted and used, before SQLite touches them. A cubin is code: a file that
// someone else could have written is not used. Free functions without shared state; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/stat.h>
#include <sys/types.h>

namespace kiln::cache {

enum class Usability {
  read_write,
  read_only,   // can be read, not written: the mode of the file, its folder or its file system
  memory_only  // must not or cannot be used at all
};

struct FileVerdict {
  Usability usability = Usability::memory_only;
  std::string reason;          // for people, why it is not read_write; else empty
  std::filesystem::path path;  // the folder's symbolic links resolved, the file's name as given
};

// Looks at the database's folder, file and companions (-wal, -shm); makes missing folders with mode 0700 unless only
// reading is wanted. A missing file in a folder that can be written is read_write.
enum class Intent { write, read };
FileVerdict inspect_file(const std::filesystem::path& database, Intent intent);

// Why a file is not to be trusted ("belongs to user 12, …"), for a sentence that starts with its name; empty when it is
// a regular file of this user (or, when `root_may_own`, of root) that only its owner can write.
//
// NOTE: files are looked at without opening them. To close any descriptor of a database would drop the POSIX locks that
// SQLite holds on it elsewhere in this process.
enum class RootMayOwn { no, yes };
std::string distrust(const struct stat& status, RootMayOwn root_may_own = RootMayOwn::no);

// Whether locks and shared memory cannot be relied on there. `magic` is statfs's f_type; `mount_type` the type in the
// mount table ("fuse.sshfs"), asked for only where the magic leaves it open.
bool is_network_file_system(std::int64_t magic, std::string_view mount_type);

// Creates an empty file of mode 0600 unless there is one. Throws Error{io}.
void create_private_file(const std::filesystem::path& path);

// Which file a path leads to: differs once the file is replaced.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;  // 0: no such file
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity file_identity(const std::filesystem::path& path) noexcept;

}  // namespace kiln::cache
