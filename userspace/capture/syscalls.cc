#include "userspace/capture/syscalls.h"

#include <sys/syscall.h>

#include <array>

namespace stalltrace::capture {
namespace {

using namespace wire;

constexpr std::array kRules{
    SyscallRule{SYS_io_submit, CALL_IO_SUBMIT, TARGET_IOCBS},
    SyscallRule{SYS_io_uring_enter, CALL_IO_URING_ENTER, TARGET_RING},
    SyscallRule{SYS_read, CALL_READ, TARGET_FD},
    SyscallRule{SYS_pread64, CALL_READ, TARGET_FD},
    SyscallRule{SYS_readv, CALL_READ, TARGET_FD},
    SyscallRule{SYS_preadv, CALL_READ, TARGET_FD},
    SyscallRule{SYS_preadv2, CALL_READ, TARGET_FD},
    SyscallRule{SYS_write, CALL_WRITE, TARGET_FD},
    SyscallRule{SYS_pwrite64, CALL_WRITE, TARGET_FD},
    SyscallRule{SYS_writev, CALL_WRITE, TARGET_FD},
    SyscallRule{SYS_pwritev, CALL_WRITE, TARGET_FD},
    SyscallRule{SYS_pwritev2, CALL_WRITE, TARGET_FD},
    SyscallRule{SYS_fsync, CALL_FSYNC, TARGET_FD},
    SyscallRule{SYS_fdatasync, CALL_FDATASYNC, TARGET_FD},
    SyscallRule{SYS_sync_file_range, CALL_SYNC_FILE_RANGE, TARGET_FD},
    SyscallRule{SYS_syncfs, CALL_SYNCFS, TARGET_FD},
    SyscallRule{SYS_sync, CALL_SYNC, TARGET_LATE},
    SyscallRule{SYS_msync, CALL_MSYNC, TARGET_LATE},
    SyscallRule{SYS_fallocate, CALL_FALLOCATE, TARGET_FD},
    SyscallRule{SYS_ftruncate, CALL_TRUNCATE, TARGET_FD},
    SyscallRule{SYS_truncate, CALL_TRUNCATE, TARGET_PATH0},
    SyscallRule{SYS_open, CALL_OPEN, TARGET_OPEN},
    SyscallRule{SYS_openat, CALL_OPEN, TARGET_OPENAT},
    SyscallRule{SYS_openat2, CALL_OPEN, TARGET_PATH1},
    SyscallRule{SYS_creat, CALL_OPEN, TARGET_PATH0},
    SyscallRule{SYS_mknod, CALL_OPEN, TARGET_PATH0},
    SyscallRule{SYS_mknodat, CALL_OPEN, TARGET_PATH1},
    SyscallRule{SYS_unlink, CALL_UNLINK, TARGET_PATH0},
    SyscallRule{SYS_unlinkat, CALL_UNLINK, TARGET_PATH1},
    SyscallRule{SYS_rename, CALL_RENAME, TARGET_PATH0},
    SyscallRule{SYS_renameat, CALL_RENAME, TARGET_PATH1},
    SyscallRule{SYS_renameat2, CALL_RENAME, TARGET_PATH1},
    SyscallRule{SYS_mkdir, CALL_MKDIR, TARGET_PATH0},
    SyscallRule{SYS_mkdirat, CALL_MKDIR, TARGET_PATH1},
    SyscallRule{SYS_rmdir, CALL_RMDIR, TARGET_PATH0},
    SyscallRule{SYS_link, CALL_LINK, TARGET_PATH0},
    SyscallRule{SYS_linkat, CALL_LINK, TARGET_PATH1},
    SyscallRule{SYS_symlink, CALL_LINK, TARGET_PATH1},
    SyscallRule{SYS_chmod, CALL_SETATTR, TARGET_PATH0},
    SyscallRule{SYS_fchmod, CALL_SETATTR, TARGET_FD},
    SyscallRule{SYS_fchmodat, CALL_SETATTR, TARGET_PATH1},
    SyscallRule{SYS_chown, CALL_SETATTR, TARGET_PATH0},
    SyscallRule{SYS_lchown, CALL_SETATTR, TARGET_PATH0},
    SyscallRule{SYS_fchown, CALL_SETATTR, TARGET_FD},
    SyscallRule{SYS_fchownat, CALL_SETATTR, TARGET_PATH1},
    SyscallRule{SYS_utimensat, CALL_SETATTR, TARGET_PATH1},
    SyscallRule{SYS_setxattr, CALL_XATTR, TARGET_PATH0},
    SyscallRule{SYS_lsetxattr, CALL_XATTR, TARGET_PATH0},
    SyscallRule{SYS_fsetxattr, CALL_XATTR, TARGET_FD},
    SyscallRule{SYS_removexattr, CALL_XATTR, TARGET_PATH0},
    SyscallRule{SYS_fremovexattr, CALL_XATTR, TARGET_FD},
    SyscallRule{SYS_ioctl, CALL_NONE, TARGET_FREEZE},
};

}  // namespace

std::span<const SyscallRule> syscall_rules() {
  return kRules;
}

}  // namespace stalltrace::capture
