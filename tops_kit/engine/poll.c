/* What every thread looks at now and then: whether the launch has to end. */
#include <time.h>
#include "launch.h"

int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int launch_poll(launch *l, bool launching) {
    const int64_t now = monotonic_ns();
    if (launching && l->signals && now >= l->next_signals_ns) {
        l->next_signals_ns = now + SIGNALS_NS;
        if (l->signals(l->signals_data)) atomic_store(&l->stop, FAULT_STOPPED);
    }
    if (l->deadline_ns && now > l->deadline_ns && !atomic_load(&l->stop)) atomic_store(&l->stop, FAULT_TIMEOUT);
    return atomic_load(&l->stop);
}

int machine_poll(thread *self) {
    self->work = POLL_WORK;
    int stop = launch_poll(self->launch, self->launching);
    if (!stop && atomic_load(&self->launch->limit) < self->unit) stop = FAULT_STOPPED;
    return stop ? fault_set(self, stop, NULL, 0, 0, 0, 0) : FAULT_NONE;
}
