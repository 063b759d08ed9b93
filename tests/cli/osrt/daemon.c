/* A daemon: two forks, all descriptors closed, 0 to 2 opened again, which must get these very numbers. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int status, fds[2];
    char c;
    if (pipe(fds)) return 1;
    if (fork() == 0) {
        setsid();
        if (fork()) _exit(0);
        for (int fd = 0; fd < 1024; fd++)
            if (fd != fds[1]) close(fd);
        if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2) _exit(1);
        int fd = open("daemon.log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd != 3 || write(fd, "alive\n", 6) != 6 || write(fds[1], "x", 1) != 1) _exit(2);
        closefrom(3);
        fd = open("daemon.log", O_WRONLY | O_APPEND);
        if (fd != 3 || write(fd, "still\n", 6) != 6) _exit(3);
        _exit(0);
    }
    close(fds[1]);
    wait(&status);
    if (read(fds[0], &c, 1) != 1) return 2;
    return read(fds[0], &c, 1) != 0 || status; /* the daemon closed its end */
}
