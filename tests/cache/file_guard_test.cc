#include "cache/file_guard.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/cache/scratch_folder.h"

namespace kiln::cache {
namespace {

TEST(FileGuard, NetworkFileSystemsAreKnownByTheirMagic) {
  for (const std::int64_t magic :
       {0x6969L, 0xFF534D42L, 0xFE534D42L, 0x0BD00BD0L, 0x47504653L, 0x01021997L, 0x00C36400L}) {
    EXPECT_TRUE(is_network_file_system(magic, "")) << std::hex << magic;
  }
  // The same as a negative 32-bit f_type.
  EXPECT_TRUE(is_network_file_system(static_cast<std::int32_t>(0xFF534D42), ""));
  for (const std::int64_t magic : {0xEF53L /* ext4 */, 0x58465342L /* xfs */, 0x9123683EL /* btrfs */,
                                   0x01021994L /* tmpfs */, 0x794C7630L /* overlayfs */}) {
    EXPECT_FALSE(is_network_file_system(magic, "")) << std::hex << magic;
  }
}

TEST(FileGuard, FuseIsJudgedByTheMountTable) {
  constexpr std::int64_t kFuse = 0x65735546;
  EXPECT_TRUE(is_network_file_system(kFuse, "fuse.sshfs"));
  EXPECT_TRUE(is_network_file_system(kFuse, "fuse.gcsfuse"));
  EXPECT_TRUE(is_network_file_system(kFuse, ""));
  EXPECT_FALSE(is_network_file_system(kFuse, "fuse.fuse-overlayfs"));
}

TEST(FileGuard, AFreshPathCanBeWrittenAndItsFoldersArePrivate) {
  const ScratchFolder folder;
  const FileVerdict verdict = inspect_file(folder.path() / "x" / "y" / "kiln.db", Intent::write);
  EXPECT_EQ(verdict.usability, Usability::read_write) << verdict.reason;
  struct stat status {};
  ASSERT_EQ(stat((folder.path() / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(FileGuard, ReadingMakesNoFolder) {
  const ScratchFolder folder;
  EXPECT_EQ(inspect_file(folder.path() / "x" / "kiln.db", Intent::read).usability, Usability::memory_only);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
}

TEST(FileGuard, AFolderOpenToEveryoneIsRefusedUnlessSticky) {
  const ScratchFolder folder;
  chmod(folder.path().c_str(), 0777);
  EXPECT_EQ(inspect_file(folder.database(), Intent::write).usability, Usability::memory_only);
  chmod(folder.path().c_str(), 01777);
  EXPECT_EQ(inspect_file(folder.database(), Intent::write).usability, Usability::read_write);
}

TEST(FileGuard, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const ScratchFolder folder;
  ASSERT_EQ(chown(folder.path().c_str(), 12345, 12345), 0);
  const FileVerdict verdict = inspect_file(folder.database(), Intent::write);
  EXPECT_EQ(verdict.usability, Usability::memory_only);
  EXPECT_NE(verdict.reason.find("12345"), std::string::npos);
}

TEST(FileGuard, AReplacedFileHasAnotherIdentity) {
  const ScratchFolder folder;
  EXPECT_EQ(file_identity(folder.database()), FileIdentity{});
  create_private_file(folder.database());
  const FileIdentity first = file_identity(folder.database());
  create_private_file(folder.database());
  EXPECT_EQ(file_identity(folder.database()), first);
  std::filesystem::rename(folder.database(), folder.path() / "old");
  create_private_file(folder.database());
  EXPECT_NE(file_identity(folder.database()), first);
}

}  // namespace
}  // namespace kiln::cache
