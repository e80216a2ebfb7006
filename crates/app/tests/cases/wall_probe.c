/* Tries what a command must not be able to do, and prints what came of it: one line each. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void told(const char *what, long result) {
    printf("%s %s\n", what, result >= 0 ? "ok" : strerrorname_np(errno));
    fflush(stdout);
}

static struct sockaddr_un at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    return address;
}

static void calls(void) {
    told("io_uring_setup", syscall(425, 1, NULL));
    told("io_uring_enter", syscall(426, -1, 0, 0, 0, NULL, 0));
    told("io_uring_register", syscall(427, -1, 0, NULL, 0));
    told("fanotify_init", syscall(SYS_fanotify_init, 0, 0));
    told("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0));
    told("process_vm_readv", syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0));
    told("process_vm_writev", syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0));
    told("syslog", syscall(SYS_syslog, 10, NULL, 0));
    told("personality_exec", syscall(SYS_personality, 0x0400000));
    told("personality_query", syscall(SYS_personality, 0xffffffff));
    told("personality_no_randomize", syscall(SYS_personality, 0x0040000));
#ifdef __x86_64__
    told("modify_ldt", syscall(SYS_modify_ldt, 0, NULL, 0));
    told("x32_socket", syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0));
    pid_t child = fork();
    if (child == 0) {
        /* socketcall of 32-bit programs */
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(102), "b"(1), "c"(0) : "memory");
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("int_0x80 %s\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? "killed" : "lived");
#endif
    told("vsock", socket(40, SOCK_STREAM, 0));
    told("alg", socket(38, SOCK_SEQPACKET, 0));
    told("packet", socket(17, SOCK_RAW, 0));
    told("netlink_audit", socket(16, SOCK_RAW, 9));
    told("netlink_route", socket(16, SOCK_RAW, 0));
    told("inet", socket(AF_INET, SOCK_STREAM, 0));
    int pair[2];
    told("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    told("socketpair_vsock", socketpair(40, SOCK_STREAM, 0, pair));
    struct rlimit limit;
    told("limit_own", prlimit(0, RLIMIT_NOFILE, NULL, &limit));
    told("limit_first", prlimit(1, RLIMIT_NOFILE, NULL, &limit));
    told("limit_parent", prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit));
    told("shared_memory", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
}

static void connect_to(const char *path) {
    struct sockaddr_un address = at(path);
    int stream = socket(AF_UNIX, SOCK_STREAM, 0);
    told("stream", stream < 0 ? stream : connect(stream, (void *)&address, sizeof address));
    int datagram = socket(AF_UNIX, SOCK_DGRAM, 0);
    told("datagram", datagram < 0 ? datagram : sendto(datagram, "x", 1, 0, (void *)&address, sizeof address));
}

/* A socket of its own, which another process of the command connects to. */
static void own(const char *path) {
    struct sockaddr_un address = at(path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (void *)&address, sizeof address) < 0 || listen(listener, 1) < 0) {
        told("own", -1);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        int client = socket(AF_UNIX, SOCK_STREAM, 0);
        _exit(connect(client, (void *)&address, sizeof address) == 0 ? 0 : errno);
    }
    int status = 0;
    waitpid(child, &status, 0);
    errno = WEXITSTATUS(status);
    told("own", errno ? -1 : 0);
}

/* Changes what Landlock does not know of. */
static void dress(const char *path) {
    struct timespec times[2] = {{1, 0}, {1, 0}};
    told("chmod", chmod(path, 0777));
    told("chown", chown(path, getuid(), getgid()));
    told("utimensat", utimensat(AT_FDCWD, path, times, 0));
    told("setxattr", syscall(SYS_setxattr, path, "user.walls", "x", 1, 0));
    int file = open(path, O_RDONLY);
    if (file >= 0) {
        told("fchmod", fchmod(file, 0777));
        told("fchown", fchown(file, getuid(), getgid()));
        told("futimens", futimens(file, times));
        told("fsetxattr", syscall(SYS_fsetxattr, file, "user.walls", "x", 1, 0));
    }
    told("fchmodat2", syscall(452, AT_FDCWD, path, 0777, 0));
}

/* Forks until it is refused; each child stays. */
static void crowd(int most) {
    int made = 0;
    while (made < most) {
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        if (child < 0) {
            printf("fork %s after %d\n", strerrorname_np(errno), made);
            fflush(stdout);
            exit(3);
        }
        made++;
    }
    printf("made %d\n", made);
}

/* Takes memory, touches it, and stays. */
static void memory(long megabytes) {
    for (long taken = 0; taken < megabytes; taken++) {
        char *block = malloc(1 << 20);
        if (!block) {
            told("malloc", -1);
            exit(3);
        }
        memset(block, 1, 1 << 20);
    }
    printf("took %ld\n", megabytes);
    fflush(stdout);
    pause();
}

/* Fills a file in memory that is mapped nowhere, and stays. */
static void memory_file(long megabytes) {
    static char block[1 << 20];
    int file = memfd_create("probe", 0);
    for (long taken = 0; taken < megabytes; taken++) {
        if (write(file, block, sizeof block) != sizeof block) {
            told("write", -1);
            exit(3);
        }
    }
    pause();
}

/* Fills memory that others could share, and stays. */
static void shared(long megabytes) {
    size_t size = megabytes << 20;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        told("mmap", -1);
        exit(3);
    }
    memset(block, 1, size);
    pause();
}

/* Fills System V segments that are attached nowhere afterwards, and stays. */
static void segments(long megabytes) {
    for (long taken = 0; taken < megabytes; taken += 16) {
        int segment = shmget(IPC_PRIVATE, 16 << 20, IPC_CREAT | 0600);
        char *block = segment < 0 ? (void *)-1 : shmat(segment, NULL, 0);
        if (block == (void *)-1) {
            told("segment", -1);
            exit(3);
        }
        memset(block, 1, 16 << 20);
        shmdt(block);
    }
    pause();
}

int main(int count, char **words) {
    const char *verb = count > 1 ? words[1] : "";
    const char *word = count > 2 ? words[2] : "";
    if (!strcmp(verb, "calls")) calls();
    else if (!strcmp(verb, "connect")) connect_to(word);
    else if (!strcmp(verb, "own")) own(word);
    else if (!strcmp(verb, "dress")) dress(word);
    else if (!strcmp(verb, "crowd")) crowd(atoi(word));
    else if (!strcmp(verb, "memory")) memory(atol(word));
    else if (!strcmp(verb, "memory_file")) memory_file(atol(word));
    else if (!strcmp(verb, "shared")) shared(atol(word));
    else if (!strcmp(verb, "segments")) segments(atol(word));
    else return 2;
    return 0;
}
