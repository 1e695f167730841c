// Stands between a process and the system, and has one write, sync or rename fail. Loaded by LD_PRELOAD, so that the
// program under test is the one that people use, without a hook of its own. Only files in FAULTS_FOLDER count.
//
//   FAULTS_AT     which of them fails, counted from 1; 0 for none
//   FAULTS_KIND   `space` or `device`: ENOSPC or EIO; `short`: every write writes half of what it is given
//   FAULTS_COUNT  a file, to which each of them adds a byte: how many there were is its size
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long operations;

static int inside(const char *path) {
    const char *folder = getenv("FAULTS_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int watched(int file) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return inside(path);
}

static int watched_path(const char *path) {
    char whole[8192];
    if (path[0] == '/') return inside(path);
    if (!getcwd(whole, 4096)) return 0;
    strcat(whole, "/");
    strncat(whole, path, 4000);
    return inside(whole);
}

// Counts one of them; true if it is the one that fails, with errno set.
static int fails(void) {
    long number = __atomic_add_fetch(&operations, 1, __ATOMIC_SEQ_CST);
    const char *at = getenv("FAULTS_AT"), *kind = getenv("FAULTS_KIND"), *count = getenv("FAULTS_COUNT");
    if (count) {
        long file = syscall(SYS_openat, AT_FDCWD, count, O_WRONLY | O_CREAT | O_APPEND, 0600);
        syscall(SYS_write, file, ".", 1L);
        syscall(SYS_close, file);
    }
    if (!at || number != atol(at)) return 0;
    errno = kind && strcmp(kind, "space") == 0 ? ENOSPC : EIO;
    return 1;
}

static int all_short(void) {
    const char *kind = getenv("FAULTS_KIND");
    return kind && strcmp(kind, "short") == 0;
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (watched(file)) {
        if (fails()) return -1;
        if (all_short() && count > 1) count = (count + 1) / 2;
    }
    return syscall(SYS_write, file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (watched(file)) {
        if (fails()) return -1;
        if (all_short() && count > 1) count = (count + 1) / 2;
    }
    return syscall(SYS_writev, file, parts, count);
}

int fsync(int file) {
    if (watched(file) && fails()) return -1;
    return syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    if (watched(file) && fails()) return -1;
    return syscall(SYS_fdatasync, file);
}

int ftruncate64(int file, off64_t length) {
    if (watched(file) && fails()) return -1;
    return syscall(SYS_ftruncate, file, length);
}

int ftruncate(int file, off_t length) { return ftruncate64(file, length); }

int rename(const char *from, const char *to) {
    if (watched_path(to) && fails()) return -1;
    return syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t count, unsigned flags) {
    if (watched(to)) {
        if (fails()) return -1;
        if (all_short() && count > 1) count = (count + 1) / 2;
    }
    return syscall(SYS_copy_file_range, from, at, to, there, count, flags);
}
