/* Processes of every kind: forks, forks that no handler sees, vfork, exec that fails and that works, cancelled threads, spawns. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int contended;

static void *reader(void *fd) {
    char c;
    while (read(*(int *)fd, &c, 1) >= 0) {
    }
    return NULL;
}

static void *locker(void *unused) {
    pthread_mutex_lock(&lock);
    contended++;
    pthread_mutex_unlock(&lock);
    return unused;
}

static int ended(pid_t pid) {
    int status;
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

int main(void) {
    int fds[2], fd = open("shared", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    char line[100];
    pid_t pids[64], pid;
    pthread_t thread, lockers[3];
    void *result;
    FILE *stream;
    for (int k = 0; k < 64; k++)
        if (!(pids[k] = fork())) {
            for (int j = 0; j < 10; j++)
                if (write(fd, "forked\n", 7) != 7) _exit(1);
            _exit(0);
        }
    for (int k = 0; k < 64; k++)
        if (ended(pids[k])) return 1;
    if (!(pid = (pid_t)syscall(SYS_fork))) {
        for (int j = 0; j < 10; j++)
            if (write(fd, "a bare fork\n", 12) != 12) _exit(1);
        _exit(0);
    }
    if (ended(pid)) return 3;
    if (!(pid = vfork())) {
        close(fd);
        dup2(1, fd);
        execl("/no/such/program", "x", NULL);
        execl("/bin/sh", "sh", "-c", "echo of a vfork", NULL);
        _exit(4);
    }
    if (ended(pid)) return 4;
    if (write(fd, "parent\n", 7) != 7) return 5;
    if (pipe(fds) || pthread_create(&thread, NULL, reader, &fds[0]) || write(fds[1], "x", 1) != 1) return 6;
    pthread_cancel(thread);
    if (pthread_join(thread, &result) || result != PTHREAD_CANCELED) return 7;
    pthread_mutex_lock(&lock);
    for (int k = 0; k < 3; k++)
        if (pthread_create(&lockers[k], NULL, locker, NULL)) return 8;
    usleep(20000);
    pthread_mutex_unlock(&lock);
    for (int k = 0; k < 3; k++) pthread_join(lockers[k], NULL);
    if (contended != 3 || system("exit 3") != 3 << 8) return 9;
    stream = popen("echo piped", "r");
    if (!stream || !fgets(line, sizeof line, stream) || strcmp(line, "piped\n") || pclose(stream)) return 10;
    execlp("sh", "sh", "-c", "echo replaced; exit 42", NULL);
    return 11;
}
