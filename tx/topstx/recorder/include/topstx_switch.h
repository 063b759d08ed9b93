/* topstx_switch.h - what turns recording on and off from within the program: capture ranges, and topstx_profiler_start/stop
 * (internal to topstx.h). Both count in control.capture_count, and their ends do what control.capture_end says. */
#ifndef TOPSTX_SWITCH_H
#define TOPSTX_SWITCH_H
#include "topstx_process.h"

#define TOPSTXI_COLLECTOR_GONE_NS 10000000000u /* without a heartbeat for so long nobody will take records again */

/* Is this range one of those that pass by before the first that is captured? Counts it. */
TOPSTXI_SLOW int topstxi_skipped(topstx_control *c) {
    uint32_t left = __atomic_load_n(&c->capture_skip, __ATOMIC_ACQUIRE);
    while (left)
        if (__atomic_compare_exchange_n(&c->capture_skip, &left, left - 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return 1;
    return 0;
}

/* Recording is armed: does a range of this name and domain switch it on? Then *flags gets FLAG_CAPTURE. Returns whether to record it. */
TOPSTXI_SLOW int topstxi_capture(const char *name, size_t name_bytes, const char *domain, size_t domain_bytes, uint32_t *flags) {
    topstx_control *c = topstxi_state.control;
    uint32_t armed = TOPSTX_RECORDING_ARMED;
    if (!c || strlen(c->capture_name) != name_bytes || memcmp(c->capture_name, name, name_bytes)) return 0;
    if (strlen(c->capture_domain) != domain_bytes || memcmp(c->capture_domain, domain, domain_bytes)) return 0;
    if (__atomic_load_n(&c->recording, __ATOMIC_ACQUIRE) == TOPSTX_RECORDING_ARMED && topstxi_skipped(c)) return 0;
    if (__atomic_compare_exchange_n(&c->recording, &armed, TOPSTX_RECORDING_ON, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        *flags |= TOPSTX_FLAG_CAPTURE;
    return armed != TOPSTX_RECORDING_OFF;
}

/* May another capture begin after `count`? */
static inline int topstxi_captures_left(const topstx_control *c, uint32_t count) {
    if (c->capture_end == TOPSTX_CAPTURE_END_REPEAT) return !c->capture_repeats || count < c->capture_repeats;
    return c->capture_end == TOPSTX_CAPTURE_END_NONE || count == 0;
}

/* What the end of the captured range does to the recording. */
TOPSTXI_SLOW void topstxi_capture_end(void) {
    topstx_control *c = topstxi_state.control;
    uint32_t count = __atomic_add_fetch(&c->capture_count, 1, __ATOMIC_RELAXED);
    if (c->capture_end == TOPSTX_CAPTURE_END_NONE) return;
    if (topstxi_captures_left(c, count)) {
        __atomic_store_n(&c->recording, TOPSTX_RECORDING_ARMED, __ATOMIC_RELEASE);
        return;
    }
    __atomic_store_n(&c->recording, TOPSTX_RECORDING_OFF, __ATOMIC_RELEASE);
    if (c->capture_end == TOPSTX_CAPTURE_END_STOP_SHUTDOWN) __atomic_store_n(&c->shutdown_request, 1, __ATOMIC_RELEASE);
}

/* Switch the session's recording on, where it is off, not waiting for a range, and not over. */
TOPSTXI_SLOW void topstxi_profiler_start(void) {
    topstx_control *c = topstxi_state.control;
    uint32_t off = TOPSTX_RECORDING_OFF;
    uint64_t heartbeat;
    if (!c || c->capture_name[0] || __atomic_load_n(&c->shutdown_request, __ATOMIC_ACQUIRE)) return;
    if (!topstxi_captures_left(c, __atomic_load_n(&c->capture_count, __ATOMIC_ACQUIRE))) return;
    heartbeat = __atomic_load_n(&c->heartbeat_ns, __ATOMIC_RELAXED);
    if (heartbeat && topstxi_monotonic() > heartbeat + TOPSTXI_COLLECTOR_GONE_NS) return;
    __atomic_compare_exchange_n(&c->recording, &off, TOPSTX_RECORDING_ON, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Switch it off again, and count that. Of several that stop at once one does it. */
TOPSTXI_SLOW void topstxi_profiler_stop(void) {
    topstx_control *c = topstxi_state.control;
    uint32_t on = TOPSTX_RECORDING_ON;
    if (!c || c->capture_name[0]) return;
    if (!__atomic_compare_exchange_n(&c->recording, &on, TOPSTX_RECORDING_OFF, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
    __atomic_add_fetch(&c->capture_count, 1, __ATOMIC_RELEASE);
    if (c->capture_end == TOPSTX_CAPTURE_END_STOP_SHUTDOWN) __atomic_store_n(&c->shutdown_request, 1, __ATOMIC_RELEASE);
}
#endif /* TOPSTX_SWITCH_H */
