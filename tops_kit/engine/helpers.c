#define _GNU_SOURCE
#include "helpers.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 50000000 };

struct helpers {
    pthread_mutex_t lock;
    pthread_cond_t called, done;
    pid_t process; /* threads do not survive a fork */
    int32_t threads, idle;
    bool quit;
    void (*share)(void *, int32_t); /* NULL: nothing to do */
    void *data;
    int32_t wanted, taken, active;
};

static void *help(void *argument) {
    helpers *const h = argument;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (!h->quit && (!h->share || h->taken == h->wanted)) {
            h->idle++;
            pthread_cond_wait(&h->called, &h->lock);
            h->idle--;
        }
        if (h->quit) break;
        const int32_t number = ++h->taken;
        h->active++;
        void (*const share)(void *, int32_t) = h->share;
        void *const data = h->data;
        pthread_mutex_unlock(&h->lock);
        share(data, number);
        pthread_mutex_lock(&h->lock);
        if (--h->active == 0) pthread_cond_signal(&h->done);
    }
    h->threads--;
    pthread_cond_signal(&h->done);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void begin(helpers *h) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
#ifndef __APPLE__
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->called, NULL);
    pthread_cond_init(&h->done, &attributes);
    pthread_condattr_destroy(&attributes);
    h->process = getpid();
    h->threads = h->idle = h->wanted = h->taken = h->active = 0;
    h->share = NULL;
}

helpers *helpers_new(void) {
    helpers *const h = calloc(1, sizeof *h);
    if (h) begin(h);
    return h;
}

void helpers_free(helpers *h) {
    if (!h) return;
    if (h->process == getpid()) {
        pthread_mutex_lock(&h->lock);
        h->quit = true;
        pthread_cond_broadcast(&h->called);
        while (h->threads) pthread_cond_wait(&h->done, &h->lock);
        pthread_mutex_unlock(&h->lock);
        pthread_mutex_destroy(&h->lock);
        pthread_cond_destroy(&h->called);
        pthread_cond_destroy(&h->done);
    }
    free(h);
}

/* One more helper. It takes no signal: those are for the program's own threads. */
static bool hire(helpers *h) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    pthread_t id;
    if (pthread_attr_init(&attributes) != 0) return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool hired = pthread_create(&id, &attributes, help, h) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    h->threads += hired;
    return hired;
}

void helpers_call(helpers *h, int32_t count, void (*share)(void *data, int32_t number), void *data) {
    if (h->process != getpid()) begin(h); /* a child of fork: the locks of the parent's threads mean nothing here */
    pthread_mutex_lock(&h->lock);
    while (h->threads < count && hire(h)) {}
    h->share = share;
    h->data = data;
    h->wanted = count < h->threads ? count : h->threads;
    h->taken = 0;
    if (h->wanted == 1) {
        pthread_cond_signal(&h->called);
    } else {
        pthread_cond_broadcast(&h->called);
    }
    pthread_mutex_unlock(&h->lock);
}

void helpers_dismiss(helpers *h, int (*look)(void *), void *look_data) {
    if (h->process != getpid()) return;
    pthread_mutex_lock(&h->lock);
    h->share = NULL;
    while (h->active) {
        struct timespec until;
#ifdef __APPLE__
        clock_gettime(CLOCK_REALTIME, &until);
#else
        clock_gettime(CLOCK_MONOTONIC, &until);
#endif
        until.tv_nsec += LOOK_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&h->done, &h->lock, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&h->lock);
        look(look_data);
        pthread_mutex_lock(&h->lock);
    }
    pthread_mutex_unlock(&h->lock);
}
