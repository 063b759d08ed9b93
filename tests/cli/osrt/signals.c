/* I/O in a signal handler, on a small stack of its own, that interrupts malloc, recorded calls and their recording at any place,
 * and sometimes jumps away. Ends with 0 where every call did what it should. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int null;
static volatile long handled;
static sigjmp_buf back;
static volatile sig_atomic_t may_jump;

static void on_alarm(int number) {
    int saved = errno, fd;
    (void)number;
    handled++;
    if (write(null, "x", 1) != 1) _exit(9);
    fd = open("/dev/zero", O_RDONLY);
    if (fd < 0 || close(fd)) _exit(10);
    errno = saved;
    if (may_jump && handled % 7 == 0) siglongjmp(back, 1);
}

static void *worker(void *unused) {
    for (int k = 0; k < 5000; k++) {
        char *block = malloc(100 + (size_t)k % 5000);
        errno = 5;
        if (write(null, block, 10) != 10 || errno != 5) _exit(8);
        free(block);
    }
    return unused;
}

int main(void) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 8192};
    struct itimerval every = {{0, 300}, {0, 300}};
    struct sigaction action;
    pthread_t threads[4];
    null = open("/dev/null", O_WRONLY);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    if (sigaltstack(&stack, NULL) || sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &every, NULL)) return 2;
    for (int k = 0; k < 4; k++)
        if (pthread_create(&threads[k], NULL, worker, NULL)) return 3;
    for (int k = 0; k < 4; k++)
        if (pthread_join(threads[k], NULL)) return 4;
    for (volatile int k = 0; k < 10000; k++) {
        if (sigsetjmp(back, 1)) continue;
        may_jump = 1;
        if (write(null, "abc", 3) != 3) return 1;
        may_jump = 0;
    }
    return handled == 0;
}
