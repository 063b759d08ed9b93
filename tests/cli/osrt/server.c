/* A server with N connections at once (the first argument), from one client process; prints how many it had. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int client(struct sockaddr_in *address, int count) {
    int *fds = malloc(sizeof *fds * (size_t)count);
    char answer[4];
    for (int k = 0; k < count; k++) {
        fds[k] = socket(AF_INET, SOCK_STREAM, 0);
        if (fds[k] < 0 || connect(fds[k], (struct sockaddr *)address, sizeof *address)) return 1;
        if (send(fds[k], "ping", 4, 0) != 4) return 2;
    }
    for (int k = 0; k < count; k++)
        if (recv(fds[k], answer, 4, MSG_WAITALL) != 4) return 3;
    return 0;
}

int main(int argc, char **argv) {
    struct rlimit files;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    struct epoll_event event = {.events = EPOLLIN}, ready[64];
    int count = argc > 1 ? atoi(argv[1]) : 10000, fd = socket(AF_INET, SOCK_STREAM, 0), loop = epoll_create1(0);
    int accepted = 0, answered = 0, status;
    char text[4];
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < (rlim_t)count + 64) count = (int)files.rlim_cur - 64;
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 4096) || getsockname(fd, (struct sockaddr *)&address, &size)) return 1;
    if (fork() == 0) _exit(client(&address, count));
    event.data.fd = fd;
    epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
    while (answered < count) {
        int many = epoll_wait(loop, ready, 64, 20000);
        if (many <= 0) return 2;
        for (int k = 0; k < many; k++) {
            if (ready[k].data.fd == fd) {
                event.data.fd = accept(fd, NULL, NULL);
                if (event.data.fd < 0) return 3;
                accepted++;
                epoll_ctl(loop, EPOLL_CTL_ADD, event.data.fd, &event);
            } else {
                if (recv(ready[k].data.fd, text, 4, 0) != 4 || send(ready[k].data.fd, "pong", 4, 0) != 4) return 4;
                answered++;
            }
        }
    }
    if (wait(&status) < 0 || status) return 5;
    printf("%d\n", accepted);
    return 0;
}
